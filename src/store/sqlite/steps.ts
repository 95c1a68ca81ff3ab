/**
 * Statements that all databases share, and acts in steps, on SQLite.
 */
import type { Database, Statement as Prepared } from "better-sqlite3";
import { bindable, type Statement, type Step, type Steps, type Value } from "../statement.ts";
import type { UnitOfWork } from "../unit-of-work.ts";
import type { Statements } from "./statements.ts";

export class SharedStatements {
  readonly #db: Database;
  readonly #onRecalledChange: () => void;
  readonly #prepared = new Map<
    Statement,
    { readonly prepared: Prepared; readonly order: readonly number[] | undefined }
  >();

  readonly #erase: (ids: readonly string[]) => void;

  /** `onRecalledChange` is told of each write of what may be remembered; `erase` deletes verifications. */
  constructor(db: Database, onRecalledChange: () => void, erase: (ids: readonly string[]) => void) {
    this.#erase = erase;
    this.#db = db;
    this.#onRecalledChange = onRecalledChange;
  }

  run(statement: Statement, values: readonly Value[]): unknown[] {
    const { prepared, order } = this.#prepared.get(statement) ?? this.#prepare(statement);
    const ordered = order === undefined ? values : order.map((place) => values[place]);
    if (statement.changesRecalled === true) this.#onRecalledChange();
    if (prepared.reader) return prepared.all(...ordered);
    prepared.run(...ordered);
    return [];
  }

  /** Runs an act within a transaction, which has the database to itself: nothing needs a lock. */
  runSteps<T>(steps: Steps<T>, unit: UnitOfWork): T {
    let next = steps.next();
    while (next.done !== true) next = steps.next(this.#step(next.value, unit));
    return next.value;
  }

  #step(step: Step, unit: UnitOfWork): unknown[][] {
    if ("lock" in step) return [];
    if ("erase" in step) {
      this.#erase(step.erase);
      return [];
    }
    if ("change" in step) {
      const verification = unit.verification(step.verificationId);
      if (verification !== undefined) unit.updateVerification(step.change(verification));
      return [];
    }
    return step.lists.map((values) => this.run(step.statement, values));
  }

  #prepare(statement: Statement) {
    const { text, order } = bindable(statement);
    const isInOrder = order.every((place, i) => place === i);
    const made = { prepared: this.#db.prepare(text), order: isInOrder ? undefined : order };
    this.#prepared.set(statement, made);
    return made;
  }
}

/** Rows that calls ask for all the time, as they were read last: good until somebody writes. */
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
