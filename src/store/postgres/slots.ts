/**
 * Names for records of Idempotency-Keys on PostgreSQL, where instances of an earlier version may run beside this one: each
 * record is renamed under the lock that they take, too.
 */
import { isBare, keyed, type SlotOf } from "../../otp/idempotency.ts";
import type { Batches } from "./batches.ts";
import type { Connections } from "./connections.ts";
import { statements as sql } from "./statements.ts";

/** As Store.keySlots. */
export async function keySlots(
  { connections, batches }: { readonly connections: Connections; readonly batches: Batches },
  from: Uint8Array,
  max: number,
  slotOf: SlotOf,
): Promise<Uint8Array | undefined> {
  const page = (await connections.query<{ slot: Uint8Array }>(sql.staleRecords, [from, max])).map(({ slot }) => slot);
  const renamed = page.filter(isBare).map((digest) => {
    const slot = slotOf(digest);
    return batches.run({
      slot,
      run: (work) => {
        const found = work.recordsOf(slot);
        const record = keyed(slot, found, work.now);
        if (record === undefined) return;
        for (const { slot: name } of found) work.removeRecord(name);
        work.putRecord(record);
      },
    });
  });
  await Promise.all(renamed);
  return page.length < max ? undefined : page.at(-1);
}
