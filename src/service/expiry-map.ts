/**
 * A memory of moments, each by a name, that never holds more than so many: what limits and lapses are kept by in this
 * process. A moment that has passed says the same as none, so those are forgotten first.
 *
 * Full of moments still to come, it forgets the nearest of a few to make room for a new one: refusing the new one would
 * let whoever fills it shut everybody else out.
 */
import type { Instant } from "../system.ts";

export interface Moments {
  /** The moment kept under a name; 0 for none. */
  get(name: string): Instant;
  /** Keeps a moment; one that is not after `now` is forgotten. */
  set(name: string, moment: Instant, now: Instant): void;
  /** How many are kept. */
  readonly size: number;
}

/** How many are looked at when one is added. */
const looks = 8;

/** Makes a memory of at most `entriesMax` moments, 1 or more. An act takes the same time however many there are. */
export function createMoments(entriesMax: number): Moments {
  const kept = new Map<string, Instant>();
  // It goes round and round: an iterator of its own for each act would walk over all that was deleted before it.
  let hand = kept.entries();

  function next(): [string, Instant] | undefined {
    const step = hand.next();
    if (step.done !== true) return step.value;
    hand = kept.entries();
    return undefined;
  }

  function makeRoom(now: Instant): void {
    let nearest: [string, Instant] | undefined;
    for (let look = 0; look < looks; look++) {
      const entry = next();
      if (entry === undefined) continue;
      const [name, moment] = entry;
      if (moment <= now) kept.delete(name);
      else if (nearest === undefined || moment < nearest[1]) nearest = entry;
    }
    if (kept.size >= entriesMax && nearest !== undefined) kept.delete(nearest[0]);
  }

  return {
    get: (name) => kept.get(name) ?? 0,
    set(name, moment, now) {
      if (moment <= now) {
        kept.delete(name);
        return;
      }
      if (!kept.has(name)) makeRoom(now);
      kept.set(name, moment);
    },
    get size() {
      return kept.size;
    },
  };
}
