/**
 * What is kept of phones, within a transaction: read once for each index, with all buckets and the history, and written
 * before the batch commits, many rows with one statement. The latest are remembered like other rows (recent.ts).
 */
import type { PhoneHistory } from "../../otp/policy.ts";
import type { Instant } from "../../system.ts";
import type { PhoneRows } from "../phone-rows.ts";
import { toHistory } from "../rows/phone.ts";
import { Recent } from "./recent.ts";
import type { Statements } from "./statements.ts";

/** Some 500 bytes each. */
const recentPhonesMax = 2_048;

interface PhoneState {
  /** By the last byte of a bucket's key. */
  readonly tats: Map<number, Instant>;
  history: PhoneHistory | undefined;
}

/** Rows to be written; null where one is to be deleted. */
interface ChangedBucket {
  readonly bucket: Uint8Array;
  readonly row: { readonly tatMs: Instant; readonly kid: number } | null;
}
interface ChangedHistory {
  readonly index: Uint8Array;
  readonly row: { readonly history: PhoneHistory; readonly kid: number } | null;
}

const keyOf = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
/** Beyond every bucket of an index. */
const end = Uint8Array.of(0xff);

export class PhoneStates implements Omit<PhoneRows, "openAttempts"> {
  readonly #sql: Statements;
  readonly #recent = new Recent<PhoneState>(recentPhonesMax);
  /** Of this batch: what has changed may be more than is remembered. */
  readonly #used = new Map<string, PhoneState>();
  readonly #buckets = new Map<string, ChangedBucket>();
  readonly #histories = new Map<string, ChangedHistory>();

  constructor(sql: Statements) {
    this.#sql = sql;
  }

  tat(bucket: Uint8Array): Instant | undefined {
    return this.#stateOf(bucket.subarray(0, -1)).tats.get(placeOf(bucket));
  }

  putTat(bucket: Uint8Array, tatMs: Instant, kid: number): void {
    const { tats } = this.#stateOf(bucket.subarray(0, -1));
    if (tats.get(placeOf(bucket)) === tatMs) return;
    tats.set(placeOf(bucket), tatMs);
    this.#buckets.set(keyOf(bucket), { bucket, row: { tatMs, kid } });
  }

  deleteTat(bucket: Uint8Array): void {
    if (!this.#stateOf(bucket.subarray(0, -1)).tats.delete(placeOf(bucket))) return;
    this.#buckets.set(keyOf(bucket), { bucket, row: null });
  }

  history(index: Uint8Array): PhoneHistory | undefined {
    return this.#stateOf(index).history;
  }

  putHistory(index: Uint8Array, history: PhoneHistory, kid: number): void {
    this.#stateOf(index).history = history;
    this.#histories.set(keyOf(index), { index, row: { history, kid } });
  }

  deleteHistory(index: Uint8Array): void {
    const state = this.#stateOf(index);
    if (state.history === undefined) return;
    state.history = undefined;
    this.#histories.set(keyOf(index), { index, row: null });
  }

  /** Forgets what is remembered, and what was to be written. */
  forget(): void {
    this.#recent.clear();
    this.#used.clear();
    this.#buckets.clear();
    this.#histories.clear();
  }

  /** Writes what has changed since it was last called. */
  write(): void {
    this.#used.clear();
    const tats: unknown[][] = [];
    for (const { bucket, row } of this.#buckets.values()) {
      if (row === null) this.#sql.deleteTat.run(bucket);
      else tats.push([bucket, row.tatMs, row.kid]);
    }
    this.#sql.putTats(tats);
    this.#buckets.clear();
    const histories: unknown[][] = [];
    for (const { index, row } of this.#histories.values()) {
      if (row === null) this.#sql.deletePhone.run(index);
      else
        histories.push([index, JSON.stringify(row.history.wrongCodes), JSON.stringify(row.history.refunds), row.kid]);
    }
    this.#sql.putPhones(histories);
    this.#histories.clear();
  }

  #stateOf(index: Uint8Array): PhoneState {
    const key = keyOf(index);
    let state = this.#used.get(key);
    if (state !== undefined) return state;
    state = this.#recent.get(key) ?? this.#read(index);
    this.#used.set(key, state);
    this.#recent.set(key, state);
    return state;
  }

  #read(index: Uint8Array): PhoneState {
    const state: PhoneState = { tats: new Map(), history: undefined };
    for (const row of this.#sql.phoneRows.all(index, Buffer.concat([index, end]), index)) {
      if (row.tat_ms === null) state.history = toHistory(row);
      else state.tats.set(placeOf(row.phone_index), row.tat_ms);
    }
    return state;
  }
}

function placeOf(bucket: Uint8Array): number {
  return bucket.at(-1) ?? 0;
}
