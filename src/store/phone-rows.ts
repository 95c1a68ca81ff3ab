/**
 * What is kept of a phone, which may be under any of the master keys: its rows are read as one, written under the
 * current key, and forgotten.
 */
import { emptyHistory, type PhoneHistory } from "../otp/verification/policy.ts";
import type { PhoneView, Writes } from "../otp/decisions/writes.ts";
import type { Instant } from "../system.ts";
import { lanes, mergeHistories } from "./rows/phone.ts";
import type { PhoneRef } from "./store.ts";

/** When a bucket is full, and the master key that it is kept under. */
export interface KeptTat {
  readonly tatMs: Instant;
  readonly kid: number;
}

/** What is kept of phones within a transaction, by a phone's index; of its limits by their buckets too (rows/phone.ts). */
export interface PhoneRows {
  tat(index: Uint8Array, bucket: number): Instant | undefined;
  putTat(index: Uint8Array, bucket: number, tat: KeptTat): void;
  deleteTat(index: Uint8Array, bucket: number): void;
  history(index: Uint8Array): PhoneHistory | undefined;
  putHistory(index: Uint8Array, history: PhoneHistory, kid: number): void;
  deleteHistory(index: Uint8Array): void;
}

/** What of a unit of work is about phones. */
export interface PhonesUnit {
  readonly phones: PhoneRows;
  /** Attempts left on a phone's pending, unexpired verifications. */
  openAttempts(index: Uint8Array): number;
}

/** Each part is read when a decision first looks at it, which most never do. So a view is good within its act only. */
export function viewPhone(unit: PhonesUnit, ref: PhoneRef): PhoneView {
  const { phones } = unit;
  const { indexes, knownUser, buckets, limits } = ref;
  let tats: readonly Instant[] | undefined;
  let history: PhoneHistory | undefined;
  return {
    get tats() {
      return (tats ??= latestTats(phones, indexes, { lane: knownUser ? lanes.known : lanes.first, buckets }));
    },
    get history() {
      if (history !== undefined) return history;
      history = emptyHistory;
      for (const index of indexes) {
        const found = phones.history(index);
        if (found !== undefined) history = mergeHistories(history, found);
      }
      return history;
    },
    get openAttempts() {
      let open = 0;
      for (const index of indexes) open += unit.openAttempts(index);
      return open;
    },
    limits: limits?.map((limit) => limit.limits),
    limitTats: limits?.map((limit) =>
      latestTats(phones, limit.indexes, { lane: lanes.named, buckets: limit.limits.length }),
    ),
  };
}

/** The latest of every bucket of a lane. */
function latestTats(
  phones: PhoneRows,
  indexes: readonly Uint8Array[],
  { lane, buckets }: { readonly lane: number; readonly buckets: number },
): Instant[] {
  const latest: Instant[] = [];
  for (let place = 0; place < buckets; place += 1) {
    let tatMs = 0;
    for (const index of indexes) tatMs = Math.max(tatMs, phones.tat(index, lane | place) ?? 0);
    latest.push(tatMs);
  }
  return latest;
}

/** Writes under the current master key, and deletes what was there under older ones. */
export function putPhone(
  { phones }: PhonesUnit,
  { indexes, knownUser, kid, limits = [] }: PhoneRef,
  { tats, history, limitTats }: Pick<Writes, "tats" | "history" | "limitTats">,
): void {
  if (tats !== undefined) putTats(phones, indexes, { lane: knownUser ? lanes.known : lanes.first, tats, kid });
  for (const [i, spent] of limitTats?.entries() ?? []) {
    const limit = limits[i];
    if (limit === undefined) throw new Error("a limit that is spent is kept somewhere");
    putTats(phones, limit.indexes, { lane: lanes.named, tats: spent, kid });
  }
  if (history === undefined) return;
  const [current = new Uint8Array(), ...older] = indexes;
  for (const index of older) phones.deleteHistory(index);
  phones.putHistory(current, history, kid);
}

function putTats(
  phones: PhoneRows,
  [current, ...older]: readonly Uint8Array[],
  { lane, tats, kid }: { readonly lane: number; readonly tats: readonly Instant[]; readonly kid: number },
): void {
  if (current === undefined) throw new Error("what is kept has an index");
  for (const [place, tatMs] of tats.entries()) {
    phones.putTat(current, lane | place, { tatMs, kid });
    for (const index of older) phones.deleteTat(index, lane | place);
  }
}

/** Fills every bucket of both lanes and forgets the history. */
export function resetPhone({ phones }: PhonesUnit, { indexes, buckets }: PhoneRef): void {
  for (const index of indexes) {
    phones.deleteHistory(index);
    for (let place = 0; place < buckets; place++) {
      phones.deleteTat(index, lanes.first | place);
      phones.deleteTat(index, lanes.known | place);
    }
  }
}
