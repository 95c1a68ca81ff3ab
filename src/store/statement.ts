/**
 * SQL that is the same on every database, and acts written in it: what operators write, endpoints, and plain reads. Such an
 * act is a generator of steps. The engine runs them as one transaction: SQLite at once, PostgreSQL over its connection. So
 * an act may read, decide and write as it goes, and is written once.
 */

import type { Verification } from "../otp/verification/verification.ts";

/** Values are `$1`, `$2`, … in the text. A write that is asked for rows says RETURNING. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  /** True where the rows that it reads are to stay as they are until the transaction is over. */
  readonly locksRows?: true;
  /** True where it writes what engines may remember: what is recalled (`recall`), and whether a tenant has lists. */
  readonly changesRecalled?: true;
}

export type Value = string | number | Uint8Array | null;

export type Step =
  /** Changes a verification, if it is there, as the acts on it do. */
  | { readonly verificationId: string; readonly change: (verification: Verification) => Verification }
  /** Deletes verifications with their messages. What else is kept of their phones stays. */
  | { readonly erase: readonly string[] }
  /** Keeps everyone else from writing a table until the transaction is over. Readers go on. */
  | { readonly lock: "api_keys" | "tenants" | "master_keys" }
  /** Runs a statement once for each list of values. The rows of each are what it answers, if they are waited for. */
  | { readonly statement: Statement; readonly lists: readonly (readonly Value[])[]; readonly isAwaited: boolean };

/** An act in steps. It may be run again from the start, so beside its steps it is pure. */
export type Steps<T> = Generator<Step, T, readonly (readonly unknown[])[]>;

export function* query<Row>(statement: Statement, values: readonly Value[] = []): Steps<readonly Row[]> {
  const [rows = []] = yield { statement, lists: [values], isAwaited: true };
  return rows as readonly Row[];
}

/** Runs a statement once for each list of values, and gives all rows. */
export function* queryEach<Row>(statement: Statement, lists: readonly (readonly Value[])[]): Steps<readonly Row[]> {
  return (yield { statement, lists, isAwaited: true }).flat() as readonly Row[];
}

/** Runs a write, once for each list of values, whose outcome matters only in that a failure takes the act back. */
export function* send(statement: Statement, ...lists: readonly (readonly Value[])[]): Steps<void> {
  yield { statement, lists, isAwaited: false };
}

export function* changeVerification(
  verificationId: string,
  change: (verification: Verification) => Verification,
): Steps<void> {
  yield { verificationId, change };
}

export function* erase(ids: readonly string[]): Steps<void> {
  yield { erase: ids };
}

export function* lock(table: "api_keys" | "tenants" | "master_keys"): Steps<void> {
  yield { lock: table };
}

/** A statement for a driver that knows no `$1`: each is a `?`, for the value at that place. */
export function bindable({ text }: Pick<Statement, "text">): {
  readonly text: string;
  readonly order: readonly number[];
} {
  const order: number[] = [];
  const marked = text.replaceAll(/\$(\d+)/g, (_, place: string) => {
    order.push(Number(place) - 1);
    return "?";
  });
  return { text: marked, order };
}

/** A list of columns, as a statement has it. */
export const list = (columns: readonly string[]) => columns.join(", ");
/** A value for each of them. */
export const valuesOf = (columns: readonly string[]) => columns.map((_, i) => `$${i + 1}`).join(", ");
/** What an upsert changes. */
export const updates = (columns: readonly string[]) =>
  columns.map((column) => `${column} = excluded.${column}`).join(", ");
