/**
 * The store's acts on an open SQLite database. Each is one act of group commit: it loads the view, asks the decision and
 * applies its writes, synchronously and in one transaction. Plain reads see what is committed.
 */
import type { Database } from "better-sqlite3";
import { hasPlace, hasPlaceToGiveBack, newDay, takePlace, type DailyCount, type Place } from "../../otp/daily-cap.ts";
import type { SendView, UpdateView } from "../../otp/decisions.ts";
import type { Verdict } from "../../otp/destination.ts";
import { eventsOf, fraudEvent, spendEvent, type Loaded } from "../../otp/event.ts";
import type { Slot, SlotOf, StoredAnswer } from "../../otp/idempotency.ts";
import { claim, giveUp, isInHand, unclaim, type Message } from "../../otp/message.ts";
import { isTrip, type PrefixChange, type PrefixRecord } from "../../otp/pumping-guard.ts";
import type { SettleView } from "../../otp/settlement.ts";
import { minuteOf, oldestMinute, type Guesses } from "../../otp/spray.ts";
import { stateAt, type Decided, type PhoneView, type Verification, type Writes } from "../../otp/verification.ts";
import type { Instant, System } from "../../system.ts";
import { asUnavailable, GroupCommit } from "./group-commit.ts";
import type { EventStore } from "../events.ts";
import { Recent } from "./recent.ts";
import { answerText, recordValues } from "../rows/record.ts";
import { idBytes } from "../rows/id.ts";
import { toVerification } from "../rows/verification.ts";
import { toMessage, toOutbox } from "../rows/message.ts";
import { toDaily } from "../rows/tenant.ts";
import type { Registry } from "../registry.ts";
import { createSqliteEvents, putEvent } from "./events.ts";
import { createPhones } from "./phones.ts";
import { createPrefixes } from "./prefixes.ts";
import { createRegistry, longestDestination } from "./registry.ts";
import { createSlots } from "./slots.ts";
import { createSweep } from "./sweep.ts";
import { createWork } from "./verifications.ts";
import { prepare } from "./statements.ts";
import {
  outboxCountMax,
  StoreUnavailable,
  type Job,
  type OpenScope,
  type Outbox,
  type PhoneRef,
  type PrefixName,
  type PrefixNews,
  type PrefixView,
  type Store,
  type StoreWatchers,
  type Swept,
  type UpdateScope,
} from "../store.ts";

/** How often the clock's note is renewed. */
const clockNoteMs = 5_000;
/** A tenant's days are kept for so long: a clock that was set back may come by one again. */
const keptDays = 7;
/** Tenants whose day is remembered. */
const recentDaysMax = 256;
const atDailyCap = "the daily cap on messages was reached";

export class SqliteStore implements Store {
  readonly #db: Database;
  readonly #system: System;
  readonly #lock: Database | undefined;
  readonly #sql: ReturnType<typeof prepare>;
  readonly #commits: GroupCommit;
  readonly #work: ReturnType<typeof createWork>;
  readonly #phones: ReturnType<typeof createPhones>;
  readonly #prefixes: ReturnType<typeof createPrefixes>;
  readonly #slots: ReturnType<typeof createSlots>;
  readonly #onPrefix: (news: PrefixNews) => void;
  readonly #days = new Recent<DailyCount>(recentDaysMax);
  /** What SQLite's data_version was when rows were last remembered: another one tells that others have written. */
  #version: number | undefined;
  readonly #sweep: ReturnType<typeof createSweep>;
  readonly registry: Registry;
  readonly events: EventStore;
  #clockNotedMs: Instant = 0;
  constructor(db: Database, system: System, lock: Database | undefined, { onPrefix, meter }: StoreWatchers = {}) {
    this.#db = db;
    this.#system = system;
    this.#lock = lock;
    this.#sql = prepare(db);
    this.#commits = new GroupCommit(db, meter, {
      onBegin: () => this.#forgetIfOthersWrote(),
      onUndo: () => this.#forget(),
    });
    this.#work = createWork(this.#sql);
    this.#phones = createPhones(this.#sql);
    this.#prefixes = createPrefixes(this.#sql);
    this.#slots = createSlots(db, this.#sql);
    this.#onPrefix = onPrefix ?? (() => {});
    this.#sweep = createSweep(this.#sql, this.#work, this.#prefixes);
    const act = <T>(run: (now: Instant) => T) => this.#act(run);
    const read = <T>(run: () => T) => this.#read(run);
    const { registry, changing, forget } = createRegistry(this.#sql, act, read);
    this.registry = registry;
    this.events = createSqliteEvents(this.#sql, { act, changing, read, forget });
    system.resumeFrom(this.#sql.clock.get()?.now_ms ?? 0);
  }

  now(): Instant {
    return this.#system.now();
  }

  openVerification<R>(scope: OpenScope, decide: (view: SendView) => Decided<R>): Promise<R> {
    return this.#act((now) => {
      const record = this.#slots.find(scope.slot);
      const recorded = record === undefined ? undefined : this.#work.verification(record.verificationId);
      const phone = scope.phone === undefined ? undefined : this.#phones.load(scope.phone, now);
      const guesses = phone === undefined ? undefined : this.#sql.guesses.get(scope.tenant, oldestMinute(now));
      const name = scope.phone?.prefix?.name();
      const prefix = name === undefined ? undefined : this.#prefixes.load(name);
      const [verdict, daily] = this.#destinationAndDay(scope, scope.number, now);
      const decided = decide({ now, record, recorded, phone, guesses, prefix, verdict, daily });
      return this.#apply(scope.tenant, scope.phone, { now }, decided);
    });
  }

  updateVerification<R>(scope: UpdateScope, decide: (view: UpdateView) => Decided<R>): Promise<R> {
    return this.#act((now) => {
      const found = this.#work.verification(scope.id);
      const verification = found?.tenant === scope.tenant ? found : undefined;
      const ref = verification === undefined ? undefined : scope.phoneOf(verification);
      const phone = ref === undefined ? undefined : this.#phones.load(ref, now);
      const isCounted = scope.withPrefix === true && verification !== undefined && verification.tally !== "none";
      const name = isCounted ? ref?.prefix?.name() : undefined;
      const prefix = name === undefined ? undefined : this.#prefixes.load(name);
      const number = verification === undefined ? undefined : scope.numberOf?.(verification);
      const [verdict, daily] = this.#destinationAndDay(scope, number, now);
      const record = this.#slots.find(scope.slot);
      const decided = decide({ now, record, verification, phone, prefix, verdict, daily });
      return this.#apply(scope.tenant, ref, { verification, now }, decided);
    });
  }

  async readVerification(tenant: string, id: string): Promise<Verification | undefined> {
    return this.#read(() => {
      const bytes = idBytes(id);
      const row = bytes === undefined ? undefined : this.#sql.verification.get(bytes);
      return row?.tenant === tenant ? toVerification(row) : undefined;
    });
  }

  async readPhone(phone: PhoneRef): Promise<PhoneView> {
    return this.#read(() => {
      const { tats, history, openAttempts } = this.#phones.load(phone, this.#system.now());
      return { tats, history, openAttempts };
    });
  }

  async readGuesses(): Promise<ReadonlyMap<string, Guesses>> {
    return this.#read(() => {
      const found = this.#sql.guessesOfAll.all(oldestMinute(this.#system.now()));
      return new Map(found.map(({ tenant, wrong, right }) => [tenant, { wrong, right }]));
    });
  }

  async listVerifications(indexes: readonly Uint8Array[], max: number): Promise<Verification[]> {
    return this.#read(() =>
      indexes
        .flatMap((index) => this.#sql.verificationsOfPhone.all(index, max).map(toVerification))
        .toSorted((a, b) => b.createMs - a.createMs)
        .slice(0, max),
    );
  }

  resetPhone(phone: PhoneRef): Promise<void> {
    return this.#act(() => this.#phones.reset(phone));
  }

  async readPrefix(name: PrefixName): Promise<PrefixView | undefined> {
    return this.#read(() => this.#prefixes.view(name));
  }

  changePrefix(
    name: PrefixName,
    change: (record: PrefixRecord, now: Instant) => PrefixChange | undefined,
  ): Promise<boolean> {
    return this.#act((now) => {
      const changed = change(this.#prefixes.load(name), now);
      if (changed !== undefined) this.#prefixes.put(name, changed);
      return changed !== undefined;
    });
  }

  async readMessages(id: string): Promise<Message[]> {
    return this.#read(() => this.#sql.messages.all(idBytes(id)).map(toMessage));
  }

  noteAnswer({ names: [slot] }: Slot, verificationId: string, answer: StoredAnswer | null): Promise<void> {
    // Under the name that the call itself has written: nobody else writes here.
    return this.#act(() => {
      const id = idBytes(verificationId);
      if (answer === null) this.#sql.forgetCall.run(slot, id);
      else this.#sql.noteAnswer.run(answerText(answer), slot, id);
    });
  }

  claimMessages(
    max: number,
    phoneOf: (verification: Verification) => PhoneRef,
    decideLate: (view: SettleView) => Decided<unknown>,
    dailyMaxOf: (tenant: string) => number | undefined,
  ): Promise<Job[]> {
    return this.#act((now) => {
      const jobs: Job[] = [];
      for (const row of this.#sql.dueMessages.all(now, max)) {
        const message = toMessage(row);
        const verification = this.#work.verification(message.verificationId);
        if (verification !== undefined && stateAt(verification, now) === "PENDING" && now < message.deadlineMs) {
          const place = this.#placeFor(message, verification.tenant, dailyMaxOf, now);
          const cap = place.share === undefined ? undefined : dailyMaxOf(verification.tenant);
          const warned = place.share === undefined || cap === undefined ? {} : { warned: { share: place.share, cap } };
          this.#putDaily(verification.tenant, { ...place, ...warned }, now);
          if (place.taken) {
            const claimed = { ...claim(message, now), placeDay: place.day };
            this.#work.putMessage(claimed);
            jobs.push({ message: claimed, verification, now, share: place.share });
          } else {
            const unplaced = { ...message, detail: atDailyCap };
            this.#settle({ message: unplaced, verification, now }, phoneOf(verification), decideLate);
          }
        } else if (verification === undefined) this.#work.putMessage(giveUp(message));
        else this.#settle({ message, verification, now }, phoneOf(verification), decideLate);
      }
      return jobs;
    });
  }

  /** The place under the daily cap for a message's next call: the one it has, or a new one. */
  #placeFor(message: Message, tenant: string, dailyMaxOf: (tenant: string) => number | undefined, now: Instant): Place {
    if (hasPlace(message, now)) return { taken: true, day: message.placeDay };
    const max = dailyMaxOf(tenant);
    return takePlace(max === undefined ? undefined : this.#daily(tenant, now), max, now);
  }

  releaseMessages(jobs: readonly Job[]): Promise<void> {
    return this.#act((now) => {
      for (const { message } of jobs) {
        const stored = this.#work.message(message.verificationId, message.copy);
        // Its lease may have ended, and another worker may have sent it.
        if (stored !== undefined && isInHand(message, stored)) this.#work.putMessage(unclaim(stored, now));
      }
    });
  }

  settleMessage<R>(
    name: { readonly verificationId: string; readonly copy: number },
    phoneOf: (verification: Verification) => PhoneRef,
    decide: (view: SettleView) => Decided<R>,
  ): Promise<R | undefined> {
    return this.#act((now) => {
      const message = this.#work.message(name.verificationId, name.copy);
      const verification = this.#work.verification(name.verificationId);
      if (message === undefined || verification === undefined) return undefined;
      return this.#settle({ message, verification, now }, phoneOf(verification), decide);
    });
  }

  #settle<R>(job: Job, ref: PhoneRef, decide: (view: SettleView) => Decided<R>): R {
    const { message, verification, now } = job;
    const daily = hasPlaceToGiveBack(message, now) ? this.#daily(verification.tenant, now) : undefined;
    const decided = decide({ message, verification, now, phone: this.#phones.load(ref, now), daily });
    return this.#apply(verification.tenant, ref, job, decided);
  }

  async nextDue(): Promise<Instant | undefined> {
    return this.#read(() => this.#sql.nextDue.get()?.due ?? undefined);
  }

  async readOutbox(): Promise<Outbox> {
    return this.#read(() => toOutbox(this.#sql.outbox.get(outboxCountMax), this.#system.now()));
  }

  sweep(max: number, retentionMs: number, phoneOf?: (verification: Verification) => PhoneRef): Promise<Swept> {
    return this.#act((now) => this.#sweep(now, max, retentionMs, phoneOf));
  }

  keySlots(from: Uint8Array, max: number, slotOf: SlotOf): Promise<Uint8Array | undefined> {
    return this.#act((now) => this.#slots.key(from, max, slotOf, now));
  }

  ping(): Promise<void> {
    return this.#act((now) => void this.#sql.noteClock.run(now));
  }

  async close(): Promise<void> {
    await this.#commits.close();
    this.#db.close();
    this.#lock?.close();
  }

  /** Runs an act within the next transaction, with the store's clock. */
  #act<T>(act: (now: Instant) => T): Promise<T> {
    let hasNoted = false;
    let news: readonly PrefixNews[] = [];
    const done = this.#commits.run(() => {
      const now = this.#system.now();
      // A note that was taken back with its act is written again when the act is run again.
      if (hasNoted || now - this.#clockNotedMs >= clockNoteMs) {
        this.#sql.noteClock.run(now);
        this.#clockNotedMs = now;
        hasNoted = true;
      }
      // What an act before this one decided and then failed to write is no news.
      this.#prefixes.takeNews();
      const value = act(now);
      news = this.#prefixes.takeNews();
      for (const { tenant, prefix, decision } of news) {
        if (isTrip(decision)) putEvent(this.#sql, fraudEvent(tenant, prefix, decision), now);
      }
      return value;
    });
    done.then(
      // Told once it is durable, and not at all when it is taken back.
      () => news.forEach(this.#onPrefix),
      () => {
        if (hasNoted) this.#clockNotedMs = 0;
      },
    );
    return done;
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
    if (latest !== this.#version) this.#forget();
    this.#version = latest;
  }

  #forget(): void {
    this.#work.forget();
    this.#prefixes.forget();
    this.#days.clear();
  }

  /** The one place where a decision becomes rows; gives its result. `loaded` is what it was made about. */
  #apply<R>(tenant: string, ref: PhoneRef | undefined, loaded: Loaded, { writes, result }: Decided<R>): R {
    const { verification: before, now } = loaded;
    if (writes.verification !== undefined) {
      if (before === undefined) this.#work.insert(writes.verification);
      else if (writes.verification !== before) this.#work.update(writes.verification);
    }
    if (writes.message !== undefined) this.#work.putMessage(writes.message);
    if (ref !== undefined) this.#phones.put(writes, ref);
    if (writes.guess !== undefined) {
      const count = writes.guess.isRight ? this.#sql.countRightCode : this.#sql.countWrongCode;
      count.run(writes.guess.tenant, minuteOf(now));
    }
    // Last, as the order of locks is.
    const name = writes.prefix === undefined ? undefined : ref?.prefix?.name();
    if (writes.prefix !== undefined && name !== undefined) this.#prefixes.put(name, writes.prefix);
    if (before?.state === "PENDING" && writes.verification !== undefined && writes.verification.state !== "PENDING") {
      this.#prefixes.mature(writes.verification, ref?.prefix, now);
    }
    if (writes.record !== undefined) this.#sql.putRecord.run(...recordValues(writes.record));
    if (ref?.hasWebhooks === true) {
      for (const event of eventsOf(writes, loaded)) putEvent(this.#sql, event, now);
    }
    this.#putDaily(tenant, writes, now);
    return result;
  }

  /** What a decision about spending asks for: the word of the lists on a number, and the tenant's day. */
  #destinationAndDay(
    { tenant, isCapped }: OpenScope | UpdateScope,
    number: string | undefined,
    now: Instant,
  ): [Verdict | undefined, DailyCount | undefined] {
    const verdict = number === undefined ? undefined : longestDestination(this.#sql, tenant, number)?.verdict;
    return [verdict, isCapped === true ? this.#daily(tenant, now) : undefined];
  }

  #daily(tenant: string, now: Instant): DailyCount {
    const today = newDay(now);
    const recent = this.#days.get(tenant);
    if (recent?.day === today.day) return recent;
    const row = this.#sql.daily.get(tenant, today.day);
    const daily = row === undefined ? today : toDaily(row);
    this.#days.set(tenant, daily);
    return daily;
  }

  #putDaily(tenant: string, { daily, warned }: Pick<Writes, "daily" | "warned">, now: Instant): void {
    if (daily === undefined) return;
    if (warned !== undefined) putEvent(this.#sql, spendEvent(tenant, daily.day, warned, now), now);
    this.#sql.putDaily.run(tenant, daily.day, daily.count, daily.warned, daily.warnedCap);
    this.#days.set(tenant, daily);
    if (daily.count === 1) this.#sql.deleteDays.run(tenant, daily.day - keptDays);
  }
}
