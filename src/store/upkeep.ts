/**
 * The upkeep runs the store's sweep every few seconds. Verifications past their life lose their salt, and what is past
 * its retention is deleted. It works in small batches with pauses between them, so that a backlog of a million rows
 * costs the calls under way no more than one row does.
 */
import type { SlotOf } from "../otp/verification/idempotency.ts";
import { recurring, sleep, type Recurring, type System } from "../system.ts";
import type { PhoneOf, Store, Sweeping, Swept } from "./store.ts";

/** A salt is erased within 60 s of its verification's end. */
const everyMs = 15_000;
/**
 * How often tables that have no index on time are read through, row by row. Lapsed rows there no longer count and only
 * take room. If each sweep read them, an idle server with a million rows would do nothing else.
 */
const roundEveryMs = 3_600_000;
const batchRowsMax = 200;
const pauseMs = 20;
/** Names that are changed at once. */
const pageRowsMax = 500;

export interface SweepOptions {
  readonly retentionMs: number;
  /** Hears of each batch, and ends it all by returning false. */
  readonly onSwept: (swept: Swept) => boolean;
  /** As for `Store.sweep`. */
  readonly phoneOf?: PhoneOf | undefined;
  readonly what?: Sweeping;
}

/** Sweeps until nothing is left, in batches with pauses between them. */
export async function sweepThrough(
  store: Store,
  system: System,
  { retentionMs, onSwept, phoneOf, what = "all" }: SweepOptions,
): Promise<void> {
  for (;;) {
    const swept = await store.sweep(batchRowsMax, retentionMs, phoneOf, what);
    if (!onSwept(swept) || !swept.more) return;
    await sleep(system, pauseMs);
  }
}

/** Gives every record that an earlier version stored under a bare digest its keyed name; `goOn` is asked after each page. */
export async function keyThrough(store: Store, slotOf: SlotOf, goOn = async () => true): Promise<void> {
  let from: Uint8Array | undefined = new Uint8Array();
  do from = await store.keySlots(from, pageRowsMax, slotOf);
  while (from !== undefined && (await goOn()));
}

export function createUpkeep(
  { store, system, phoneOf, slotOf }: { store: Store; system: System; phoneOf: PhoneOf; slotOf: SlotOf },
  retentionMs: number,
  onFault: (error: unknown) => void,
): Recurring {
  let roundAtMs = Number.NEGATIVE_INFINITY;
  return recurring(
    system,
    everyMs,
    async (isStopping) => {
      const isRound = system.monotonicMs() >= roundAtMs;
      const what = isRound ? "all" : "found by time";
      await sweepThrough(store, system, { retentionMs, onSwept: () => !isStopping(), phoneOf, what });
      if (!isRound) return;
      // On PostgreSQL, what an instance of an earlier version has written since.
      await keyThrough(store, slotOf, async () => {
        await sleep(system, pauseMs);
        return !isStopping();
      });
      roundAtMs = system.monotonicMs() + roundEveryMs;
    },
    onFault,
  );
}
