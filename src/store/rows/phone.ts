/**
 * Between what is kept of a phone and its rows: one of its history, and one for each bucket of its limits.
 */
import { type PhoneHistory } from "../../otp/policy.ts";

export interface PhoneRow {
  phone_index: Uint8Array;
  wrong_codes: string;
  refunds: string;
}

export function toHistory(row: PhoneRow): PhoneHistory {
  return {
    wrongCodes: JSON.parse(row.wrong_codes) as PhoneHistory["wrongCodes"],
    refunds: JSON.parse(row.refunds) as PhoneHistory["refunds"],
  };
}

/** Joins what two master keys know of one phone. */
export function mergeHistories(a: PhoneHistory, b: PhoneHistory): PhoneHistory {
  const byDay = new Map<number, number>();
  for (const [day, count] of [...a.wrongCodes, ...b.wrongCodes]) byDay.set(day, (byDay.get(day) ?? 0) + count);
  return {
    wrongCodes: [...byDay].toSorted(([x], [y]) => x - y),
    refunds: [...a.refunds, ...b.refunds].toSorted((x, y) => x - y),
  };
}

export interface BucketRow {
  bucket: Uint8Array;
  tat_ms: number;
}

/** A bucket's key: the phone's index and one byte for the lane and the limit's place. Named limits are a lane of their own. */
export function bucketKey(index: Uint8Array, knownUser: boolean, place: number): Buffer {
  return Buffer.concat([index, Uint8Array.of((knownUser ? 0x20 : 0x10) | place)]);
}

/** The key of a named limit's bucket. */
export function limitBucketKey(index: Uint8Array, place: number): Buffer {
  return Buffer.concat([index, Uint8Array.of(0x30 | place)]);
}
