/**
 * What is kept of phones, within a transaction: read once for each index, with all buckets and the history, and written
 * before the batch commits. The latest are remembered like other rows (recent.ts).
 *
 * Its place is the row of the phone's latest verification, its home, which almost every act on the phone writes anyway: each
 * send takes it there from wherever it was. It is in rows of its own, of buckets and of a history, where a phone has no home:
 * before its home is deleted it moves out (`moveOut`), and earlier versions had nothing else. It is never in both.
 */
import { isForgettable, type PhoneHistory } from "../../otp/policy.ts";
import type { Instant } from "../../system.ts";
import type { PhoneRows } from "../phone-rows.ts";
import {
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
  /** The buckets that have rows of their own, by the last byte of their keys, and whether the history has one. */
  readonly rows: Set<number>;
  hasHistoryRow: boolean;
}

/** What of a phone is to be written. */
interface Changed {
  readonly state: KeptState;
  readonly places: Set<number>;
  hasHistory: boolean;
  kid: number;
}

const homesAtOnce = 500;

/** What homes have to be written: by the verification's id, null where the phone has another home now. */
export type Homes = Map<string, Uint8Array | null>;

/** Beyond every bucket of an index. */
const end = Uint8Array.of(0xff);

export class PhoneStates implements Omit<PhoneRows, "openAttempts"> {
  readonly #sql: Statements;
  readonly #recent = new Recent<KeptState>(recentPhonesMax);
  /** Of this batch: what has changed may be more than is remembered. */
  readonly #used = new Map<string, KeptState>();
  readonly #changed = new Map<string, Changed>();
  readonly #left = new Set<string>();

  constructor(sql: Statements) {
    this.#sql = sql;
  }

  tat(bucket: Uint8Array): Instant | undefined {
    return this.#stateOf(bucket.subarray(0, -1)).tats.get(placeOf(bucket));
  }

  putTat(bucket: Uint8Array, tatMs: Instant, kid: number): void {
    const state = this.#stateOf(bucket.subarray(0, -1));
    if (state.tats.get(placeOf(bucket)) === tatMs) return;
    state.tats.set(placeOf(bucket), tatMs);
    this.#change(state, kid).places.add(placeOf(bucket));
  }

  deleteTat(bucket: Uint8Array): void {
    const state = this.#stateOf(bucket.subarray(0, -1));
    if (state.tats.delete(placeOf(bucket))) this.#change(state).places.add(placeOf(bucket));
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
    this.#recent.clear();
    this.#used.clear();
    this.#changed.clear();
    this.#left.clear();
  }

  /** Writes what has changed since it was last called, but for what is in homes: that it gives. */
  write(): Homes {
    const homes: Homes = new Map();
    this.#used.clear();
    if (this.#changed.size === 0) return homes;
    for (const id of this.#left) homes.set(id, null);
    const [tats, histories]: [unknown[][], unknown[][]] = [[], []];
    for (const { state, places, hasHistory, kid } of this.#changed.values()) {
      if (state.home !== undefined) {
        homes.set(state.home, phoneStateBytes(state));
        this.#deleteRows(state, state.rows, state.hasHistoryRow);
        continue;
      }
      const gone = [...places].filter((place) => !state.tats.has(place));
      this.#deleteRows(state, gone, hasHistory && state.history === undefined);
      for (const place of places) {
        const tatMs = state.tats.get(place);
        if (tatMs === undefined) continue;
        tats.push([bucketOf(state.index, place), tatMs, kid]);
        state.rows.add(place);
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

  #deleteRows(state: KeptState, places: Iterable<number>, withHistory: boolean): void {
    for (const place of places) {
      if (state.rows.delete(place)) this.#sql.deleteTat.run(bucketOf(state.index, place));
    }
    if (!withHistory || !state.hasHistoryRow) return;
    this.#sql.deletePhone.run(state.index);
    state.hasHistoryRow = false;
  }

  /** Without a `kid` nothing is put. */
  #change(state: KeptState, kid = 0): Changed {
    const key = keyOf(state.index);
    const known = this.#changed.get(key);
    if (known !== undefined) {
      known.kid ||= kid;
      return known;
    }
    const changed: Changed = { state, places: new Set(), hasHistory: false, kid };
    this.#changed.set(key, changed);
    return changed;
  }

  #stateOf(index: Uint8Array): KeptState {
    const key = keyOf(index);
    let state = this.#used.get(key);
    if (state !== undefined) return state;
    state = this.#recent.get(key) ?? this.#read(index);
    this.#used.set(key, state);
    this.#recent.set(key, state);
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
        for (const [place, tatMs] of tats) state.tats.set(place, tatMs);
        state.history ??= history;
        state.home = idText(row.home);
      } else if (row.tat_ms === null) {
        state.history = toHistory(row);
        state.hasHistoryRow = true;
      } else {
        state.tats.set(placeOf(row.phone_index), row.tat_ms);
        state.rows.add(placeOf(row.phone_index));
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
    for (const [place, tatMs] of state.tats) if (tatMs > now) tats.push([bucketOf(index, place), tatMs, kid]);
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

function placeOf(bucket: Uint8Array): number {
  return bucket.at(-1) ?? 0;
}

function bucketOf(index: Uint8Array, place: number): Buffer {
  return Buffer.concat([index, Uint8Array.of(place)]);
}
