/**
 * Rows that calls ask for all the time, as they were read last: good until somebody writes.
 */
import type { Statements } from "./statements.ts";

export class Recalled {
  readonly #sql: Statements;
  readonly #rows = new Map<string, unknown[]>();
  #version: number | undefined;
  #isCurrent = false;

  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** The rows that `read` gives. That there are none is not remembered: anybody may ask for what is not there. */
  rows(key: string, read: () => unknown[]): unknown[] {
    this.#forgetIfOthersWrote();
    const known = this.#rows.get(key);
    if (known !== undefined) return known;
    const rows = read();
    if (rows.length > 0) this.#rows.set(key, rows);
    return rows;
  }

  /** This connection's own writes do not change its data_version. */
  forget(): void {
    this.#rows.clear();
  }

  /** One pragma tells, which is asked once in each turn of the event loop for all the calls that arrived together. */
  #forgetIfOthersWrote(): void {
    if (this.#isCurrent) return;
    const latest = this.#sql.dataVersion.get()?.data_version;
    if (latest !== this.#version) this.forget();
    this.#version = latest;
    this.#isCurrent = true;
    setImmediate(() => (this.#isCurrent = false));
  }
}
