/**
 * A transaction on SQLite, as acts see it: what they ask for is read when they ask. Their changes are written before
 * the batch commits: a row that many acts change once, and many rows with one statement. Rows of the last moments are
 * kept in memory (recent.ts).
 */
import type { AuditEntry } from "../../otp/operators/audit.ts";
import { newDay, type DailyCount, type CountKind } from "../../otp/verification/daily-cap.ts";
import { prefixDigitsMax, prefixesOf, type Destination, type Verdict } from "../../otp/verification/destination.ts";
import type { OwedEvent } from "../../otp/decisions/event.ts";
import type { IdempotencyRecord, Slot } from "../../otp/verification/idempotency.ts";
import type { Message } from "../../otp/message/message.ts";
import { decisionsMax, newPrefix, type PrefixChange, type PrefixRecord } from "../../otp/limits/pumping-guard.ts";
import { minuteOf, noGuesses, oldestMinute, type Guesses } from "../../otp/verification/spraying.ts";
import type { SumRow } from "../../otp/operators/statistics.ts";
import { lifeMaxMs, type Verification } from "../../otp/verification/verification.ts";
import type { Instant } from "../../system.ts";
import { auditValues } from "../rows/audit.ts";
import { eventValues } from "../rows/event.ts";
import { idBytes, keyOf } from "../rows/values.ts";
import { messageValues, toMessage } from "../rows/message.ts";
import { decisionValues, prefixKey, toPrefix } from "../rows/prefix.ts";
import { recordValues, toRecord } from "../rows/record.ts";
import { sumValues } from "../rows/sums.ts";
import { toDaily, toDestination } from "../rows/tenant.ts";
import { toVerification, verificationChanges, verificationValues } from "../rows/verification.ts";
import type { PrefixName, NamedDecision } from "../store.ts";
import type { UnitOfWork } from "../unit-of-work.ts";
import { moveOut, PhoneStates } from "./phone-states.ts";
import { PrefixJournal } from "./prefix-journal.ts";
import type { Transaction } from "./group-commit.ts";
import { Recent } from "./recent.ts";
import type { Statements } from "./statements.ts";

/** Some 2 KB each, with a message: a second's worth at the fullest. */
const recentVerificationsMax = 2_048;
/** Some 300 bytes each. */
const recentPrefixesMax = 4_096;
const recentTenantsMax = 256;
/** How often the clock's note is renewed. */
const clockNoteMs = 5_000;

const dayKey = (tenant: string, kind: CountKind, day?: DailyCount) => `${day?.day} ${kind} ${tenant}`;

export class SqliteUnitOfWork implements UnitOfWork, Transaction {
  now: Instant = 0;
  readonly phones: PhoneStates;
  readonly #sql: Statements;
  readonly #clock: () => Instant;
  readonly #onPrefix: (decision: NamedDecision) => void;
  #clockNotedMs: Instant = 0;
  /** What SQLite's data_version was when rows were last remembered: another one tells that others have written. */
  #version: number | undefined;
  /** Those that are pending. What has ended is hardly asked for again, and its salt is to be gone. */
  readonly #verifications = new Recent<Verification>(recentVerificationsMax);
  readonly #messages = new Recent<Message>(recentVerificationsMax);
  readonly #prefixes = new Recent<PrefixRecord>(recentPrefixesMax);
  readonly #journal: PrefixJournal;
  readonly #days = new Recent<DailyCount>(recentTenantsMax);
  /** Of the window that began with a minute. */
  readonly #guesses = new Recent<{ readonly oldest: number; readonly guesses: Guesses }>(recentTenantsMax);
  readonly #hasLists = new Recent<boolean>(recentTenantsMax);
  /** What is to be written of this batch. */
  readonly #changedDays = new Map<string, DailyCount & { readonly tenant: string; readonly kind: CountKind }>();
  readonly #changedMessages = new Map<string, { readonly message: Message; readonly openedMs: Instant }>();
  readonly #changedVerifications = new Map<string, { readonly verification: Verification; readonly isNew: boolean }>();
  /** Whose those are. */
  readonly #changedPhones = new Set<string>();
  readonly #compared = new Map<string, Guesses & { readonly tenant: string; readonly minute: number }>();
  /** The decisions about prefixes of the acts that are not through, and of those that are. */
  #decided: NamedDecision[] = [];
  #toPassOn: NamedDecision[] = [];

  constructor(sql: Statements, clock: () => Instant, onPrefix: (decision: NamedDecision) => void = () => {}) {
    this.#sql = sql;
    this.#clock = clock;
    this.#onPrefix = onPrefix;
    this.phones = new PhoneStates(sql);
    this.#journal = new PrefixJournal(sql);
  }

  begin(): void {
    this.forgetIfOthersWrote();
    this.#toPassOn = [];
    this.now = this.#clock();
    if (this.now - this.#clockNotedMs < clockNoteMs) return;
    this.#sql.noteClock.run(this.now);
    this.#clockNotedMs = this.now;
  }

  end(): void {
    this.write();
    for (const decided of this.#decided) this.#toPassOn.push(decided);
    this.#decided = [];
  }

  /** Passes on what is durable. What was taken back never is. */
  committed(): void {
    for (const decided of this.#toPassOn) this.#onPrefix(decided);
  }

  forgetIfOthersWrote(): void {
    const latest = this.#sql.dataVersion.get()?.data_version;
    if (latest !== this.#version) this.forget();
    this.#version = latest;
  }

  /** Forgets what is remembered: others have written, or something was taken back. */
  forget(): void {
    // The note of the clock may have been taken back too.
    this.#clockNotedMs = 0;
    this.#decided = [];
    this.#verifications.clear();
    this.#messages.clear();
    this.#prefixes.clear();
    this.phones.forget();
    this.#journal.forget();
    this.#days.clear();
    this.#guesses.clear();
    this.#hasLists.clear();
    this.#changedDays.clear();
    this.#compared.clear();
    this.#changedMessages.clear();
    this.#changedVerifications.clear();
    this.#changedPhones.clear();
  }

  /** Forgets which tenants have lists: one was changed. */
  forgetLists(): void {
    this.#hasLists.clear();
  }

  /** Writes what was held back since it was last called. */
  write(): void {
    this.#writeVerifications();
    this.#journal.write(this.now);
    const messages: unknown[][] = [];
    for (const { message, openedMs } of this.#changedMessages.values()) {
      messages.push([...messageValues(message), openedMs]);
    }
    this.#sql.putMessages(messages);
    this.#changedMessages.clear();
    for (const { tenant, kind, day, count, warned, warnedCap } of this.#changedDays.values()) {
      this.#sql.putCounter.run(tenant, day, kind, count, warned, warnedCap);
    }
    this.#changedDays.clear();
    for (const { tenant, minute, wrong, right } of this.#compared.values()) {
      this.#sql.addGuesses.run(tenant, minute, wrong, right);
      const known = this.#guesses.get(tenant);
      if (known === undefined) continue;
      const guesses = { wrong: known.guesses.wrong + wrong, right: known.guesses.right + right };
      this.#guesses.set(tenant, { ...known, guesses });
    }
    this.#compared.clear();
  }

  #writeVerifications(): void {
    const homes = this.phones.write();
    const inserted: unknown[][] = [];
    for (const [id, { verification, isNew }] of this.#changedVerifications) {
      const ofPhone = homes.get(id);
      if (isNew) inserted.push([...verificationValues(verification), ofPhone ?? null]);
      else if (ofPhone === undefined) this.#sql.updateVerification.run(...verificationChanges(verification));
      else this.#sql.updateVerificationAndPhone.run(ofPhone, ...verificationChanges(verification));
      homes.delete(id);
    }
    this.#sql.insertVerifications(inserted);
    for (const [id, ofPhone] of homes) this.#sql.updatePhone.run(ofPhone, idBytes(id));
    this.#changedVerifications.clear();
    this.#changedPhones.clear();
  }

  verification(id: string): Verification | undefined {
    const recent = this.#changedVerifications.get(id)?.verification ?? this.#verifications.get(id);
    if (recent !== undefined) return recent;
    const bytes = idBytes(id);
    const row = bytes === undefined ? undefined : this.#sql.verification.get(bytes);
    if (row === undefined) return undefined;
    const verification = toVerification(row);
    if (verification.state === "PENDING") this.#verifications.set(id, verification);
    return verification;
  }

  insertVerification(verification: Verification): void {
    this.#change({ verification, isNew: true });
    this.phones.moveTo(verification);
  }

  updateVerification(verification: Verification): void {
    this.#change({ verification, isNew: this.#changedVerifications.get(verification.id)?.isNew === true });
  }

  #change(change: { readonly verification: Verification; readonly isNew: boolean }): void {
    const { verification } = change;
    this.#changedVerifications.set(verification.id, change);
    this.#changedPhones.add(keyOf(verification.phoneIndex));
    if (verification.state === "PENDING") this.#verifications.set(verification.id, verification);
    else this.#verifications.delete(verification.id);
  }

  message(verificationId: string, copy: number): Message | undefined {
    const key = `${verificationId}/${copy}`;
    const recent = this.#changedMessages.get(key)?.message ?? this.#messages.get(key);
    if (recent !== undefined) return recent;
    const bytes = idBytes(verificationId);
    const row = bytes === undefined ? undefined : this.#sql.message.get(bytes, bytes, copy);
    return row === undefined ? undefined : toMessage(row);
  }

  putMessage(message: Message): void {
    const key = `${message.verificationId}/${message.copy}`;
    const openedMs = this.verification(message.verificationId)?.createMs;
    // It went with its verification.
    if (openedMs === undefined) return;
    this.#changedMessages.set(key, { message, openedMs });
    // What is due to nobody is settled but for its provider's report.
    if (message.dueMs === null) this.#messages.delete(key);
    else this.#messages.set(key, message);
  }

  records({ names }: Slot): readonly IdempotencyRecord[] {
    return this.#sql
      .recordsNamed(names.length)
      .all(...names)
      .map(toRecord);
  }

  putRecord(record: IdempotencyRecord): void {
    this.#sql.putRecord.run(...recordValues(record));
  }

  deleteRecord(name: Uint8Array): void {
    this.#sql.deleteRecord.run(name);
  }

  openAttempts(index: Uint8Array): number {
    if (this.#changedPhones.has(keyOf(index))) this.#writeVerifications();
    return this.#sql.openAttempts.get(index, this.now - lifeMaxMs, this.now)?.open ?? 0;
  }

  guesses(tenant: string): Guesses {
    const oldest = oldestMinute(this.now);
    const recent = this.#guesses.get(tenant);
    if (recent?.oldest === oldest) return recent.guesses;
    const guesses = this.#sql.guesses.get(tenant, oldest) ?? noGuesses;
    this.#guesses.set(tenant, { oldest, guesses });
    return guesses;
  }

  countGuess({ tenant, isRight }: { readonly tenant: string; readonly isRight: boolean }): void {
    const minute = minuteOf(this.now);
    const key = `${minute} ${tenant}`;
    const { wrong, right } = this.#compared.get(key) ?? noGuesses;
    this.#compared.set(key, { tenant, minute, wrong: wrong + (isRight ? 0 : 1), right: right + (isRight ? 1 : 0) });
  }

  verdict(tenant: string, number: string): Verdict | undefined {
    let hasLists = this.#hasLists.get(tenant);
    if (hasLists === undefined) {
      hasLists = this.#sql.anyDestination.get(tenant) !== undefined;
      this.#hasLists.set(tenant, hasLists);
    }
    // Most tenants have none.
    return hasLists ? longestDestination(this.#sql, tenant, number)?.verdict : undefined;
  }

  day(tenant: string, kind: CountKind): DailyCount {
    const today = newDay(this.now);
    const recent = this.#changedDays.get(dayKey(tenant, kind, today)) ?? this.#days.get(dayKey(tenant, kind));
    if (recent?.day === today.day) return recent;
    const row = this.#sql.counter.get(tenant, today.day, kind);
    const daily = row === undefined ? today : toDaily(row);
    this.#days.set(dayKey(tenant, kind), daily);
    return daily;
  }

  putDay(tenant: string, kind: CountKind, daily: DailyCount): void {
    this.#changedDays.set(dayKey(tenant, kind, daily), { tenant, kind, ...daily });
    this.#days.set(dayKey(tenant, kind), daily);
  }

  prefix(name: PrefixName): PrefixRecord {
    const key = prefixKey(name);
    const recent = this.#journal.get(key) ?? this.#prefixes.get(key);
    if (recent !== undefined) return recent;
    const row = this.#sql.prefix.get(name.tenant, name.prefix);
    const record = row === undefined ? newPrefix : toPrefix(row);
    this.#prefixes.set(key, record);
    return record;
  }

  /** A prefix as the journal has it; undefined where its row says all. */
  journaled(name: PrefixName): PrefixRecord | undefined {
    return this.#journal.get(prefixKey(name));
  }

  putPrefix(name: PrefixName, { record, decisions }: PrefixChange): void {
    const key = prefixKey(name);
    this.#journal.put(key, { name, record });
    this.#prefixes.set(key, record);
    for (const decision of decisions) {
      const { tenant, prefix } = name;
      this.#sql.insertPrefixDecision.run(...decisionValues(name, decision));
      this.#sql.trimPrefixDecisions.run(tenant, prefix, tenant, prefix, decisionsMax);
      this.#decided.push({ ...name, decision });
    }
  }

  /** Forgets what a sweep may have deleted, and these prefixes. */
  forgetDeleted(prefixes: readonly PrefixName[]): void {
    this.phones.forget();
    for (const name of prefixes) this.#prefixes.delete(prefixKey(name));
  }

  /** Deletes verifications with their messages. What is kept of their phones moves out of their rows before. */
  erase(ids: readonly string[]): void {
    this.write();
    for (const id of ids) {
      const bytes = idBytes(id);
      const row = bytes === undefined ? undefined : this.#sql.home.get(bytes);
      if (row === undefined) continue;
      moveOut(this.#sql, [row], this.now);
      this.#sql.deleteMessages.run(row.create_ms, bytes);
      this.#sql.deleteVerification.run(bytes);
    }
    this.forget();
  }

  sumLate(endMs: Instant, change: readonly SumRow[]): void {
    for (const row of change) this.#sql.addLateSums.run(...sumValues(row), endMs);
  }

  owe(event: OwedEvent): void {
    const [id, tenant, type, ...rest] = eventValues(event);
    this.#sql.insertEvent.run(id, tenant, type, ...rest, this.now, tenant, type);
  }

  note(entry: AuditEntry): void {
    this.#sql.addAudit.run(...auditValues(entry));
  }
}

/** The longest entry of a tenant's lists that a number begins with. */
export function longestDestination(sql: Statements, tenant: string, number: string): Destination | undefined {
  const prefixes = prefixesOf(number);
  // No entry is empty: the places that a short number leaves match nothing.
  const rest = Array<string>(prefixDigitsMax - prefixes.length).fill("");
  const row = sql.longestDestination.get(tenant, ...prefixes, ...rest);
  return row === undefined ? undefined : toDestination(row);
}
