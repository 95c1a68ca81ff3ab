/**
 * Between what is kept of a phone and its rows: one row of its history, and one for each bucket of its limits. SQLite
 * has all of it in one value instead, in the row of the phone's latest verification.
 */
import { emptyHistory, type PhoneHistory } from "../../otp/verification/policy.ts";
import { type Instant } from "../../system.ts";
import { numberReader, Packing } from "./values.ts";

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

/** The values of a history's row: index, wrong codes, refunds, and the master key that it is kept under. */
export function historyValues(
  index: Uint8Array,
  { wrongCodes, refunds }: PhoneHistory,
  kid: number,
): (Uint8Array | string | number)[] {
  return [index, JSON.stringify(wrongCodes), JSON.stringify(refunds), kid];
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

/** A bucket of an index is a number below 256: its lane, and its limit's place in that. Named limits are a lane of their own. */
export const lanes = { first: 0x10, known: 0x20, named: 0x30 } as const;

/** A bucket's key. */
export function bucketKey(index: Uint8Array, bucket: number): Buffer {
  return Buffer.concat([index, Uint8Array.of(bucket)]);
}

/** All that is kept of a phone. */
export interface PhoneState {
  /** By their buckets. */
  readonly tats: ReadonlyMap<number, Instant>;
  readonly history?: PhoneHistory | undefined;
}

/** What SQLite has of it in a verification's row. */
export interface HomeRow {
  readonly phone_index: Uint8Array;
  readonly kid: number;
  readonly of_phone: Uint8Array | null;
}

/** A row of any of the places where something of a phone may be kept: only one of the three is there. */
export type KeptRow =
  | (PhoneRow & { readonly tat_ms: null; readonly home: null })
  | { readonly phone_index: Uint8Array; readonly tat_ms: Instant; readonly home: null }
  | { readonly tat_ms: null; readonly home: Uint8Array; readonly of_phone: Uint8Array };

const layout = 1;

/**
 * Layout 1, in numbers as of values.ts:
 *
 *     1 | buckets | each: last byte of its key, TAT | days | each: day, wrong codes | refunds | each: when
 */
export function phoneStateBytes({ tats, history = emptyHistory }: PhoneState): Buffer {
  const packing = new Packing();
  packing.number(layout);
  packing.number(tats.size);
  for (const bucket of tats) for (const value of bucket) packing.number(value);
  const { wrongCodes, refunds } = history;
  packing.number(wrongCodes.length);
  for (const day of wrongCodes) for (const value of day) packing.number(value);
  packing.number(refunds.length);
  for (const atMs of refunds) packing.number(atMs);
  return packing.bytes();
}

/** Throws where a newer version wrote it. */
export function toPhoneState(bytes: Uint8Array): PhoneState {
  const next = numberReader(bytes);
  if (next() !== layout) throw new Error("the database holds what is kept of a phone from a newer version");
  const some = <T>(read: () => T) => Array.from({ length: next() }, read);
  const tats = new Map(some(() => [next(), next()] as const));
  const wrongCodes = some(() => [next(), next()] as const);
  const refunds = some(next);
  const isEmpty = wrongCodes.length === 0 && refunds.length === 0;
  return { tats, history: isEmpty ? undefined : { wrongCodes, refunds } };
}
