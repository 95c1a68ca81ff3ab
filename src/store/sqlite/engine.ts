/**
 * SQLite as the store's database: an act is one act of group commit, and plain reads see what is committed.
 */
import type { Database } from "better-sqlite3";
import type { Destination } from "../../otp/destination.ts";
import type { PrefixRecord } from "../../otp/pumping-guard.ts";
import type { PhoneView } from "../../otp/writes.ts";
import type { Instant, System } from "../../system.ts";
import type { Deleted, Engine, Found, Horizon } from "../engine.ts";
import { viewPhone } from "../phone-rows.ts";
import type { Statement, Steps, Value } from "../statement.ts";
import { toPrefix } from "../rows/prefix.ts";
import { StoreUnavailable, type PhoneRef, type NamedDecision, type PrefixName, type StoreWatchers } from "../store.ts";
import type { Act } from "../unit-of-work.ts";
import { asUnavailable, GroupCommit } from "./group-commit.ts";
import {
  dueEvents,
  dueFallbacks,
  dueMessages,
  finding,
  messagesJoin,
  messagesOf,
  prepare,
  type Statements,
} from "./statements.ts";
import type { Reports } from "./reports.ts";
import { Recalled, SharedStatements } from "./steps.ts";
import { deleteForgettable } from "./sweep.ts";
import { longestDestination, SqliteUnitOfWork } from "./unit-of-work.ts";

/** How often the clock's note is renewed. */
const clockNoteMs = 5_000;

export interface SqliteEngineParts {
  readonly db: Database;
  readonly system: System;
  /** Let go of with the database. */
  readonly lock: Database | undefined;
  readonly watchers?: StoreWatchers;
  readonly reports: Reports;
}

export class SqliteEngine implements Engine {
  readonly #db: Database;
  readonly #system: System;
  readonly #lock: Database | undefined;
  readonly #sql: Statements;
  readonly #commits: GroupCommit;
  readonly #unit: SqliteUnitOfWork;
  readonly #onPrefix: (decision: NamedDecision) => void;
  /** What SQLite's data_version was when rows were last remembered: another one tells that others have written. */
  #version: number | undefined;
  #clockNotedMs: Instant = 0;
  readonly #recalled: Recalled;
  readonly #shared: SharedStatements;
  readonly dueEvents = dueEvents;
  readonly dueMessages = dueMessages;
  readonly messagesOf = messagesOf;
  readonly dueFallbacks = dueFallbacks;
  readonly finding = finding;
  readonly messagesJoin = messagesJoin;

  readonly #reports: Reports;

  constructor({ db, system, lock, reports, watchers: { onPrefix, meter } = {} }: SqliteEngineParts) {
    this.#reports = reports;
    this.#db = db;
    this.#system = system;
    this.#lock = lock;
    this.#sql = prepare(db);
    this.#unit = new SqliteUnitOfWork(this.#sql);
    this.#recalled = new Recalled(this.#sql);
    const forgetRecalled = () => {
      this.#recalled.forget();
      this.#unit.forgetLists();
    };
    this.#shared = new SharedStatements(db, forgetRecalled, (ids) => this.#unit.erase(ids));
    this.#commits = new GroupCommit(db, meter, {
      onBegin: () => this.#forgetIfOthersWrote(),
      onEnd: () => this.#unit.write(),
      onUndo: () => this.#unit.forget(),
    });
    this.#onPrefix = onPrefix ?? (() => {});
    system.resumeFrom(this.#sql.clock.get()?.now_ms ?? 0);
  }

  now(): Instant {
    return this.#system.now();
  }

  /** What the act declares is not needed: a transaction has the whole database to itself. */
  perform<T>(act: Pick<Act<T>, "run">): Promise<T> {
    let hasNoted = false;
    let decided: readonly NamedDecision[] = [];
    const done = this.#commits.run(() => {
      const now = this.#system.now();
      // A note that was taken back with its act is written again when the act is run again.
      if (hasNoted || now - this.#clockNotedMs >= clockNoteMs) {
        this.#sql.noteClock.run(now);
        this.#clockNotedMs = now;
        hasNoted = true;
      }
      this.#unit.begin(now);
      const value = act.run(this.#unit);
      decided = this.#unit.takeDecisions();
      return value;
    });
    done.then(
      // Passed on once they are durable, and not at all when they are taken back.
      () => decided.forEach(this.#onPrefix),
      () => {
        if (hasNoted) this.#clockNotedMs = 0;
      },
    );
    return done;
  }

  transact<T>(steps: () => Steps<T>): Promise<T> {
    return this.perform({
      run: (unit) => {
        // Its statements see what the acts before it have changed.
        this.#unit.write();
        return this.#shared.runSteps(steps(), unit);
      },
    });
  }

  write<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]> {
    return this.perform({ run: () => this.#shared.run(statement, values) as Row[] });
  }

  async query<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]> {
    return this.#read(() => this.#shared.run(statement, values) as Row[]);
  }

  report<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]> {
    return this.#reports.read(statement, values);
  }

  async recall<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]> {
    const key = `${statement.name} ${values.join(" ")}`;
    return this.#read(() => this.#recalled.rows(key, () => this.#shared.run(statement, values)) as Row[]);
  }

  async readPrefix(name: PrefixName): Promise<PrefixRecord | undefined> {
    return this.#read(() => {
      this.#forgetIfOthersWrote();
      const row = this.#sql.prefix.get(name.tenant, name.prefix);
      return this.#unit.journaled(name) ?? (row && toPrefix(row));
    });
  }

  async readPhone(ref: PhoneRef): Promise<PhoneView> {
    return this.#read(() => {
      const unit = new SqliteUnitOfWork(this.#sql);
      unit.begin(this.#system.now());
      return { ...viewPhone(unit, ref) };
    });
  }

  async findDestination(tenant: string, e164: string): Promise<Destination | undefined> {
    return this.#read(() => longestDestination(this.#sql, tenant, e164));
  }

  /** There are no other instances. */
  async announceMessages(): Promise<void> {}

  deleteForgettable(horizon: Horizon, judge: (found: Found) => Found): Promise<Deleted> {
    return this.perform({
      run: () => {
        this.#unit.write();
        const deleted = deleteForgettable(this.#sql, horizon, judge);
        this.#unit.forgetDeleted(deleted.prefixes);
        return deleted;
      },
    });
  }

  ping(): Promise<void> {
    return this.perform({ run: ({ now }) => void this.#sql.noteClock.run(now) });
  }

  async close(): Promise<void> {
    await Promise.all([this.#commits.close(), this.#reports.close()]);
    this.#db.close();
    this.#lock?.close();
  }

  #read<T>(read: () => T): T {
    if (!this.#db.open) throw new StoreUnavailable("the store is closed");
    try {
      return read();
    } catch (error) {
      throw asUnavailable(error);
    }
  }

  #forgetIfOthersWrote(): void {
    const latest = this.#sql.dataVersion.get()?.data_version;
    if (latest !== this.#version) this.#unit.forget();
    this.#version = latest;
  }
}
