/**
 * Group commit: acts that arrive together share one transaction and one fsync, and no act is answered before that
 * transaction is committed. With FULL durability a commit costs about 100 µs of disk, however many acts are in it: at
 * 32 calls in flight this is 5 times the throughput of a transaction each.
 *
 * An act that fails takes nothing back from its neighbours: the transaction is rolled back, and its acts are run again
 * in the next one, with a savepoint for each; a transaction in which nothing fails has no savepoint. So an act may be
 * run twice, and only its last run counts. Some errors (a full disk above all) end the whole transaction behind
 * SQLite's back. Then every act of the batch fails and none goes on: what came after would run outside any transaction
 * and be committed statement by statement.
 */
import type { Database, Statement } from "better-sqlite3";
import { StoreUnavailable, type BatchMeter } from "../store.ts";

/** The transaction as acts see it, which may keep more of the database in memory than SQLite does itself. */
export interface Transaction {
  /** It has begun. Others may have written since the last one. */
  begin(): void;
  /** What acts have held back is to be written: they are through, and are about to be committed. */
  end(): void;
  /** What acts of this transaction wrote was taken back, all of it or in part. */
  forget(): void;
  /** It is committed, and its acts are answered. */
  committed(): void;
}

/** What is run within a transaction, synchronously. It may be run twice: beside the database it changes nothing. */
export interface Act<Unit, T> {
  run(unit: Unit): T;
}

interface Waiting<Unit> {
  readonly act: Act<Unit, unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  triesLeft: number;
  /** True once a batch with it has failed: whose fault it was is not known. */
  isSuspect: boolean;
  /** What it is answered with, or why it failed, once its batch is committed. */
  value: unknown;
  failure: { readonly error: unknown } | undefined;
}

/** Acts in one transaction. More would make the first wait for the last. */
const batchActsMax = 256;
/**
 * After a transaction of several acts the next waits for as many acts, so many turns of the event loop at most: those who
 * were answered come back meanwhile. Begun at once it would have half of them, and the other half one of its own.
 */
const gatherTurns = 3;
/** Acts waiting. Beyond this the database is hopelessly behind, and a quick refusal is worth more than a place. */
const queueActsMax = 4096;
/**
 * How often an act waits for another process (the CLI, a backup) to let go of the database, and how long each time: some
 * six seconds in all, with the busy timeout that blocks at each try.
 */
const busyTriesMax = 400;
export const busyWaitMs = 10;

export class GroupCommit<Unit extends Transaction> {
  #queue: Waiting<Unit>[] = [];
  #scheduled = false;
  /** Acts of the last transaction, and the turns for which the next one still waits for as many. */
  #expected = 0;
  #turnsLeft = 0;
  #closed = false;
  #idle: (() => void)[] = [];
  readonly #db: Database;
  readonly #meter: BatchMeter | undefined;
  readonly #unit: Unit;
  readonly #onCommitted: () => void;
  readonly #sql: Record<"begin" | "commit" | "rollback" | "savepoint" | "release" | "rollbackTo", Statement>;

  constructor(db: Database, unit: Unit, meter?: BatchMeter, onCommitted = () => {}) {
    this.#db = db;
    this.#unit = unit;
    this.#meter = meter;
    this.#onCommitted = onCommitted;
    this.#sql = {
      begin: db.prepare("BEGIN IMMEDIATE"),
      commit: db.prepare("COMMIT"),
      rollback: db.prepare("ROLLBACK"),
      savepoint: db.prepare("SAVEPOINT act"),
      release: db.prepare("RELEASE act"),
      rollbackTo: db.prepare("ROLLBACK TO act"),
    };
  }

  /** Runs an act within the next transaction; resolves with its value once that is durable. */
  perform<T>(act: Act<Unit, T>): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreUnavailable("the store is closed"));
    if (this.#queue.length >= queueActsMax) return Promise.reject(new StoreUnavailable("too many acts are waiting"));
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#queue.push({
      act,
      resolve: resolve as (value: unknown) => void,
      reject,
      triesLeft: busyTriesMax,
      isSuspect: false,
      value: undefined,
      failure: undefined,
    });
    if (!this.#scheduled) this.#schedule();
    return promise;
  }

  /** Takes no more acts, and resolves once none is waiting. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#queue.length > 0 || this.#scheduled) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #schedule(): void {
    this.#scheduled = true;
    this.#turnsLeft = this.#expected > 1 ? gatherTurns : 0;
    setImmediate(this.#turn);
  }

  readonly #turn = (): void => {
    if (this.#turnsLeft === 0 || this.#queue.length >= this.#expected) return this.#flush();
    this.#turnsLeft -= 1;
    setImmediate(this.#turn);
  };

  readonly #flush = (): void => {
    let batch: Waiting<Unit>[] = [];
    const began = this.#meter?.begin() ?? 0;
    try {
      this.#sql.begin.run();
      batch = this.#queue.splice(0, batchActsMax);
    } catch (error) {
      if (isBusy(error) && this.#waitOn(error, began)) return void setTimeout(this.#flush, busyWaitMs);
      const refused = this.#queue.splice(0, batchActsMax);
      if (refused.length > 0) this.#tell(began, refused, fail(refused, error));
    }
    const isDurable = batch.length === 0 ? undefined : this.#commit(batch);
    if (isDurable !== undefined) this.#meter?.end({ began, acts: batch.length, isDurable });
    this.#expected = batch.length;
    this.#scheduled = false;
    if (this.#queue.length > 0) this.#schedule();
    else for (const resolve of this.#idle.splice(0)) resolve();
  };

  #tell(began: number, { length }: readonly Waiting<Unit>[], isDurable: boolean): void {
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
  #commit(batch: Waiting<Unit>[]): boolean | undefined {
    try {
      this.#unit.begin();
      const isSuspect = batch[0]?.isSuspect === true;
      if (!(isSuspect ? this.#runApart(batch) : this.#runTogether(batch))) return undefined;
      this.#sql.commit.run();
    } catch (error) {
      this.#unit.forget();
      if (this.#db.inTransaction) this.#tryRollback();
      return fail(batch, error);
    }
    for (const { failure, reject, resolve, value } of batch) {
      if (failure === undefined) resolve(value);
      else reject(failure.error);
    }
    this.#unit.committed();
    this.#onCommitted();
    return true;
  }

  /**
   * Runs all acts. False when one has failed: nothing of any is left, and they are first in the queue, to be run apart. Throws
   * when the transaction is gone.
   */
  #runTogether(batch: readonly Waiting<Unit>[]): boolean {
    try {
      for (const each of batch) each.value = each.act.run(this.#unit);
      this.#unit.end();
      return true;
    } catch (error) {
      if (!this.#db.inTransaction) throw error;
      this.#unit.forget();
      this.#sql.rollback.run();
      for (const each of batch) each.isSuspect = true;
      this.#queue.unshift(...batch);
      return false;
    }
  }

  /** Runs each act under a savepoint of its own. Throws when the transaction is gone. */
  #runApart(batch: readonly Waiting<Unit>[]): true {
    for (const each of batch) {
      try {
        this.#sql.savepoint.run();
        each.value = each.act.run(this.#unit);
        this.#unit.end();
        this.#sql.release.run();
      } catch (error) {
        if (!this.#stands()) throw error;
        each.failure = { error: asUnavailable(error) };
      }
    }
    return true;
  }

  /** After an error: takes back what was written since the savepoint, and tells whether the transaction still stands. */
  #stands(): boolean {
    this.#unit.forget();
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
function fail(acts: readonly Pick<Waiting<never>, "reject">[], error: unknown): false {
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
