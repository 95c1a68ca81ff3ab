/**
 * What is kept of a phone, over every master key that it may be indexed by: how its rows are read as one, written under the
 * current key, and forgotten.
 */
import { emptyHistory, type PhoneHistory } from "../otp/policy.ts";
import type { PhoneView, Writes } from "../otp/writes.ts";
import type { Instant } from "../system.ts";
import { bucketKey, limitBucketKey, mergeHistories } from "./rows/phone.ts";
import type { LimitRef, PhoneRef } from "./store.ts";

/** The rows of phones within a transaction, by a phone's index or by a bucket's key. */
export interface PhoneRows {
  tat(bucket: Uint8Array): Instant | undefined;
  putTat(bucket: Uint8Array, tatMs: Instant, kid: number): void;
  deleteTat(bucket: Uint8Array): void;
  history(index: Uint8Array): PhoneHistory | undefined;
  putHistory(index: Uint8Array, history: PhoneHistory, kid: number): void;
  deleteHistory(index: Uint8Array): void;
  /** Attempts left on its pending, unexpired verifications. */
  openAttempts(index: Uint8Array): number;
}

/** Each part is read when a decision first looks at it, which most never do. So a view is good within its act only. */
export function viewPhone(rows: PhoneRows, ref: PhoneRef): PhoneView {
  let tats: readonly Instant[] | undefined;
  let history: PhoneHistory | undefined;
  let openAttempts: number | undefined;
  return {
    get tats() {
      return (tats ??= tatsOf(rows, ref));
    },
    get history() {
      return (history ??= historyOf(rows, ref));
    },
    get openAttempts() {
      return (openAttempts ??= ref.indexes.reduce((sum, index) => sum + rows.openAttempts(index), 0));
    },
    limits: ref.limits?.map(({ limits }) => limits),
    get limitTats() {
      return ref.limits?.map((limit) => limitTatsOf(rows, limit));
    },
  };
}

/** The latest of every bucket. */
function tatsOf(rows: PhoneRows, { indexes, knownUser, buckets }: PhoneRef): Instant[] {
  return latestTats(rows, { indexes, buckets }, (index, place) => bucketKey(index, knownUser, place));
}

function limitTatsOf(rows: PhoneRows, limit: LimitRef): Instant[] {
  return latestTats(rows, { indexes: limit.indexes, buckets: limit.limits.length }, limitBucketKey);
}

function latestTats(
  rows: PhoneRows,
  { indexes, buckets }: Pick<PhoneRef, "indexes" | "buckets">,
  keyOf: (index: Uint8Array, place: number) => Uint8Array,
): Instant[] {
  const tatOf = (index: Uint8Array, place: number) => rows.tat(keyOf(index, place)) ?? 0;
  return Array.from({ length: buckets }, (_, place) =>
    indexes.reduce((latest, index) => Math.max(latest, tatOf(index, place)), 0),
  );
}

function historyOf(rows: PhoneRows, { indexes }: PhoneRef): PhoneHistory {
  let history = emptyHistory;
  for (const index of indexes) {
    const found = rows.history(index);
    if (found !== undefined) history = mergeHistories(history, found);
  }
  return history;
}

/** Writes under the current master key, and deletes what was there under older ones. */
export function putPhone(
  rows: PhoneRows,
  { indexes, knownUser, kid, limits = [] }: PhoneRef,
  { tats = [], history, limitTats = [] }: Pick<Writes, "tats" | "history" | "limitTats">,
): void {
  const [current = new Uint8Array(), ...older] = indexes;
  for (const [place, tatMs] of tats.entries()) {
    rows.putTat(bucketKey(current, knownUser, place), tatMs, kid);
    for (const index of older) rows.deleteTat(bucketKey(index, knownUser, place));
  }
  for (const [i, spent] of limitTats.entries()) putLimit(rows, limits[i], spent, kid);
  if (history === undefined) return;
  for (const index of older) rows.deleteHistory(index);
  rows.putHistory(current, history, kid);
}

function putLimit(rows: PhoneRows, limit: LimitRef | undefined, tats: readonly Instant[], kid: number): void {
  const [current, ...older] = limit?.indexes ?? [];
  if (current === undefined) throw new Error("a limit that is spent is kept somewhere");
  for (const [place, tatMs] of tats.entries()) {
    rows.putTat(limitBucketKey(current, place), tatMs, kid);
    for (const index of older) rows.deleteTat(limitBucketKey(index, place));
  }
}

/** Fills every bucket of both lanes and forgets the history. */
export function resetPhone(rows: PhoneRows, { indexes, buckets }: PhoneRef): void {
  for (const index of indexes) {
    rows.deleteHistory(index);
    for (let place = 0; place < buckets; place++) {
      for (const knownUser of [false, true]) rows.deleteTat(bucketKey(index, knownUser, place));
    }
  }
}
