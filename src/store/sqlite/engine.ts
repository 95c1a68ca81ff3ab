/**
 * SQLite as the store's database: an act is one act of group commit, and plain reads see what is committed.
 */
import type { Database } from "better-sqlite3";
import type { Message } from "../../otp/message.ts";
import { decisionsMax, newPrefix } from "../../otp/pumping-guard.ts";
import { oldestMinute, type Guesses } from "../../otp/spray.ts";
import type { PhoneView, Verification } from "../../otp/verification.ts";
import type { Instant, System } from "../../system.ts";
import type { Deleted, Engine, MessageName } from "../engine.ts";
import type { EventStore } from "../events.ts";
import type { Registry } from "../registry.ts";
import { idBytes, idText } from "../rows/id.ts";
import { toMessage, toOutbox } from "../rows/message.ts";
import { toDecision, toPrefix } from "../rows/prefix.ts";
import { toVerification } from "../rows/verification.ts";
import {
  outboxCountMax,
  StoreUnavailable,
  type Outbox,
  type PhoneRef,
  type PrefixName,
  type PrefixNews,
  type PrefixView,
  type StoreWatchers,
} from "../store.ts";
import type { Found, Horizon } from "../sweep.ts";
import type { Act } from "../unit-of-work.ts";
import { createSqliteEvents } from "./events.ts";
import { asUnavailable, GroupCommit } from "./group-commit.ts";
import { phoneView } from "./phone-view.ts";
import { createRegistry } from "./registry.ts";
import { prepare, type Statements } from "./statements.ts";
import { deleteForgettable } from "./sweep.ts";
import { SqliteUnitOfWork } from "./unit-of-work.ts";

/** How often the clock's note is renewed. */
const clockNoteMs = 5_000;

export interface SqliteEngineParts {
  readonly db: Database;
  readonly system: System;
  /** Let go of with the database. */
  readonly lock: Database | undefined;
  readonly watchers?: StoreWatchers;
}

export class SqliteEngine implements Engine {
  readonly #db: Database;
  readonly #system: System;
  readonly #lock: Database | undefined;
  readonly #sql: Statements;
  readonly #commits: GroupCommit;
  readonly #unit: SqliteUnitOfWork;
  readonly #onPrefix: (news: PrefixNews) => void;
  /** What SQLite's data_version was when rows were last remembered: another one tells that others have written. */
  #version: number | undefined;
  #clockNotedMs: Instant = 0;
  readonly registry: Registry;
  readonly events: EventStore;

  constructor({ db, system, lock, watchers: { onPrefix, meter } = {} }: SqliteEngineParts) {
    this.#db = db;
    this.#system = system;
    this.#lock = lock;
    this.#sql = prepare(db);
    this.#unit = new SqliteUnitOfWork(this.#sql);
    this.#commits = new GroupCommit(db, meter, {
      onBegin: () => this.#forgetIfOthersWrote(),
      onUndo: () => this.#unit.forget(),
    });
    this.#onPrefix = onPrefix ?? (() => {});
    const act = <T>(run: (now: Instant) => T) => this.perform({ run: ({ now }) => run(now) });
    const read = <T>(run: () => T) => this.#read(run);
    const { registry, changing, forget } = createRegistry(this.#sql, act, read);
    this.registry = registry;
    this.events = createSqliteEvents(this.#sql, { act, changing, read, forget });
    system.resumeFrom(this.#sql.clock.get()?.now_ms ?? 0);
  }

  now(): Instant {
    return this.#system.now();
  }

  /** What the act declares is not needed: a transaction has the whole database to itself. */
  perform<T>(act: Pick<Act<T>, "run">): Promise<T> {
    let hasNoted = false;
    let decided: readonly PrefixNews[] = [];
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
      // Told once it is durable, and not at all when it is taken back.
      () => decided.forEach(this.#onPrefix),
      () => {
        if (hasNoted) this.#clockNotedMs = 0;
      },
    );
    return done;
  }

  async readVerification(id: string): Promise<Verification | undefined> {
    return this.#read(() => {
      const bytes = idBytes(id);
      const row = bytes === undefined ? undefined : this.#sql.verification.get(bytes);
      return row === undefined ? undefined : toVerification(row);
    });
  }

  async readVerifications(phoneIndexes: readonly Uint8Array[], max: number): Promise<Verification[]> {
    return this.#read(() =>
      phoneIndexes
        .flatMap((index) => this.#sql.verificationsOfPhone.all(index, max).map(toVerification))
        .toSorted((a, b) => b.createMs - a.createMs)
        .slice(0, max),
    );
  }

  async readPhone(ref: PhoneRef): Promise<PhoneView> {
    return this.#read(() => ({ ...phoneView(this.#sql, ref, this.#system.now()) }));
  }

  async readPrefix({ tenant, prefix }: PrefixName): Promise<PrefixView | undefined> {
    return this.#read(() => {
      const row = this.#sql.prefix.get(tenant, prefix);
      const decisions = this.#sql.prefixDecisions.all(tenant, prefix, decisionsMax).map(toDecision);
      if (row === undefined && decisions.length === 0) return undefined;
      return { record: row === undefined ? newPrefix : toPrefix(row), decisions };
    });
  }

  async readMessages(verificationId: string): Promise<Message[]> {
    return this.#read(() => this.#sql.messages.all(idBytes(verificationId)).map(toMessage));
  }

  async readGuesses(): Promise<ReadonlyMap<string, Guesses>> {
    return this.#read(() => {
      const found = this.#sql.guessesOfAll.all(oldestMinute(this.#system.now()));
      return new Map(found.map(({ tenant, wrong, right }) => [tenant, { wrong, right }]));
    });
  }

  async readOutbox(): Promise<Outbox> {
    return this.#read(() => toOutbox(this.#sql.outbox.get(outboxCountMax), this.#system.now()));
  }

  async nextDue(): Promise<Instant | undefined> {
    return this.#read(() => this.#sql.nextDue.get()?.due ?? undefined);
  }

  async dueMessages(max: number): Promise<MessageName[]> {
    return this.#read(() =>
      this.#sql.dueMessages
        .all(this.#system.now(), max)
        .map((row) => ({ verificationId: idText(row.verification_id), copy: row.copy })),
    );
  }

  async lapsedVerifications(max: number): Promise<string[]> {
    return this.#read(() => this.#sql.lapsed.all(this.#system.now(), max).map(({ id }) => idText(id)));
  }

  async readRecordNames(from: Uint8Array, max: number): Promise<Uint8Array[]> {
    return this.#read(() => this.#sql.recordsFrom.all(from, max).map(({ slot }) => slot));
  }

  async hasEndpoints(): Promise<boolean> {
    return this.#read(() => this.#sql.anyEndpoint.get() !== undefined);
  }

  /** There are no other instances. */
  async announceMessages(): Promise<void> {}

  deleteForgettable(horizon: Horizon, judge: (found: Found) => Found): Promise<Deleted> {
    return this.perform({
      run: () => {
        const deleted = deleteForgettable(this.#sql, horizon, judge);
        for (const { tenant, prefix } of deleted.prefixes) this.#unit.forgetPrefix({ tenant, prefix });
        return deleted;
      },
    });
  }

  ping(): Promise<void> {
    return this.perform({ run: ({ now }) => void this.#sql.noteClock.run(now) });
  }

  async close(): Promise<void> {
    await this.#commits.close();
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
