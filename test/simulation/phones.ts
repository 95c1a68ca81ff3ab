/**
 * What a simulation's database keeps of phones, read from outside: in rows of its own, and in their latest verifications'.
 */
import type { Database } from "better-sqlite3";
import type { PhoneHistory } from "../../src/otp/verification/policy.ts";
import { toHistory, toPhoneState, type PhoneRow, type PhoneState } from "../../src/store/rows/phone.ts";

export function histories(db: Database): PhoneHistory[] {
  const own = db.prepare<[], PhoneRow>("SELECT * FROM phones").all().map(toHistory);
  return [...own, ...states(db).flatMap(({ history }) => history ?? [])];
}

/** The sum of the moments at which all buckets are full again. */
export function tatSum(db: Database): number {
  const own = Number(db.prepare("SELECT coalesce(sum(tat_ms), 0) FROM buckets").pluck().get());
  return states(db).reduce((sum, { tats }) => [...tats.values()].reduce((a, b) => a + b, sum), own);
}

function states(db: Database): PhoneState[] {
  const all = db.prepare<[], Uint8Array>("SELECT of_phone FROM verifications WHERE of_phone IS NOT NULL");
  return all.pluck().all().map(toPhoneState);
}
