/**
 * Acts in steps (statement.ts) on PostgreSQL. What is not waited for is sent along with what follows.
 */
import { idBytesOf } from "../rows/values.ts";
import { toVerification, verificationChanges, type VerificationRow } from "../rows/verification.ts";
import type { Step, Steps } from "../statement.ts";
import { columns } from "./columns.ts";
import type { Transaction } from "./connections.ts";
import { statements as sql } from "./statements.ts";

export async function runSteps<T>(transaction: Transaction, steps: Steps<T>): Promise<T> {
  let next = steps.next();
  while (next.done !== true) next = steps.next(await run(transaction, next.value));
  return next.value;
}

async function run(transaction: Transaction, step: Step): Promise<unknown[][]> {
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
  const statement = { name, text: locksRows === true ? `${text} FOR UPDATE` : text };
  if (step.isAwaited) return Promise.all(step.lists.map((values) => transaction.query(statement, values)));
  for (const values of step.lists) transaction.send(statement, values);
  return [];
}
