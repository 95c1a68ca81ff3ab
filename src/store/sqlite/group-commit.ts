/**
 * Group commit: acts that arrive together share one transaction and one fsync, and no act is answered before that
 * transaction is committed. With FULL durability a commit costs about 100 µs of disk, however many acts are in it: at
 * 32 calls in flight this is 5 times the throughput of a transaction each.
 *
 * An act that fails takes nothing back from its neighbours: the transaction is rolled back, and its acts are run again in
 * the next, with a savepoint for each. Where nothing fails there is none. So an act may be run twice, and only its last run
 * counts. Some errors (a full disk above all) end the whole transaction behind SQLite's back; then every
 * act of the batch fails and none goes on, since what came after would run outside any transaction and be committed
 * statement by statement.
 */
import type { Database, Statement } from "better-sqlite3";
import { StoreUnavailable, type BatchMeter } from "../store.ts";

/** What keeps more of the database in memory than SQLite does itself. */
export interface TransactionWatch {
  /** A transaction has begun. Others may have written since the last one. */
  readonly onBegin: () => void;
  /** What acts have held back is to be written: they are through, and are about to be committed. */
  readonly onEnd: () => void;
  /** What acts of this transaction wrote was taken back, all of it or in part. */
  readonly onUndo: () => void;
}

interface Act {
  readonly run: () => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  triesLeft: number;
  /** True once a batch with it has failed: whose fault it was is not known. */
  isSuspect: boolean;
}

/** Acts in one transaction. More would make the first wait for the last. */
const batchActsMax = 256;
/** Acts waiting. Beyond this the database is hopelessly behind, and a quick refusal is worth more than a place. */
const queueActsMax = 4096;
/**
 * How often an act waits for another process (the CLI, a backup) to let go of the database, and how long each time: some
 * six seconds in all, with the busy timeout that blocks at each try.
 */
const busyTriesMax = 400;
export const busyWaitMs = 10;

export class GroupCommit {
  #queue: Act[] = [];
  #scheduled = false;
  #closed = false;
  #idle: (() => void)[] = [];
  readonly #db: Database;
  readonly #meter: BatchMeter | undefined;
  readonly #watch: TransactionWatch | undefined;
  readonly #sql: Record<"begin" | "commit" | "rollback" | "savepoint" | "release" | "rollbackTo", Statement>;

  constructor(db: Database, meter?: BatchMeter, watch?: TransactionWatch) {
    this.#db = db;
    this.#meter = meter;
    this.#watch = watch;
    this.#sql = {
      begin: db.prepare("BEGIN IMMEDIATE"),
      commit: db.prepare("COMMIT"),
      rollback: db.prepare("ROLLBACK"),
      savepoint: db.prepare("SAVEPOINT act"),
      release: db.prepare("RELEASE act"),
      rollbackTo: db.prepare("ROLLBACK TO act"),
    };
  }

  /**
   * Runs a synchronous act within the next transaction; resolves with its value once that is durable. It may be run twice:
   * beside the database it changes nothing.
   */
  run<T>(act: () => T): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreUnavailable("the store is closed"));
    if (this.#queue.length >= queueActsMax) return Promise.reject(new StoreUnavailable("too many acts are waiting"));
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({
        run: act,
        resolve: resolve as (value: unknown) => void,
        reject,
        triesLeft: busyTriesMax,
        isSuspect: false,
      });
      this.#schedule();
    });
  }

  /** Takes no more acts, and resolves once none is waiting. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#queue.length > 0 || this.#scheduled) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    let batch: Act[] = [];
    const began = this.#meter?.begin() ?? 0;
    try {
      this.#sql.begin.run();
      batch = this.#queue.splice(0, batchActsMax);
    } catch (error) {
      if (isBusy(error) && this.#waitOn(error, began)) return void setTimeout(() => this.#flush(), busyWaitMs);
      const refused = this.#queue.splice(0, batchActsMax);
      if (refused.length > 0) this.#tell(began, refused, fail(refused, error));
    }
    const isDurable = batch.length === 0 ? undefined : this.#commit(batch);
    if (isDurable !== undefined) this.#tell(began, batch, isDurable);
    this.#scheduled = false;
    if (this.#queue.length > 0) this.#schedule();
    else for (const resolve of this.#idle.splice(0)) resolve();
  }

  #tell(began: number, { length }: readonly Act[], isDurable: boolean): void {
    this.#meter?.end({ began, acts: length, isDurable });
  }

  /** Another process holds the database: refuses the acts that have waited long enough. True if some are left to wait. */
  #waitOn(error: unknown, began: number): boolean {
    // Everyone waits for the same thing, so every try is everyone's. Counted by batch, the last would wait for minutes.
    for (const act of this.#queue) act.triesLeft -= 1;
    const patient = this.#queue.findIndex(({ triesLeft }) => triesLeft > 0);
    const refused = this.#queue.splice(0, patient < 0 ? this.#queue.length : patient);
    if (refused.length > 0) this.#tell(began, refused, fail(refused, error));
    return this.#queue.length > 0;
  }

  /**
   * Runs a batch in the transaction that was begun, commits it and answers its acts. False when it failed as a whole,
   * undefined when it is to be run again.
   */
  #commit(batch: Act[]): boolean | undefined {
    let answers: (() => void)[] | undefined;
    try {
      this.#watch?.onBegin();
      const isSuspect = batch.some((act) => act.isSuspect);
      answers = isSuspect ? this.#runApart(batch) : this.#runTogether(batch);
      if (answers === undefined) return undefined;
      this.#sql.commit.run();
    } catch (error) {
      this.#watch?.onUndo();
      if (this.#db.inTransaction) this.#tryRollback();
      return fail(batch, error);
    }
    for (const answer of answers) answer();
    return true;
  }

  /**
   * Runs all acts. Undefined when one has failed: nothing of any is left, and they are first in the queue. Throws when the
   * transaction is gone.
   */
  #runTogether(batch: readonly Act[]): (() => void)[] | undefined {
    try {
      const answers = batch.map((act) => {
        const value = act.run();
        return () => act.resolve(value);
      });
      this.#watch?.onEnd();
      return answers;
    } catch (error) {
      if (!this.#db.inTransaction) throw error;
      this.#watch?.onUndo();
      this.#sql.rollback.run();
      for (const act of batch) act.isSuspect = true;
      this.#queue.unshift(...batch);
      return undefined;
    }
  }

  /** Runs each act under a savepoint of its own. Throws when the transaction is gone. */
  #runApart(batch: readonly Act[]): (() => void)[] {
    return batch.map((act) => {
      try {
        this.#sql.savepoint.run();
        const value = act.run();
        this.#watch?.onEnd();
        this.#sql.release.run();
        return () => act.resolve(value);
      } catch (error) {
        if (!this.#stands()) throw error;
        const answer = asUnavailable(error);
        return () => act.reject(answer);
      }
    });
  }

  /** After an error: takes back what was written since the savepoint, and tells whether the transaction still stands. */
  #stands(): boolean {
    this.#watch?.onUndo();
    if (!this.#db.inTransaction) return false;
    try {
      this.#sql.rollbackTo.run();
      this.#sql.release.run();
      return true;
    } catch {
      this.#tryRollback();
      return false;
    }
  }

  #tryRollback(): void {
    try {
      this.#sql.rollback.run();
    } catch {
      // SQLite has rolled back by itself already.
    }
  }
}

/** Refuses acts for want of the database. False, as what became of them. */
function fail(acts: readonly Act[], error: unknown): false {
  const why = codeOf(error) === undefined ? "the transaction ended" : (error as Error).message;
  const unavailable = new StoreUnavailable(why, { cause: error });
  for (const act of acts) act.reject(unavailable);
  return false;
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && error.name === "SqliteError"
    ? String((error as { code?: unknown }).code)
    : undefined;
}

/** True for an error that says that another process has the database. */
export function isBusy(error: unknown): boolean {
  return codeOf(error)?.startsWith("SQLITE_BUSY") === true;
}

/** Errors that tell of a bug of ours: trying again would fail again, so they stay what they are. */
const bugs = /^SQLITE_(CONSTRAINT|MISMATCH|MISUSE|RANGE|TOOBIG)/;

/** An error of the database as the port's own. Its text names no value: SQLite's messages hold none. */
export function asUnavailable(error: unknown): unknown {
  const code = codeOf(error);
  if (code === undefined || bugs.test(code)) return error;
  return new StoreUnavailable((error as Error).message, { cause: error });
}
