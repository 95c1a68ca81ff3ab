/**
 * Statements that all databases share, and acts in steps, on SQLite.
 */
import type { Database, Statement as Prepared } from "better-sqlite3";
import type { Statement, Steps, Value } from "../statement.ts";

export class SharedStatements {
  readonly #db: Database;
  readonly #onRecalledWritten: () => void;
  readonly #prepared = new Map<
    Statement,
    { readonly prepared: Prepared; readonly order: readonly number[] | undefined }
  >();

  /** `onRecalledWritten` is told of each write of what may be remembered. */
  constructor(db: Database, onRecalledWritten: () => void) {
    this.#db = db;
    this.#onRecalledWritten = onRecalledWritten;
  }

  run(statement: Statement, values: readonly Value[]): unknown[] {
    const { prepared, order } = this.#prepared.get(statement) ?? this.#prepare(statement);
    const ordered = order === undefined ? values : order.map((place) => values[place]);
    if (statement.isRecalled === true) this.#onRecalledWritten();
    if (prepared.reader) return prepared.all(...ordered);
    prepared.run(...ordered);
    return [];
  }

  /** Runs an act within a transaction, which has the database to itself: nothing needs a lock. */
  runSteps<T>(steps: Steps<T>): T {
    let next = steps.next();
    while (next.done !== true) {
      const step = next.value;
      next = steps.next("lock" in step ? [] : step.lists.map((values) => this.run(step.statement, values)));
    }
    return next.value;
  }

  /** SQLite's driver knows no `$1`: each becomes a `?`, and the values follow. */
  #prepare(statement: Statement) {
    const order: number[] = [];
    const text = statement.text.replaceAll(/\$(\d+)/g, (_, place: string) => {
      order.push(Number(place) - 1);
      return "?";
    });
    const isInOrder = order.every((place, i) => place === i);
    const made = { prepared: this.#db.prepare(text), order: isInOrder ? undefined : order };
    this.#prepared.set(statement, made);
    return made;
  }
}
