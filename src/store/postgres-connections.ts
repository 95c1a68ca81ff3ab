/**
 * Connections to PostgreSQL: a bounded pool, prepared statements, and transactions whose statements are sent without
 * waiting for one another where they do not depend on each other (pipelining), so that a transaction costs a round trip
 * for each thing that had to be known first, not for each statement.
 */
import {
  DatabaseError,
  Pool,
  TypeOverrides,
  types as parsers,
  type ClientConfig,
  type PoolClient,
  type QueryConfig,
} from "pg";
import { StoreUnavailable } from "./store.ts";

/** A statement that is prepared once per connection, under its name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

export type Value = string | number | boolean | null | Uint8Array | readonly (string | number | null | Uint8Array)[];

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
   * the database could not do it; if the connection was lost during the commit it may have been done all the same.
   */
  transact<T>(run: (transaction: Transaction) => Promise<T>): Promise<T>;
  /** Runs one statement by itself. */
  query<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]>;
  close(): Promise<void>;
}

export interface ConnectionsOptions {
  readonly url: string;
  /** Connections at once. */
  readonly connectionsMax?: number;
}

const connectTimeoutMs = 3_000;
/** The database gives up on a statement after this, and on waiting for a lock after that. */
const statementTimeoutMs = 5_000;
const lockTimeoutMs = 4_000;
/** And this end on an answer: a network that swallows packets tells nobody. */
const answerTimeoutMs = 6_000;
/** A transaction of a process that hung or vanished holds its locks no longer. */
const idleTransactionTimeoutMs = 10_000;
const triesMax = 4;

const deadlock = new Set(["40001", "40P01"]);

/** bigint (counts and milliseconds, all below 2⁵³) and numeric as numbers. */
const types = new TypeOverrides();
types.setTypeParser(parsers.builtins.INT8, Number);

export function createConnections({ url, connectionsMax = 8 }: ConnectionsOptions): Connections {
  const settings: ClientConfig = {
    connectionString: url,
    application_name: "otpd",
    connectionTimeoutMillis: connectTimeoutMs,
    statement_timeout: statementTimeoutMs,
    lock_timeout: lockTimeoutMs,
    query_timeout: answerTimeoutMs,
    idle_in_transaction_session_timeout: idleTransactionTimeoutMs,
    keepAlive: true,
    types,
  };
  const pool = new Pool({ ...settings, max: connectionsMax, idleTimeoutMillis: 60_000, pipeline: true });
  // A connection that is lost while nobody uses it: the pool has dropped it, the next call opens another.
  pool.on("error", () => {});
  let isClosed = false;

  async function connect(): Promise<PoolClient> {
    if (isClosed) throw new StoreUnavailable("the store is closed");
    try {
      return await pool.connect();
    } catch (error) {
      throw unavailable(error);
    }
  }

  async function once<T>(run: (transaction: Transaction) => Promise<T>): Promise<T> {
    const client = await connect();
    const sent: Promise<unknown>[] = [];
    const send = (text: QueryConfig | string) => {
      const done = client.query(text);
      // A failure is reported where it is waited for.
      done.catch(() => {});
      return done;
    };
    try {
      sent.push(send("BEGIN"));
      const value = await run({
        async query<Row>(statement: Statement, values: readonly Value[]) {
          return (await send({ ...statement, values: values as unknown[] })).rows as Row[];
        },
        send: (statement, values) => void sent.push(send({ ...statement, values: values as unknown[] })),
      });
      const committed = send("COMMIT");
      await Promise.all(sent);
      // COMMIT of a transaction that has failed is answered with ROLLBACK, and no error.
      if ((await committed).command !== "COMMIT") throw new StoreUnavailable("the transaction was taken back");
      client.release();
      return value;
    } catch (error) {
      await giveUp(client, error);
      throw error;
    }
  }

  async function giveUp(client: PoolClient, error: unknown): Promise<void> {
    // After an error of the database's own the connection is as good as before; after any other nobody knows.
    if (codeOf(error) === undefined) return client.release(true);
    try {
      await client.query("ROLLBACK");
      client.release();
    } catch {
      client.release(true);
    }
  }

  async function transact<T>(run: (transaction: Transaction) => Promise<T>): Promise<T> {
    for (let triesLeft = triesMax - 1; ; triesLeft -= 1) {
      try {
        return await once(run);
      } catch (error) {
        if (triesLeft === 0 || !deadlock.has(codeOf(error) ?? "")) throw unavailable(error);
      }
    }
  }

  return {
    transact,
    async query<Row>(statement: Statement, values: readonly Value[]) {
      const client = await connect();
      try {
        const { rows } = await client.query({ ...statement, values: values as unknown[] });
        client.release();
        return rows as Row[];
      } catch (error) {
        client.release(codeOf(error) === undefined);
        throw unavailable(error);
      }
    },
    async close() {
      isClosed = true;
      await pool.end();
    },
  };
}

/** The SQLSTATE of an error that the database itself answered with. 57P01 and its like end the connection. */
function codeOf(error: unknown): string | undefined {
  if (!(error instanceof DatabaseError) || error.code === undefined) return undefined;
  return /^(57P|08)/.test(error.code) ? undefined : error.code;
}

/** True for an error of the data itself (a value out of range, an id taken twice): a bug of ours, not an outage. */
export function isFaultOfData(error: unknown): boolean {
  return error instanceof DatabaseError && /^2[23]/.test(error.code ?? "");
}

/** An error as the port tells it. A bug of ours stays what it is. */
export function unavailable(error: unknown): unknown {
  if (error instanceof StoreUnavailable || isFaultOfData(error)) return error;
  if (error instanceof DatabaseError) {
    return new StoreUnavailable(`PostgreSQL answers ${error.code}: ${error.message}`, { cause: error });
  }
  const isConnection =
    error instanceof Error && ("code" in error || /timeout|terminated|connection|closed|ended/i.test(error.message));
  return isConnection ? new StoreUnavailable(error.message, { cause: error }) : error;
}
