/**
 * Rows of the last moments, which acts have just read or written, so that the next act on the same row need not ask
 * SQLite for it. A send, what its provider says and often its verify are three acts on one row within a second.
 *
 * They hold as long as nobody else writes and nothing is taken back. So all are forgotten when another process has
 * written, and when a batch or an act of it is rolled back (group-commit.ts). Only acts look here, one after the other
 * within a transaction; a plain read asks the database.
 *
 * What every call reads before its act is kept here too: its key, and the tenants' revision.
 */
import type { Statements } from "./statements.ts";

/** Rows by what a map knows them by. */
export class Recent<Row> extends Map<string, Row> {
  readonly #max: number;

  /** Keeps at most `max` rows, and lets go of the one that came first. */
  constructor(max: number) {
    super();
    this.#max = max;
  }

  override set(key: string, row: Row): this {
    if (this.size >= this.#max && !this.has(key)) {
      for (const first of this.keys()) {
        this.delete(first);
        break;
      }
    }
    return super.set(key, row);
  }
}

/** What was made of rows that calls ask for all the time, as they were read last: good until somebody writes. */
export class Recalled {
  readonly #sql: Statements;
  readonly #made = new Map<string, unknown>();
  #version: number | undefined;
  #isCurrent = false;

  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** What was made last; undefined where others may have written since. */
  get(key: string): unknown {
    // One pragma tells, which is asked once in each turn of the event loop for all the calls that arrived together.
    if (!this.#isCurrent) {
      const latest = this.#sql.dataVersion.get()?.data_version;
      if (latest !== this.#version) this.forget();
      this.#version = latest;
      this.#isCurrent = true;
      setImmediate(this.#endTurn);
    }
    return this.#made.get(key);
  }

  keep(key: string, made: unknown): void {
    this.#made.set(key, made);
  }

  /** This connection's own writes do not change its data_version. */
  forget(): void {
    this.#made.clear();
  }

  readonly #endTurn = (): void => {
    this.#isCurrent = false;
  };
}
