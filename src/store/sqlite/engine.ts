/**
 * SQLite as the store's database: an act is one act of group commit, and plain reads see what is committed.
 */
import type { Database } from "better-sqlite3";
import type { Destination } from "../../otp/verification/destination.ts";
import type { PrefixRecord } from "../../otp/limits/pumping-guard.ts";
import type { PhoneView } from "../../otp/decisions/writes.ts";
import type { Instant, System } from "../../system.ts";
import type { Deleted, Engine, Found, Horizon } from "../engine.ts";
import { viewPhone } from "../apply.ts";
import type { Statement, Steps, Value } from "../statement.ts";
import { toPrefix } from "../rows/prefix.ts";
import { StoreUnavailable, type PhoneRef, type PrefixName, type StoreWatchers } from "../store.ts";
import { asUnavailable, GroupCommit } from "./group-commit.ts";
import { Recalled } from "./recent.ts";
import {
  dueEvents,
  dueFallbacks,
  dueMessages,
  finding,
  listsOrigin,
  messagesJoin,
  messagesOf,
  prepare,
  type Statements,
} from "./statements.ts";
import type { Checkpoints } from "./checkpoints.ts";
import type { LongReads } from "./long-reads.ts";
import { SharedStatements } from "./steps.ts";
import { deleteForgettable } from "./sweep.ts";
import { longestDestination, SqliteUnitOfWork } from "./unit-of-work.ts";

export interface SqliteEngineParts {
  readonly db: Database;
  readonly system: System;
  /** Let go of with the database. */
  readonly lock: Database | undefined;
  readonly watchers?: StoreWatchers;
  readonly longReads: LongReads;
  /** Undefined where SQLite sees to them: in a database in memory there are none. */
  readonly checkpoints: Checkpoints | undefined;
}

export class SqliteEngine implements Engine {
  readonly #db: Database;
  readonly #lock: Database | undefined;
  readonly #sql: Statements;
  readonly #commits: GroupCommit<SqliteUnitOfWork>;
  readonly #unit: SqliteUnitOfWork;
  readonly now: () => Instant;
  /** What an act declares is not needed: a transaction has the whole database to itself. */
  readonly perform: Engine["perform"];
  readonly #recalled: Recalled;
  readonly #shared: SharedStatements;
  readonly dueEvents = dueEvents;
  readonly dueMessages = dueMessages;
  readonly messagesOf = messagesOf;
  readonly dueFallbacks = dueFallbacks;
  readonly finding = finding;
  readonly messagesJoin = messagesJoin;
  readonly jsonArray = "json_array";
  readonly jsonArrayOf = "json_group_array";
  readonly sumOf = (column: string) => `sum(${column})`;

  readonly #longReads: LongReads;
  readonly #checkpoints: Checkpoints | undefined;

  constructor({ db, system, lock, longReads, checkpoints, watchers: { onPrefix, meter } = {} }: SqliteEngineParts) {
    this.#longReads = longReads;
    this.#checkpoints = checkpoints;
    this.#db = db;
    this.#lock = lock;
    this.#sql = prepare(db);
    this.now = system.now.bind(system);
    this.#unit = new SqliteUnitOfWork(this.#sql, this.now, onPrefix);
    this.#recalled = new Recalled(this.#sql);
    const forgetRecalled = () => {
      this.#recalled.forget();
      this.#unit.forgetLists();
    };
    this.#shared = new SharedStatements(db, forgetRecalled, (ids) => this.#unit.erase(ids));
    this.#commits = new GroupCommit(db, this.#unit, meter, () => checkpoints?.committed());
    this.perform = this.#commits.perform.bind(this.#commits);
    system.resumeFrom(this.#sql.clock.get()?.now_ms ?? 0);
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

  /** Those that come together share a commit: none has to wait for another. */
  inTurn<T>(act: () => Promise<T>): Promise<T> {
    return act();
  }

  write<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]> {
    return this.perform({ run: () => this.#shared.run(statement, values) as Row[] });
  }

  async query<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]> {
    return this.#read(() => this.#shared.run(statement, values) as Row[]);
  }

  longRead<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]> {
    return this.#longReads.read(statement, values);
  }

  async recall<T>(
    statement: Statement,
    value: string | undefined,
    make: (rows: readonly never[]) => T | undefined,
  ): Promise<T | undefined> {
    if (!this.#db.open) throw new StoreUnavailable("the store is closed");
    try {
      const key = `${statement.name} ${value ?? ""}`;
      const known = this.#recalled.get(key) as T | undefined;
      if (known !== undefined) return known;
      const made = make(this.#shared.run(statement, value === undefined ? [] : [value]) as never[]);
      if (made !== undefined) this.#recalled.keep(key, made);
      return made;
    } catch (error) {
      throw asUnavailable(error);
    }
  }

  async readPrefix(name: PrefixName): Promise<PrefixRecord | undefined> {
    return this.#read(() => {
      this.#unit.forgetIfOthersWrote();
      const row = this.#sql.prefix.get(name.tenant, name.prefix);
      return this.#unit.journaled(name) ?? (row && toPrefix(row));
    });
  }

  async readPhone(ref: PhoneRef): Promise<PhoneView> {
    return this.#read(() => {
      const unit = new SqliteUnitOfWork(this.#sql, this.now);
      unit.now = this.now();
      return { ...viewPhone(unit, ref) };
    });
  }

  async listsOrigin(origin: string, now: Instant): Promise<boolean> {
    return (await this.query(listsOrigin, [origin, now])).length === 1;
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
    await Promise.all([this.#commits.close(), this.#longReads.close()]);
    await this.#checkpoints?.end();
    this.#db.close();
    this.#checkpoints?.close();
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
}
