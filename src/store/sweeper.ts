/**
 * The sweeper: every few seconds it has the store note what time has done. Verifications past their life lose their
 * salt, and what is past its retention is deleted. It works in small batches with pauses between them, so that a backlog
 * of a million rows costs the calls under way no more than one row would.
 */
import { recurring, sleep, type Recurring, type System } from "../system.ts";
import type { PhoneOf, Store, Swept } from "./store.ts";

/** A salt is erased within 60 s of its verification's end. */
const everyMs = 15_000;
const batchRowsMax = 200;
const pauseMs = 20;

/**
 * Sweeps until nothing is left, in batches with pauses between them. `told` hears of each batch, and ends it all by
 * returning false.
 */
export async function sweepThrough(
  store: Store,
  system: System,
  retentionMs: number,
  told: (swept: Swept) => boolean,
  phoneOf?: PhoneOf,
): Promise<void> {
  for (;;) {
    const swept = await store.sweep(batchRowsMax, retentionMs, phoneOf);
    if (!told(swept) || !swept.more) return;
    await sleep(system, pauseMs);
  }
}

export function createSweeper(
  store: Store,
  system: System,
  retentionMs: number,
  phoneOf: PhoneOf,
  onFault: (error: unknown) => void,
): Recurring {
  return recurring(
    system,
    everyMs,
    (isStopping) => sweepThrough(store, system, retentionMs, () => !isStopping(), phoneOf),
    onFault,
  );
}
