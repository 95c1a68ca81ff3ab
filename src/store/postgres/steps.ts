/**
 * Acts in steps (statement.ts) on PostgreSQL. What is not waited for is sent along with what follows.
 */
import { idBytesOf } from "../rows/values.ts";
import { toVerification, verificationChanges, type VerificationRow } from "../rows/verification.ts";
import type { Step, Steps } from "../statement.ts";
import { columns } from "./columns.ts";
import type { Statement, Transaction, Value } from "./connections.ts";
import { statements as sql } from "./statements.ts";

export async function runSteps<T>(transaction: Transaction, steps: Steps<T>): Promise<T> {
  const portions = new Portions(transaction);
  let next = steps.next();
  while (next.done !== true) next = steps.next(await run(transaction, portions, next.value));
  return next.value;
}

async function run(transaction: Transaction, portions: Portions, step: Step): Promise<unknown[][]> {
  if ("lock" in step) {
    const text = `LOCK TABLE ${step.lock} IN SHARE ROW EXCLUSIVE MODE`;
    transaction.send({ name: `lock-${step.lock}`, text }, []);
    return [];
  }
  if ("erase" in step) {
    const ids = step.erase.map(idBytesOf);
    // In the order of locks: an act on one of them comes before it is gone, or finds nothing.
    await transaction.query(sql.lockVerifications, [ids]);
    transaction.send(sql.deleteMessages, [ids]);
    transaction.send(sql.eraseVerifications, [ids]);
    return [];
  }
  if ("change" in step) {
    const [row] = await transaction.query<VerificationRow>(sql.lockVerifications, [[idBytesOf(step.verificationId)]]);
    if (row !== undefined)
      transaction.send(sql.updateVerifications, columns([verificationChanges(step.change(toVerification(row)))]));
    return [];
  }
  const { name, text, locksRows } = step.statement;
  return portions.run({ name, text: locksRows === true ? `${text} FOR UPDATE` : text }, step);
}

/**
 * Statements are made ready in one turn up to so many; then one portion is waited for. While thousands were made ready,
 * PostgreSQL heard nothing, and took the transaction for a forgotten one.
 */
export const portionMax = 200;

/** Runs a statement for many lists of values, in portions. */
class Portions {
  readonly #transaction: Transaction;
  /** Sent since a portion was waited for. */
  #sent = 0;

  constructor(transaction: Transaction) {
    this.#transaction = transaction;
  }

  /** Gives the rows of each list, if they are waited for. */
  async run(statement: Statement, { lists, isAwaited }: Lists): Promise<unknown[][]> {
    const rows: unknown[][] = [];
    for (let from = 0; from < lists.length; from += portionMax) {
      const portion = lists.slice(from, from + portionMax);
      this.#sent += portion.length;
      if (isAwaited || this.#sent >= portionMax) {
        rows.push(...(await Promise.all(portion.map((values) => this.#transaction.query(statement, values)))));
        this.#sent = 0;
      } else for (const values of portion) this.#transaction.send(statement, values);
    }
    return rows;
  }
}

interface Lists {
  readonly lists: readonly (readonly Value[])[];
  readonly isAwaited: boolean;
}
