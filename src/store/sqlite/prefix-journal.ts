/**
 * Prefixes between their changes and their rows. Almost every act changes the row of some prefix, each in a page of its own;
 * so a batch notes all that it has changed in one row at the end of a journal, and every few seconds the rows are brought
 * up to date, each once and in the order of their keys. Whoever opens the database finds what is not in the rows yet in the
 * journal: a crash costs nothing.
 */
import type { Instant } from "../../system.ts";
import type { PrefixRecord } from "../../otp/limits/pumping-guard.ts";
import { prefixesBytes, prefixKey, prefixValues, toPrefixes, type NamedPrefix } from "../rows/prefix.ts";
import type { Statements } from "./statements.ts";

/** How often rows are brought up to date. */
const roundEveryMs = 10_000;
/** And when so many wait, at once: some 300 bytes each. */
const waitingMax = 8_192;
/** Rows that a batch brings up to date; some 5 µs each. */
const batchRowsMax = 128;

/** What is to be written in this round, in the order of keys, and the journal's last row when it began. */
interface Round {
  readonly keys: readonly string[];
  done: number;
  readonly lastId: number;
}

export class PrefixJournal {
  readonly #sql: Statements;
  /** What this batch has changed. */
  readonly #changed = new Map<string, NamedPrefix>();
  /** What is in the journal and not in its row yet; undefined until the journal was read. */
  #waiting: Map<string, NamedPrefix> | undefined;
  #round: Round | undefined;
  #isCutShort = false;
  #lastId = 0;
  #roundMs: Instant | undefined;

  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** A prefix as it was changed last; undefined where its row says all. */
  get(key: string): PrefixRecord | undefined {
    return (this.#changed.get(key) ?? this.#read().get(key))?.record;
  }

  put(key: string, change: NamedPrefix): void {
    this.#changed.set(key, change);
  }

  /** Forgets what is in memory: others have written, or something was taken back. */
  forget(): void {
    this.#changed.clear();
    this.#waiting = undefined;
    // What it has done so far is in the journal still: begun anew in steps, it would come to no end beside another's writes.
    this.#isCutShort ||= this.#round !== undefined;
    this.#round = undefined;
  }

  /** Notes what the batch has changed, and brings some rows up to date when it is time. */
  write(now: Instant): void {
    const waiting = this.#read();
    if (this.#changed.size > 0) {
      const { lastInsertRowid } = this.#sql.insertPrefixChanges.run(prefixesBytes(this.#changed.values()));
      this.#lastId = Number(lastInsertRowid);
      for (const [key, entry] of this.#changed) waiting.set(key, entry);
      this.#changed.clear();
    }
    if (waiting.size === 0) return;
    this.#roundMs ??= now;
    if (
      this.#round === undefined &&
      (this.#isCutShort || now - this.#roundMs >= roundEveryMs || waiting.size >= waitingMax)
    ) {
      this.#round = { keys: [...waiting.keys()].toSorted(), done: 0, lastId: this.#lastId };
      this.#roundMs = now;
    }
    if (this.#round !== undefined) this.#goOn(this.#round, waiting);
  }

  #goOn(round: Round, waiting: Map<string, NamedPrefix>): void {
    const rows = this.#isCutShort ? round.keys.length : batchRowsMax;
    const keys = round.keys.slice(round.done, round.done + rows);
    const entries = keys.flatMap((key) => waiting.get(key) ?? []);
    this.#sql.putPrefixes(entries.map(({ name, record }) => prefixValues(name, record)));
    for (const key of keys) waiting.delete(key);
    round.done += rows;
    if (round.done < round.keys.length) return;
    this.#sql.deletePrefixChanges.run(round.lastId);
    this.#isCutShort = false;
    this.#round = undefined;
  }

  #read(): Map<string, NamedPrefix> {
    if (this.#waiting !== undefined) return this.#waiting;
    // Anew, and not from the last id on: once all rows were deleted, which another process may have done, ids begin again.
    const { latest, lastId } = journaled(this.#sql);
    this.#waiting = latest;
    this.#lastId = lastId;
    return latest;
  }
}

/** What the journal says of each prefix last, by its key; and its last row. */
function journaled(sql: Statements): { readonly latest: Map<string, NamedPrefix>; readonly lastId: number } {
  const latest = new Map<string, NamedPrefix>();
  let lastId = 0;
  for (const { id, prefixes } of sql.prefixChanges.all()) {
    lastId = id;
    for (const entry of toPrefixes(prefixes)) latest.set(prefixKey(entry.name), entry);
  }
  return { latest, lastId };
}

/** Brings all rows up to date, within the transaction under way. */
export function foldPrefixes(sql: Statements): void {
  const { latest, lastId } = journaled(sql);
  sql.putPrefixes(Array.from(latest.values(), ({ name, record }) => prefixValues(name, record)));
  sql.deletePrefixChanges.run(lastId);
}
