/**
 * Statements that all databases share, and acts in steps, on SQLite.
 */
import type { Database, Statement as Prepared } from "better-sqlite3";
import { bindable, type Statement, type Step, type Steps, type Value } from "../statement.ts";
import type { UnitOfWork } from "../unit-of-work.ts";

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
