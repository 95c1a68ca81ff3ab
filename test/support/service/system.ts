/**
 * A system for tests: a clock that stands still until it is told to move, and chance that repeats from a seed.
 */
import type { Instant, System } from "../../../src/system.ts";

export interface ManualSystem extends System {
  /** Moves the clock on. */
  advance(ms: number): void;
}

/** A moment in the past on a whole minute, so that failures read well. */
export const testEpochMs = Date.UTC(2026, 0, 1, 12, 0, 0);

export function createManualSystem(seed = 1, startMs: Instant = testEpochMs): ManualSystem {
  let now = startMs;
  const random = seededRandom(seed);
  return {
    now: () => now,
    monotonicMs: () => now,
    resumeFrom: (instant) => {
      now = Math.max(now, instant);
    },
    advance: (ms) => {
      now += ms;
    },
    // Real waits: what runs under this clock in a test is a server with real sockets.
    after: (ms, act) => {
      const timer = setTimeout(act, ms);
      return () => clearTimeout(timer);
    },
    randomBytes: (count) => Uint8Array.from({ length: count }, () => Math.floor(random() * 256)),
  };
}

/** A system in which nothing recurs: what a service does by itself it does at its start, and then when it is nudged. */
export function createQuietSystem(): ManualSystem {
  const system = createManualSystem();
  return { ...system, after: (ms, act) => (ms < 500 ? system.after(ms, act) : () => {}) };
}

/** A system whose waits end once its clock has been moved past them, or in real time where that comes first. */
export function createSteppedSystem(): ManualSystem {
  const system = createManualSystem();
  const waits = new Set<{ readonly atMs: Instant; readonly end: () => void }>();
  return {
    ...system,
    after(ms, act) {
      const cancel = () => {
        waits.delete(wait);
        cancelReal();
      };
      const end = () => {
        cancel();
        act();
      };
      const wait = { atMs: system.now() + ms, end };
      waits.add(wait);
      const cancelReal = system.after(ms, end);
      return cancel;
    },
    advance(ms) {
      system.advance(ms);
      // Those that the ends of these begin are for later.
      const over = [...waits].filter(({ atMs }) => atMs <= system.now());
      for (const { end } of over) end();
    },
  };
}

/** mulberry32: numbers in [0, 1) that depend on the seed alone. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
