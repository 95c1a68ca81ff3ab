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
  type QueryResult,
} from "pg";
import type { Statement as SharedStatement, Value as SharedValue } from "../statement.ts";
import { StoreUnavailable } from "../store.ts";

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
   * the database could not do it; if the connection was lost during the commit it may have been done all the same.
   */
  transact<T>(run: (transaction: Transaction) => Promise<T>): Promise<T>;
  /** Runs one statement by itself. */
  query<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]>;
  /** How many answers have come so far. While it grows, the database is there. */
  answers(): number;
  /** Gives up on every connection: whatever waits for one or on one is rejected, and so is all else until `resume`. */
  drop(): void;
  resume(): void;
  close(): Promise<void>;
}

export interface ConnectionsOptions {
  readonly url: string;
  /** Connections at once. */
  readonly connectionsMax?: number;
  /** True for work that may take long, or wait for another's: no statement and no lock has a limit then. */
  readonly isPatient?: boolean;
}

const connectTimeoutMs = 3_000;
/** The database gives up on a statement after this, and on waiting for a lock after that. */
const statementTimeoutMs = 5_000;
const lockTimeoutMs = 4_000;
/** And this end on an answer, of a connection that is lost without a word while others are well. */
const answerTimeoutMs = 6_000;
/**
 * A transaction of a process that hung or vanished holds its locks no longer. They may be a tenant's day, which every send
 * under a cap waits for; a transaction that is well never waits for its process for more than a few ms.
 */
const idleTransactionTimeoutMs = 2_000;
/** A connection that nobody uses is asked for a sign of life after this, and each second from then on. */
const keepAliveMs = 10_000;
const idleMs = 60_000;
const triesMax = 4;

const deadlock = new Set(["40001", "40P01"]);
const alreadyFailed = "25P02";

/** bigint (counts and milliseconds, all below 2⁵³) and numeric as numbers. */
const types = new TypeOverrides();
types.setTypeParser(parsers.builtins.INT8, Number);

/** What every connection to a database has in common. */
export function connectionSettings(url: string): ClientConfig {
  return { connectionString: url, keepAlive: true, keepAliveInitialDelayMillis: keepAliveMs, types };
}

export function createConnections({ url, connectionsMax = 8, isPatient = false }: ConnectionsOptions): Connections {
  const limits: ClientConfig = {
    statement_timeout: statementTimeoutMs,
    lock_timeout: lockTimeoutMs,
    query_timeout: answerTimeoutMs,
  };
  const settings: ClientConfig = {
    ...connectionSettings(url),
    application_name: "otpd",
    connectionTimeoutMillis: connectTimeoutMs,
    idle_in_transaction_session_timeout: idleTransactionTimeoutMs,
    ...(isPatient ? {} : limits),
  };
  const clients = new Set<PoolClient>();
  /** Those who wait for a connection. */
  const waiting = new Set<PromiseWithResolvers<PoolClient>>();
  let pool = createPool();
  let answers = 0;
  let isSilent = false;
  let isClosed = false;

  function createPool(): Pool {
    const made = new Pool({ ...settings, max: connectionsMax, idleTimeoutMillis: idleMs, pipeline: true });
    // A connection that is lost while nobody uses it: the pool has dropped it, the next call opens another.
    made.on("error", () => {});
    made.on("connect", (client) => {
      clients.add(client);
      // One that is lost while it is used fails its statements. Unheard, the event would end the process.
      client.on("error", () => {});
    });
    made.on("remove", (client) => clients.delete(client));
    return made;
  }

  function connect(): Promise<PoolClient> {
    if (isClosed) return Promise.reject(new StoreUnavailable("the store is closed"));
    if (isSilent) return Promise.reject(silence());
    const turn = Promise.withResolvers<PoolClient>();
    waiting.add(turn);
    void serve(turn);
    return turn.promise;
  }

  async function serve(turn: PromiseWithResolvers<PoolClient>): Promise<void> {
    try {
      const client = await pool.connect();
      if (waiting.delete(turn)) turn.resolve(client);
      else discard(client);
    } catch (error) {
      waiting.delete(turn);
      turn.reject(unavailable(lost(error)));
    }
  }

  /** Sends a statement. Rejects with what the database said, or with StoreUnavailable if that was nothing. */
  async function ask(client: PoolClient, text: QueryConfig | string): Promise<QueryResult> {
    try {
      const result = await client.query(text);
      answers += 1;
      return result;
    } catch (error) {
      if (error instanceof DatabaseError) answers += 1;
      throw lost(error);
    }
  }

  async function once<T>(run: (transaction: Transaction) => Promise<T>): Promise<T> {
    const client = await connect();
    const sent: Promise<unknown>[] = [];
    let firstFault: unknown;
    const send = (text: QueryConfig | string) => {
      const done = ask(client, text);
      // A failure is reported where it is waited for.
      done.catch((error: unknown) => (firstFault ??= error));
      return done;
    };
    try {
      const begun = send("BEGIN");
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
        throw codeOf(error) === undefined ? inDoubt(error) : error;
      });
      // COMMIT of a transaction that has failed is answered with ROLLBACK, and no error.
      if (command !== "COMMIT") throw new StoreUnavailable("the transaction was taken back");
      client.release();
      return value;
    } catch (error) {
      // What was sent behind a statement that failed fails for that alone.
      const cause = codeOf(error) === alreadyFailed ? firstFault : error;
      await giveUp(client, cause);
      throw cause;
    }
  }

  async function giveUp(client: PoolClient, error: unknown): Promise<void> {
    // After an error of the database's own the connection is as good as before; after any other nobody knows.
    if (codeOf(error) === undefined) return discard(client);
    try {
      await client.query("ROLLBACK");
      client.release();
    } catch {
      discard(client);
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
        const { rows } = await ask(client, { ...statement, values: values as unknown[] });
        client.release();
        return rows as Row[];
      } catch (error) {
        if (codeOf(error) === undefined) discard(client);
        else client.release();
        throw unavailable(error);
      }
    },
    answers: () => answers,
    drop() {
      isSilent = true;
      const old = pool;
      // A pool counts what is still being connected: a new one has room at once.
      pool = createPool();
      for (const turn of waiting) turn.reject(silence());
      waiting.clear();
      for (const client of clients) client.connection.stream.destroy();
      clients.clear();
      old.end().catch(() => {});
    },
    resume() {
      isSilent = false;
    },
    async close() {
      isClosed = true;
      await pool.end();
    },
  };
}

/** Ends a connection at once: an orderly end would wait for the other side. */
function discard(client: PoolClient): void {
  client.connection.stream.destroy();
  client.release(true);
}

function silence(): StoreUnavailable {
  return new StoreUnavailable("the database does not answer");
}

/** What came instead of a commit's answer. */
function inDoubt(error: unknown): StoreUnavailable {
  return new StoreUnavailable(messageOf(error), { cause: error, mayBeDone: true });
}

/** What is no word of the database's own: there is no connection, or there is none any more. */
function lost(error: unknown): unknown {
  if (error instanceof DatabaseError || error instanceof StoreUnavailable) return error;
  return new StoreUnavailable(messageOf(error), { cause: error });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : "the connection is lost";
}

/**
 * The SQLSTATE of an error that leaves the connection as good as it was. Not so a database that is going (57P) or gone
 * (08), or one that only reads (25006): behind the same name there may be another by now.
 */
function codeOf(error: unknown): string | undefined {
  if (!(error instanceof DatabaseError) || error.code === undefined) return undefined;
  return /^(57P|08|25006)/.test(error.code) ? undefined : error.code;
}

/** True for an error of the data itself (a value out of range, an id taken twice): a bug of ours, not an outage. */
function isFaultOfData(error: unknown): boolean {
  return error instanceof DatabaseError && /^2[23]/.test(error.code ?? "");
}

/** An error as the port tells it. A bug of ours stays what it is. */
function unavailable(error: unknown): unknown {
  if (!(error instanceof DatabaseError) || isFaultOfData(error)) return error;
  return new StoreUnavailable(`PostgreSQL answers ${error.code}: ${error.message}`, { cause: error });
}
