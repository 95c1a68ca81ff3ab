/**
 * Acts in steps (statement.ts) on PostgreSQL. What is not waited for is sent along with what follows.
 */
import type { Step, Steps } from "../statement.ts";
import type { Transaction } from "./connections.ts";

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
  const { name, text, locksRows } = step.statement;
  const statement = { name, text: locksRows === true ? `${text} FOR UPDATE` : text };
  if (step.isAwaited) return Promise.all(step.lists.map((values) => transaction.query(statement, values)));
  for (const values of step.lists) transaction.send(statement, values);
  return [];
}
