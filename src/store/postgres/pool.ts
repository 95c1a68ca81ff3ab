/**
 * A bounded pool of connections to PostgreSQL, which can be given up whole when the network falls silent.
 */
import {
  DatabaseError,
  Pool,
  TypeOverrides,
  types as parsers,
  type ClientConfig,
  type PoolConfig,
  type PoolClient,
  type QueryConfig,
  type QueryResult,
} from "pg";
import type { Writable } from "node:stream";
import { StoreUnavailable } from "../store.ts";
import { lost, silence, unavailable } from "./faults.ts";

export interface ConnectionsOptions {
  readonly url: string;
  /** Connections at once. */
  readonly connectionsMax?: number | undefined;
  /** True for work that may take long, or wait for another's: no statement and no lock has a limit then. */
  readonly isPatient?: boolean;
  /** The database gives up on a statement after this, unless it is patient work. */
  readonly statementMsMax?: number;
  /** So many times as long as usual it waits for anything: for tests, which a busy machine holds up. */
  readonly waitFactor?: number | undefined;
  /** What else each connection is set to, where the server knows of it. */
  readonly settings?: Readonly<Record<string, string | number>>;
}

const connectTimeoutMs = 3_000;
/** The database gives up on a statement after this, and on waiting for a lock after that. */
const statementTimeoutMs = 5_000;
const lockTimeoutMs = 4_000;
/** And this end on an answer, of a connection that is lost without a word while others are well. */
const answerTimeoutMs = 6_000;
/**
 * A transaction of a process that hung or vanished holds its locks no longer. A lock may be of a tenant's day, which
 * every send under a cap waits for. A healthy transaction never waits more than a few ms for its process.
 */
const idleTransactionTimeoutMs = 2_000;
/**
 * Nor does a transaction with half of a batch last longer, whose rest was lost on its way: the database waits for the rest, and
 * takes such a transaction for a busy one. Its connection ends with it.
 */
const transactionTimeoutMs = 10_000;
/** So soon the database asks whether a silent process is still there, and again; by default after two hours. */
const aliveAfterSeconds = 10;
const aliveEachSeconds = 2;
const aliveTries = 3;
/** A connection that nobody uses is asked for a sign of life after this, and each second from then on. */
const keepAliveMs = 10_000;
const idleMs = 60_000;

/** bigint (counts and milliseconds, all below 2⁵³) and numeric as numbers. */
const types = new TypeOverrides();
types.setTypeParser(parsers.builtins.INT8, Number);

/** What every connection to a database has in common. */
export function connectionSettings(url: string): ClientConfig {
  return { connectionString: url, keepAlive: true, keepAliveInitialDelayMillis: keepAliveMs, types };
}

export class ClientPool {
  readonly #settings: PoolConfig;
  readonly #firstText: string;
  readonly #clients = new Set<PoolClient>();
  /** Those who wait for a connection. */
  readonly #waiting = new Set<PromiseWithResolvers<PoolClient>>();
  #pool: Pool;
  #isSilent = false;
  #isClosed = false;
  /** How many answers have come so far. */
  answers = 0;

  constructor(options: ConnectionsOptions) {
    this.#settings = settingsOf(options);
    this.#firstText = firstTextOf(options);
    this.#pool = this.#createPool();
  }

  #createPool(): Pool {
    const made = new Pool(this.#settings);
    // A connection that is lost while nobody uses it: the pool has dropped it, the next call opens another.
    made.on("error", () => {});
    made.on("connect", (client) => {
      this.#clients.add(client);
      client.query(this.#firstText).catch(() => {});
      // One that is lost while it is used fails its statements. Unheard, the event would end the process.
      client.on("error", () => {});
    });
    made.on("remove", (client) => this.#clients.delete(client));
    return made;
  }

  connect(): Promise<PoolClient> {
    if (this.#isClosed) return Promise.reject(new StoreUnavailable("the store is closed"));
    if (this.#isSilent) return Promise.reject(silence());
    const turn = Promise.withResolvers<PoolClient>();
    this.#waiting.add(turn);
    void this.#serve(turn);
    return turn.promise;
  }

  async #serve(turn: PromiseWithResolvers<PoolClient>): Promise<void> {
    try {
      const client = await this.#pool.connect();
      if (this.#waiting.delete(turn)) turn.resolve(client);
      else discard(client);
    } catch (error) {
      this.#waiting.delete(turn);
      turn.reject(unavailable(lost(error)));
    }
  }

  /** Sends a statement. Rejects with what the database said, or with StoreUnavailable if that was nothing. */
  async ask(client: PoolClient, text: QueryConfig | string): Promise<QueryResult> {
    sendTogether(client.connection.stream);
    try {
      const result = await client.query(text);
      this.answers += 1;
      return result;
    } catch (error) {
      if (error instanceof DatabaseError) this.answers += 1;
      throw lost(error);
    }
  }

  /** Gives up on every connection: whatever waits for one or on one is rejected, and so is all else until `resume`. */
  drop(): void {
    this.#isSilent = true;
    const old = this.#pool;
    // A pool counts what is still being connected: a new one has room at once.
    this.#pool = this.#createPool();
    for (const turn of this.#waiting) turn.reject(silence());
    this.#waiting.clear();
    for (const client of this.#clients) client.connection.stream.destroy();
    this.#clients.clear();
    old.end().catch(() => {});
  }

  resume(): void {
    this.#isSilent = false;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#pool.end();
  }
}

function settingsOf(options: ConnectionsOptions): PoolConfig {
  const { url, connectionsMax = 8, isPatient = false, waitFactor = 1 } = options;
  const limits: ClientConfig = {
    statement_timeout: (options.statementMsMax ?? statementTimeoutMs) * waitFactor,
    lock_timeout: lockTimeoutMs * waitFactor,
    query_timeout: answerTimeoutMs * waitFactor,
  };
  return {
    ...connectionSettings(url),
    application_name: "otpd",
    connectionTimeoutMillis: connectTimeoutMs * waitFactor,
    idle_in_transaction_session_timeout: idleTransactionTimeoutMs * waitFactor,
    ...(isPatient ? {} : limits),
    max: connectionsMax,
    idleTimeoutMillis: idleMs,
    pipeline: true,
  };
}

/**
 * Sets what a connection begins with, ahead of its first statement: what the server knows of it, since servers before 17 have no
 * limit on a transaction. It is not named at the start of the connection, where a pooler refuses what it does not know.
 */
function firstTextOf({ isPatient = false, waitFactor = 1, settings = {} }: ConnectionsOptions): string {
  const values = {
    ...settings,
    tcp_keepalives_idle: aliveAfterSeconds,
    tcp_keepalives_interval: aliveEachSeconds,
    tcp_keepalives_count: aliveTries,
    ...(isPatient ? {} : { transaction_timeout: transactionTimeoutMs * waitFactor }),
  };
  const list = Object.entries(values).map(([name, value]) => `('${name}', '${value}')`);
  return `SELECT set_config(name, value, false) FROM (VALUES ${list.join(", ")}) AS wanted (name, value)
    WHERE current_setting(name, true) IS NOT NULL`;
}

/** Ends a connection at once: an orderly end would wait for the other side. */
export function discard(client: PoolClient): void {
  client.connection.stream.destroy();
  client.release(true);
}

/** Has what is sent in one step of the event loop go out in one write: each is a call of the system, and may be a packet. */
function sendTogether(stream: Writable): void {
  if (stream.writableCorked > 0) return;
  stream.cork();
  process.nextTick(() => stream.uncork());
}
