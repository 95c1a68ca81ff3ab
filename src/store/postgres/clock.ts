/**
 * The clock of the store on PostgreSQL: the database's own, so that instances whose clocks differ agree on every limit and
 * lifetime.
 */
import type { Instant, System } from "../../system.ts";

/** The store's clock: the database's, by the latest look at it. */
export interface StoreClock {
  now(): Instant;
  /** Notes what the database's clock said just now. */
  heard(databaseMs: Instant): void;
}

/** The machine's own clock, for tests. */
export function clockOf(system: System): StoreClock {
  return { now: () => system.now(), heard: () => {} };
}

/**
 * The database's clock between two looks at it, by the time that passes here: the machine's own clock may be hours off, and
 * may be set. Never runs backwards.
 */
export function databaseClock(system: System): StoreClock {
  let aheadMs = 0;
  let latestMs = 0;
  return {
    now() {
      latestMs = Math.max(latestMs, Math.floor(system.monotonicMs() + aheadMs));
      return latestMs;
    },
    heard(databaseMs) {
      aheadMs = databaseMs - system.monotonicMs();
    },
  };
}
