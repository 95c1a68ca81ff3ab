/**
 * A transaction on PostgreSQL, as acts see it: what a batch of them has loaded and locked, and what they change of it. The
 * acts run one after the other, and each sees what those before it have changed; then all changes are written at once
 * (batches.ts).
 */
import type { AuditEntry } from "../../otp/operators/audit.ts";
import { newDay, type DailyCount, type CountKind } from "../../otp/verification/daily-cap.ts";
import type { Verdict } from "../../otp/verification/destination.ts";
import type { OwedEvent } from "../../otp/decisions/event.ts";
import type { IdempotencyRecord, Slot } from "../../otp/verification/idempotency.ts";
import type { Message } from "../../otp/message/message.ts";
import type { PhoneHistory } from "../../otp/verification/policy.ts";
import { newPrefix, type PrefixChange, type PrefixRecord } from "../../otp/limits/pumping-guard.ts";
import { minuteOf, noGuesses, type Guesses } from "../../otp/verification/spraying.ts";
import type { SumRow } from "../../otp/operators/statistics.ts";
import { stateAt, type Verification } from "../../otp/verification/verification.ts";
import type { Instant } from "../../system.ts";
import type { PrefixName, NamedDecision } from "../store.ts";
import { bucketKey } from "../rows/phone.ts";
import { prefixKey } from "../rows/prefix.ts";
import { keyOf } from "../rows/values.ts";
import type { KeptTat, ListedNumber, PhoneRows, UnitOfWork } from "../unit-of-work.ts";
import { ChangeSet } from "./change-set.ts";
import type { BatchDays, CountName } from "./lots.ts";

export const numberKey = ({ tenant, number }: ListedNumber) => `${tenant} ${number}`;
const messageKey = (verificationId: string, copy: number) => `${verificationId}.${copy}`;

interface Bucket extends KeptTat {
  readonly bucket: Uint8Array;
}

interface StoredHistory {
  readonly index: Uint8Array;
  readonly history: PhoneHistory;
  readonly kid: number;
}

interface NamedPrefix {
  readonly name: PrefixName;
  readonly record: PrefixRecord;
}

/** Codes compared in one minute of one tenant, to be added to those there are. */
interface Count extends Guesses {
  readonly tenant: string;
  readonly minute: number;
}

export class PostgresUnitOfWork implements UnitOfWork, PhoneRows {
  now: Instant = 0;
  readonly phones: PhoneRows = this;
  /** How many changes acts have made. Those of an act that fails cannot be taken back by themselves. */
  changesMade = 0;
  readonly verifications = new ChangeSet<Verification>();
  /** The ids of those that are to be inserted. */
  readonly newVerifications = new Set<string>();
  readonly messages = new ChangeSet<Message>();
  readonly storedRecords = new ChangeSet<IdempotencyRecord>();
  readonly buckets = new ChangeSet<Bucket>();
  readonly histories = new ChangeSet<StoredHistory>();
  readonly prefixes = new ChangeSet<NamedPrefix>();
  /** Counts of tenants under a cap, by kind and tenant, and how they are counted. */
  readonly #days = new Map<string, DailyCount>();
  counting: BatchDays | undefined;
  readonly events: OwedEvent[] = [];
  readonly notes: AuditEntry[] = [];
  /** Decisions about prefixes that are to be written, and then passed on. */
  readonly decided: NamedDecision[] = [];
  readonly counts = new Map<string, Count>();
  readonly lateSums: { readonly endMs: Instant; readonly row: SumRow }[] = [];
  readonly #verdicts = new Map<string, Verdict>();
  readonly #guesses = new Map<string, Guesses>();
  readonly #openAttempts = new Map<string, number>();

  // ---- what was loaded ----

  loadVerification(verification: Verification): void {
    this.verifications.load(verification.id, verification);
  }
  loadMessage(message: Message): void {
    this.messages.load(messageKey(message.verificationId, message.copy), message);
  }
  loadRecord(record: IdempotencyRecord): void {
    this.storedRecords.load(keyOf(record.slot), record);
  }
  loadBucket(bucket: Uint8Array, tatMs: Instant): void {
    this.buckets.load(keyOf(bucket), { bucket, tatMs, kid: 0 });
  }
  loadHistory(index: Uint8Array, history: PhoneHistory): void {
    this.histories.load(keyOf(index), { index, history, kid: 0 });
  }
  loadOpenAttempts(index: Uint8Array, open: number): void {
    this.#openAttempts.set(keyOf(index), open);
  }
  loadGuesses(tenant: string, guesses: Guesses): void {
    this.#guesses.set(tenant, guesses);
  }
  loadVerdict(of: ListedNumber, verdict: Verdict): void {
    this.#verdicts.set(numberKey(of), verdict);
  }
  loadDay({ tenant, kind }: CountName, daily: DailyCount): void {
    this.#days.set(`${kind} ${tenant}`, daily);
  }
  loadPrefix(name: PrefixName, record: PrefixRecord): void {
    this.prefixes.load(prefixKey(name), { name, record });
  }

  // ---- what acts see and change ----

  verification(id: string): Verification | undefined {
    return this.verifications.get(id);
  }
  insertVerification(verification: Verification): void {
    this.newVerifications.add(verification.id);
    this.#putVerification(verification, 0);
  }
  updateVerification(verification: Verification): void {
    const before = this.verifications.get(verification.id);
    this.#putVerification(verification, before === undefined ? 0 : this.#openAttemptsOf(before));
  }
  #putVerification(verification: Verification, openBefore: number): void {
    this.changesMade += 1;
    this.verifications.put(verification.id, verification);
    const name = keyOf(verification.phoneIndex);
    const change = this.#openAttemptsOf(verification) - openBefore;
    this.#openAttempts.set(name, (this.#openAttempts.get(name) ?? 0) + change);
  }
  #openAttemptsOf(v: Verification): number {
    return stateAt(v, this.now) === "PENDING" ? v.attemptsMax - v.attempts : 0;
  }

  message(verificationId: string, copy: number): Message | undefined {
    return this.messages.get(messageKey(verificationId, copy));
  }
  putMessage(message: Message): void {
    this.changesMade += 1;
    this.messages.put(messageKey(message.verificationId, message.copy), message);
  }

  records({ names }: Slot): readonly IdempotencyRecord[] {
    return names.flatMap((name) => this.storedRecords.get(keyOf(name)) ?? []);
  }
  putRecord(record: IdempotencyRecord): void {
    this.changesMade += 1;
    this.storedRecords.put(keyOf(record.slot), record);
  }
  deleteRecord(name: Uint8Array): void {
    this.changesMade += 1;
    this.storedRecords.remove(keyOf(name));
  }

  tat(index: Uint8Array, bucket: number): Instant | undefined {
    return this.buckets.get(keyOf(bucketKey(index, bucket)))?.tatMs;
  }
  putTat(index: Uint8Array, bucket: number, tat: KeptTat): void {
    this.changesMade += 1;
    const key = bucketKey(index, bucket);
    this.buckets.put(keyOf(key), { bucket: key, ...tat });
  }
  deleteTat(index: Uint8Array, bucket: number): void {
    this.changesMade += 1;
    this.buckets.remove(keyOf(bucketKey(index, bucket)));
  }
  history(index: Uint8Array): PhoneHistory | undefined {
    return this.histories.get(keyOf(index))?.history;
  }
  putHistory(index: Uint8Array, history: PhoneHistory, kid: number): void {
    this.changesMade += 1;
    this.histories.put(keyOf(index), { index, history, kid });
  }
  deleteHistory(index: Uint8Array): void {
    this.changesMade += 1;
    this.histories.remove(keyOf(index));
  }
  openAttempts(index: Uint8Array): number {
    return this.#openAttempts.get(keyOf(index)) ?? 0;
  }

  guesses(tenant: string): Guesses {
    return this.#guesses.get(tenant) ?? noGuesses;
  }
  countGuess({ tenant, isRight }: { readonly tenant: string; readonly isRight: boolean }): void {
    this.changesMade += 1;
    const minute = minuteOf(this.now);
    const key = `${minute} ${tenant}`;
    const { wrong, right } = this.counts.get(key) ?? { wrong: 0, right: 0 };
    this.counts.set(key, { tenant, minute, wrong: wrong + (isRight ? 0 : 1), right: right + (isRight ? 1 : 0) });
  }

  verdict(tenant: string, number: string): Verdict | undefined {
    return this.#verdicts.get(numberKey({ tenant, number }));
  }

  day(tenant: string, kind: CountKind): DailyCount {
    return this.#days.get(`${kind} ${tenant}`) ?? newDay(this.now);
  }
  /** Once it is durable: notes what is left of the lots that it counted in. */
  countedUp(): void {
    this.counting?.committed(({ tenant, kind }) => this.day(tenant, kind));
  }
  putDay(tenant: string, kind: CountKind, daily: DailyCount): void {
    this.changesMade += 1;
    this.#days.set(`${kind} ${tenant}`, daily);
  }

  prefix(name: PrefixName): PrefixRecord {
    return this.prefixes.get(prefixKey(name))?.record ?? newPrefix;
  }
  putPrefix(name: PrefixName, { record, decisions }: PrefixChange): void {
    this.changesMade += 1;
    this.prefixes.put(prefixKey(name), { name, record });
    for (const decision of decisions) this.decided.push({ ...name, decision });
  }

  sumLate(endMs: Instant, change: readonly SumRow[]): void {
    if (change.length > 0) this.changesMade += 1;
    for (const row of change) this.lateSums.push({ endMs, row });
  }

  owe(event: OwedEvent): void {
    this.changesMade += 1;
    this.events.push(event);
  }

  note(entry: AuditEntry): void {
    this.changesMade += 1;
    this.notes.push(entry);
  }
}
