/**
 * Statements and transactions on PostgreSQL. Statements are prepared, and are sent without waiting for one another where
 * they do not depend on each other (pipelining), so that a transaction costs a round trip for each thing that had to be known
 * first, not for each statement.
 */
import { DatabaseError, type PoolClient, type QueryConfig } from "pg";
import { stopwatchMs } from "../../system.ts";
import type { Statement as SharedStatement, Value as SharedValue } from "../statement.ts";
import { StoreUnavailable } from "../store.ts";
import { alreadyFailed, sqlStateOf, deadlock, inDoubt, unavailable } from "./faults.ts";
import { ClientPool, discard, type ConnectionsOptions } from "./pool.ts";

/** A statement is prepared once per connection, under its name. */
export type Statement = Pick<SharedStatement, "name" | "text">;

export type Value = SharedValue | readonly SharedValue[];

/** A transaction under way. Rows come as objects, bigint as numbers, bytea as Buffers. */
export interface Transaction {
  query<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]>;
  /** Sends a write whose outcome matters only in that a failure takes the transaction back. */
  send(statement: Statement, values: readonly Value[]): void;
}

export interface Connections {
  /**
   * Runs a transaction. It is committed once `run` resolves, and its value is handed out only then. Run again on a fresh
   * transaction when the database asks for it (a deadlock, a serialization failure). Rejects with StoreUnavailable when
   * the database could not do it; if the connection was lost during the commit it may have been done all the same. `begin`
   * is what it begins with: BEGIN, or `beginByKey`.
   */
  transact<T>(run: (transaction: Transaction) => Promise<T>, begin?: string): Promise<T>;
  /** Runs one statement by itself. */
  query<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]>;
  /** How many answers have come so far. While it grows, the database is there. */
  answers(): number;
  /** The shortest that a transaction's beginning took to be answered lately, in milliseconds; infinite before the first. */
  roundTripMs(): number;
  /** As of the pool (pool.ts). */
  drop(): void;
  resume(): void;
  close(): Promise<void>;
}

const triesMax = 4;
/**
 * Begins a transaction all of whose statements seek rows by their keys. They are planned once per connection: by
 * default PostgreSQL would plan one anew at each use once it has become larger, at the price of a dozen small
 * statements. And a plan that seeks by key stays good while a table grows.
 */
export const beginByKey = "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off";

export function createConnections(options: ConnectionsOptions): Connections {
  const pool = new ClientPool(options);
  const roundTrips = new RecentShortest();
  return {
    async transact(run, begin = "BEGIN") {
      for (let triesLeft = triesMax - 1; ; triesLeft -= 1) {
        try {
          return await once(pool, roundTrips, begin, run);
        } catch (error) {
          if (triesLeft === 0 || !deadlock.has(sqlStateOf(error) ?? "")) throw unavailable(error);
        }
      }
    },
    async query<Row>(statement: Statement, values: readonly Value[]) {
      const client = await pool.connect();
      try {
        const { rows } = await pool.ask(client, { ...statement, values: values as unknown[] });
        client.release();
        return rows as Row[];
      } catch (error) {
        if (sqlStateOf(error) === undefined) discard(client);
        else client.release();
        throw unavailable(error);
      }
    },
    answers: () => pool.answers,
    roundTripMs: () => roundTrips.ms,
    drop: () => pool.drop(),
    resume: () => pool.resume(),
    close: () => pool.close(),
  };
}

async function once<T>(
  pool: ClientPool,
  roundTrips: RecentShortest,
  begin: string,
  run: (transaction: Transaction) => Promise<T>,
): Promise<T> {
  const client = await pool.connect();
  const sent: Promise<unknown>[] = [];
  let firstFault: unknown;
  const send = (text: QueryConfig | string) => {
    const done = pool.ask(client, text);
    // A failure is reported where it is waited for.
    done.catch((error: unknown) => (firstFault ??= error));
    return done;
  };
  try {
    const beganMs = stopwatchMs();
    const begun = send(begin);
    begun.then(
      () => roundTrips.note(stopwatchMs() - beganMs),
      () => {},
    );
    const value = await run({
      async query<Row>(statement: Statement, values: readonly Value[]) {
        // Outside a transaction no lock would outlast its statement, and each write would be kept by itself.
        const [{ rows }] = await Promise.all([send({ ...statement, values: values as unknown[] }), begun]);
        return rows as Row[];
      },
      send: (statement, values) => void sent.push(send({ ...statement, values: values as unknown[] })),
    });
    await begun;
    const committed = send("COMMIT");
    // A statement that the database refused has ended the transaction; what became of it on a lost connection, nobody knows.
    await Promise.all(sent).catch((error: unknown) => {
      throw error instanceof DatabaseError ? error : inDoubt(error);
    });
    const { command } = await committed.catch((error: unknown) => {
      throw sqlStateOf(error) === undefined ? inDoubt(error) : error;
    });
    // COMMIT of a transaction that has failed is answered with ROLLBACK, and no error.
    if (command !== "COMMIT") throw new StoreUnavailable("the transaction was taken back");
    client.release();
    return value;
  } catch (error) {
    // What was sent behind a statement that failed fails for that alone.
    const cause = sqlStateOf(error) === alreadyFailed ? firstFault : error;
    await giveUp(client, cause);
    throw cause;
  }
}

async function giveUp(client: PoolClient, error: unknown): Promise<void> {
  // After an error of the database's own the connection is as good as before; after any other nobody knows.
  if (sqlStateOf(error) === undefined) return discard(client);
  try {
    await client.query("ROLLBACK");
    client.release();
  } catch {
    discard(client);
  }
}

/** A URL as it may be shown. What else it holds, its parameters too, may be secret. */
export function withoutCredentials(url: string): string {
  const { host, pathname } = new URL(url);
  return `postgres://${host}${pathname}`;
}

/** So many are looked at, at least, and twice as many at most. A process that is busy sees most answers late, and a few at once. */
const recentTrips = 256;

class RecentShortest {
  #before = Number.POSITIVE_INFINITY;
  #now = Number.POSITIVE_INFINITY;
  #noted = 0;

  get ms(): number {
    return Math.min(this.#before, this.#now);
  }

  note(ms: number): void {
    this.#now = Math.min(this.#now, ms);
    this.#noted += 1;
    if (this.#noted < recentTrips) return;
    this.#before = this.#now;
    this.#now = Number.POSITIVE_INFINITY;
    this.#noted = 0;
  }
}
