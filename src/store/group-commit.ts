/**
 * Group commit: acts that arrive together share one transaction and one fsync, and no act is answered before that
 * transaction is committed. With FULL durability a commit costs about 100 µs of disk, however many acts are in it: at
 * 32 calls in flight this is 5 times the throughput of a transaction each.
 *
 * Every act has a savepoint, so one that fails takes nothing back from its neighbours. Some errors (a full disk above
 * all) end the whole transaction behind SQLite's back; then every act of the batch fails and none goes on, since what
 * came after would run outside any transaction and be committed statement by statement.
 */
import type { Database } from "better-sqlite3";
import { StoreUnavailable } from "./store.ts";

interface Act {
  readonly run: () => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  triesLeft: number;
}

/** Acts in one transaction. More would make the first wait for the last. */
const batchActsMax = 256;
/** Acts waiting. Beyond this the database is hopelessly behind, and a quick refusal is worth more than a place. */
const queueActsMax = 4096;
/** How often a batch waits for another process (the CLI, a backup) to let go of the database, and how long each time. */
const busyTriesMax = 200;
const busyWaitMs = 10;

export class GroupCommit {
  #queue: Act[] = [];
  #scheduled = false;
  #idle: (() => void)[] = [];
  readonly #db: Database;
  readonly #run: Record<"begin" | "commit" | "rollback" | "savepoint" | "release" | "rollbackTo", () => void>;

  constructor(db: Database) {
    this.#db = db;
    const statement = (sql: string) => {
      const prepared = db.prepare(sql);
      return () => void prepared.run();
    };
    this.#run = {
      begin: statement("BEGIN IMMEDIATE"),
      commit: statement("COMMIT"),
      rollback: statement("ROLLBACK"),
      savepoint: statement("SAVEPOINT act"),
      release: statement("RELEASE act"),
      rollbackTo: statement("ROLLBACK TO act"),
    };
  }

  /** Runs a synchronous act within the next transaction; resolves with its value once that is durable. */
  run<T>(act: () => T): Promise<T> {
    if (this.#queue.length >= queueActsMax) return Promise.reject(new StoreUnavailable("too many acts are waiting"));
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ run: act, resolve: resolve as (value: unknown) => void, reject, triesLeft: busyTriesMax });
      this.#schedule();
    });
  }

  /** Resolves once nothing is waiting. */
  async drained(): Promise<void> {
    if (this.#queue.length > 0 || this.#scheduled) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    const batch = this.#queue.splice(0, batchActsMax);
    const busy = this.#commit(batch);
    if (busy.length > 0) {
      this.#queue.unshift(...busy);
      setTimeout(() => this.#flush(), busyWaitMs);
      return;
    }
    this.#scheduled = false;
    if (this.#queue.length > 0) this.#schedule();
    else for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** Commits a batch and answers its acts. Returns those to try again because another process holds the database. */
  #commit(batch: Act[]): Act[] {
    const fail = (acts: Act[], error: unknown) => {
      const unavailable = asUnavailable(error);
      for (const act of acts) act.reject(unavailable);
    };
    try {
      this.#run.begin();
    } catch (error) {
      const again = isBusy(error) ? batch.filter((act) => act.triesLeft-- > 0) : [];
      fail(
        batch.filter((act) => !again.includes(act)),
        error,
      );
      return again;
    }
    const answers: (() => void)[] = [];
    for (const act of batch) {
      try {
        this.#run.savepoint();
        const value = act.run();
        this.#run.release();
        answers.push(() => act.resolve(value));
      } catch (error) {
        if (!this.#stands()) {
          fail(batch, error);
          return [];
        }
        const answer = isSqlError(error) ? asUnavailable(error) : error;
        answers.push(() => act.reject(answer));
      }
    }
    try {
      this.#run.commit();
    } catch (error) {
      if (this.#db.inTransaction) this.#tryRollback();
      fail(batch, error);
      return [];
    }
    for (const answer of answers) answer();
    return [];
  }

  /** After an error: takes the act's own writes back, and tells whether the batch's transaction still stands. */
  #stands(): boolean {
    if (!this.#db.inTransaction) return false;
    try {
      this.#run.rollbackTo();
      this.#run.release();
      return true;
    } catch {
      this.#tryRollback();
      return false;
    }
  }

  #tryRollback(): void {
    try {
      this.#run.rollback();
    } catch {
      // SQLite has rolled back by itself already.
    }
  }
}

function isSqlError(error: unknown): boolean {
  return error instanceof Error && error.name === "SqliteError";
}

function isBusy(error: unknown): boolean {
  return isSqlError(error) && String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY");
}

/** An error of the database as the port's own. Its text names no value: SQLite's messages hold none. */
export function asUnavailable(error: unknown): unknown {
  return isSqlError(error) ? new StoreUnavailable((error as Error).message, { cause: error }) : error;
}
