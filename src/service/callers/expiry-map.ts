/**
 * Times by name, up to so many: limits and expiries of this process. A time that has passed means the same as none, so
 * those are forgotten first.
 *
 * If no time has passed yet, the earliest of a few is forgotten for a new one. If the new one were refused, whoever
 * fills the map would shut everybody else out.
 */
import type { Instant } from "../../system.ts";

export interface ExpiryMap {
  /** The time of a name; 0 for none. */
  get(name: string): Instant;
  /** Keeps a time; one that is not after `now` is forgotten. */
  set(name: string, time: Instant, now: Instant): void;
  /** How many are kept. */
  readonly size: number;
}

/** How many are looked at when one is added. */
const looks = 8;

/** Makes a map of at most `entriesMax` times, 1 or more. Its size does not slow it down. */
export function createExpiryMap(entriesMax: number): ExpiryMap {
  const kept = new Map<string, Instant>();
  // One iterator for all: a new one each time would walk over all entries that were deleted at the front.
  let hand = kept.entries();

  function next(): [string, Instant] | undefined {
    const step = hand.next();
    if (step.done !== true) return step.value;
    hand = kept.entries();
    return undefined;
  }

  function makeRoom(now: Instant): void {
    let earliest: [string, Instant] | undefined;
    for (let look = 0; look < looks; look++) {
      const entry = next();
      if (entry === undefined) continue;
      const [name, time] = entry;
      if (time <= now) kept.delete(name);
      else if (earliest === undefined || time < earliest[1]) earliest = entry;
    }
    if (kept.size >= entriesMax && earliest !== undefined) kept.delete(earliest[0]);
  }

  return {
    get: (name) => kept.get(name) ?? 0,
    set(name, time, now) {
      if (time <= now) {
        kept.delete(name);
        return;
      }
      if (!kept.has(name)) makeRoom(now);
      kept.set(name, time);
    },
    get size() {
      return kept.size;
    },
  };
}
