/**
 * What is kept of phones, within a transaction: read once for each index, with all buckets and the history, and written
 * before the batch commits. The latest are kept in memory like other rows (recent.ts).
 *
 * Its home is the row of the phone's latest verification, which almost every act on the phone writes anyway: each send
 * moves it there. A phone without a home has rows of its own for buckets and history: before a home is deleted they
 * move out (`moveOut`), and earlier versions had nothing else. Nothing is ever in both.
 */
import { isForgettable, type PhoneHistory } from "../../otp/verification/policy.ts";
import type { Instant } from "../../system.ts";
import type { KeptTat, PhoneRows } from "../unit-of-work.ts";
import {
  bucketKey,
  historyValues,
  phoneStateBytes,
  toHistory,
  toPhoneState,
  type HomeRow,
  type PhoneState,
} from "../rows/phone.ts";
import { idText, keyOf } from "../rows/values.ts";
import { Recent } from "./recent.ts";
import type { Statements } from "./statements.ts";

/** Some 500 bytes each. */
const recentPhonesMax = 2_048;

interface KeptState extends PhoneState {
  readonly index: Uint8Array;
  readonly tats: Map<number, Instant>;
  history: PhoneHistory | undefined;
  /** The verification in whose row it is. */
  home: string | undefined;
  /** The buckets that have rows of their own, and whether the history has one. */
  readonly rows: Set<number>;
  hasHistoryRow: boolean;
}

/** What of a phone is to be written. */
interface Changed {
  readonly buckets: Set<number>;
  hasHistory: boolean;
  kid: number;
}

const homesAtOnce = 500;

/** What homes have to be written: by the verification's id, null where the phone has another home now. */
export type Homes = Map<string, Uint8Array | null>;

/** Beyond every bucket of an index. */
const end = Uint8Array.of(0xff);

export class PhoneStates implements PhoneRows {
  readonly #sql: Statements;
  readonly #recent = new Recent<KeptState>(recentPhonesMax);
  /** Of this batch: what has changed may be more than is remembered. */
  readonly #used = new Map<string, KeptState>();
  readonly #changed = new Map<KeptState, Changed>();
  /** The one of them that was asked for last. */
  #latest: KeptState | undefined;
  readonly #left = new Set<string>();

  constructor(sql: Statements) {
    this.#sql = sql;
  }

  tat(index: Uint8Array, bucket: number): Instant | undefined {
    return this.#stateOf(index).tats.get(bucket);
  }

  putTat(index: Uint8Array, bucket: number, { tatMs, kid }: KeptTat): void {
    const state = this.#stateOf(index);
    if (state.tats.get(bucket) === tatMs) return;
    state.tats.set(bucket, tatMs);
    this.#change(state, kid).buckets.add(bucket);
  }

  deleteTat(index: Uint8Array, bucket: number): void {
    const state = this.#stateOf(index);
    if (state.tats.delete(bucket)) this.#change(state).buckets.add(bucket);
  }

  history(index: Uint8Array): PhoneHistory | undefined {
    return this.#stateOf(index).history;
  }

  putHistory(index: Uint8Array, history: PhoneHistory, kid: number): void {
    const state = this.#stateOf(index);
    state.history = history;
    this.#change(state, kid).hasHistory = true;
  }

  deleteHistory(index: Uint8Array): void {
    const state = this.#stateOf(index);
    if (state.history === undefined) return;
    state.history = undefined;
    this.#change(state).hasHistory = true;
  }

  /** A verification of a phone is new: what is kept of the phone is in its row from now on. */
  moveTo({ id, phoneIndex }: { readonly id: string; readonly phoneIndex: Uint8Array }): void {
    const state = this.#stateOf(phoneIndex);
    if (state.home !== undefined) this.#left.add(state.home);
    state.home = id;
    this.#change(state);
  }

  /** Forgets what is remembered, and what was to be written. */
  forget(): void {
    this.#latest = undefined;
    this.#recent.clear();
    this.#used.clear();
    this.#changed.clear();
    this.#left.clear();
  }

  /** Writes what has changed since it was last called, but for what is in homes: that it gives. */
  write(): Homes {
    const homes: Homes = new Map();
    this.#latest = undefined;
    this.#used.clear();
    if (this.#changed.size === 0) return homes;
    for (const id of this.#left) homes.set(id, null);
    const [tats, histories]: [unknown[][], unknown[][]] = [[], []];
    for (const [state, { buckets, hasHistory, kid }] of this.#changed) {
      if (state.home !== undefined) {
        homes.set(state.home, phoneStateBytes(state));
        if (state.rows.size > 0 || state.hasHistoryRow) this.#deleteRows(state, state.rows, state.hasHistoryRow);
        continue;
      }
      const gone = [...buckets].filter((bucket) => !state.tats.has(bucket));
      this.#deleteRows(state, gone, hasHistory && state.history === undefined);
      for (const bucket of buckets) {
        const tatMs = state.tats.get(bucket);
        if (tatMs === undefined) continue;
        tats.push([bucketKey(state.index, bucket), tatMs, kid]);
        state.rows.add(bucket);
      }
      if (!hasHistory || state.history === undefined) continue;
      histories.push(historyValues(state.index, state.history, kid));
      state.hasHistoryRow = true;
    }
    this.#sql.putTats(tats);
    this.#sql.putPhones(histories);
    this.#changed.clear();
    this.#left.clear();
    return homes;
  }

  #deleteRows(state: KeptState, buckets: Iterable<number>, withHistory: boolean): void {
    for (const bucket of buckets) {
      if (state.rows.delete(bucket)) this.#sql.deleteTat.run(bucketKey(state.index, bucket));
    }
    if (!withHistory || !state.hasHistoryRow) return;
    this.#sql.deletePhone.run(state.index);
    state.hasHistoryRow = false;
  }

  /** Without a `kid` nothing is put. */
  #change(state: KeptState, kid = 0): Changed {
    let changed = this.#changed.get(state);
    if (changed === undefined) this.#changed.set(state, (changed = { buckets: new Set(), hasHistory: false, kid }));
    changed.kid ||= kid;
    return changed;
  }

  #stateOf(index: Uint8Array): KeptState {
    // An act asks for one phone many times.
    if (this.#latest?.index === index) return this.#latest;
    const key = keyOf(index);
    let state = this.#used.get(key);
    if (state === undefined) {
      state = this.#recent.get(key) ?? this.#read(index);
      this.#used.set(key, state);
      this.#recent.set(key, state);
    }
    this.#latest = state;
    return state;
  }

  #read(index: Uint8Array): KeptState {
    const state: KeptState = {
      index,
      tats: new Map(),
      history: undefined,
      home: undefined,
      rows: new Set(),
      hasHistoryRow: false,
    };
    for (const row of this.#sql.phoneRows.all(index, Buffer.concat([index, end]), index, index)) {
      if (row.home !== null) {
        const { tats, history } = toPhoneState(row.of_phone);
        for (const [bucket, tatMs] of tats) state.tats.set(bucket, tatMs);
        state.history ??= history;
        state.home = idText(row.home);
      } else if (row.tat_ms === null) {
        state.history = toHistory(row);
        state.hasHistoryRow = true;
      } else {
        const bucket = row.phone_index.at(-1) ?? 0;
        state.tats.set(bucket, row.tat_ms);
        state.rows.add(bucket);
      }
    }
    return state;
  }
}

/** Gives what still counts of phones rows of its own. Their homes are about to be deleted, in the same transaction. */
export function moveOut(sql: Statements, homes: readonly HomeRow[], now: Instant): void {
  const [tats, histories]: [unknown[][], unknown[][]] = [[], []];
  for (const { phone_index: index, kid, of_phone: bytes } of homes) {
    if (bytes === null) continue;
    const state = toPhoneState(bytes);
    for (const [bucket, tatMs] of state.tats) if (tatMs > now) tats.push([bucketKey(index, bucket), tatMs, kid]);
    const { history } = state;
    if (history !== undefined && !isForgettable(history, now)) histories.push(historyValues(index, history, kid));
  }
  sql.putTats(tats);
  sql.putPhones(histories);
}

/** Gives all that is kept of phones rows of its own, for who knows no homes, within the transaction under way. */
export function moveAllOut(sql: Statements): void {
  for (let from = 0; ;) {
    const homes = sql.homesFrom.all(from, homesAtOnce);
    moveOut(sql, homes, 0);
    const last = homes.at(-1);
    if (last === undefined) return;
    from = last.rowid;
  }
}
