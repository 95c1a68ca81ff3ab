/**
 * Records of Idempotency-Keys on SQLite, by the names that they may be stored under. Runs within acts.
 */
import type { Database, Statement } from "better-sqlite3";
import { isBare, keyed, latestOf, type IdempotencyRecord, type Slot, type SlotOf } from "../../otp/idempotency.ts";
import type { Instant } from "../../system.ts";
import { recordValues, toRecord, type RecordRow } from "../rows/record.ts";
import type { prepare } from "./statements.ts";

export function createSlots(db: Database, sql: ReturnType<typeof prepare>) {
  /** By how many names are asked for: one more than there are master keys. */
  const finders = new Map<number, Statement<unknown[], RecordRow>>();

  function all({ names }: Slot): IdempotencyRecord[] {
    let finder = finders.get(names.length);
    if (finder === undefined) {
      const marks = names.map(() => "?").join(", ");
      finder = db.prepare<unknown[], RecordRow>(
        `SELECT slot, kid, fingerprint, verification_id, answer, busy_until_ms, expire_ms FROM idempotency
         WHERE slot IN (${marks})`,
      );
      finders.set(names.length, finder);
    }
    return finder.all(...names).map(toRecord);
  }

  return {
    find: (slot: Slot | undefined) => (slot === undefined ? undefined : latestOf(all(slot))),

    /** As Store.keySlots. */
    key(from: Uint8Array, max: number, slotOf: SlotOf, now: Instant): Uint8Array | undefined {
      const page = sql.recordsFrom.all(from, max).map(({ slot }) => slot);
      for (const digest of page.filter(isBare)) {
        const slot = slotOf(digest);
        const found = all(slot);
        const record = keyed(slot, found, now);
        if (record === undefined) continue;
        for (const { slot: name } of found) sql.deleteRecord.run(name);
        sql.putRecord.run(...recordValues(record));
      }
      return page.length < max ? undefined : page.at(-1);
    },
  };
}
