/**
 * What an act declares and what it works on. The acts of acts.ts are written once, against these two shapes; a database
 * (engine.ts) supplies the unit of work.
 */
import type { AuditEntry } from "../otp/operators/audit.ts";
import type { DailyCount, CountKind } from "../otp/verification/daily-cap.ts";
import type { Verdict } from "../otp/verification/destination.ts";
import type { OwedEvent } from "../otp/decisions/event.ts";
import type { IdempotencyRecord, Slot } from "../otp/verification/idempotency.ts";
import type { Message } from "../otp/message/message.ts";
import type { PrefixChange, PrefixRecord } from "../otp/limits/pumping-guard.ts";
import type { Guesses } from "../otp/verification/spraying.ts";
import type { SumRow } from "../otp/operators/statistics.ts";
import type { PhoneHistory } from "../otp/verification/policy.ts";
import type { Verification } from "../otp/verification/verification.ts";
import type { Instant } from "../system.ts";
import type { PhoneRef, PrefixName } from "./store.ts";

/** When a bucket is full, and the master key that it is kept under. */
export interface KeptTat {
  readonly tatMs: Instant;
  readonly kid: number;
}

/** What is kept of phones within a transaction, by a phone's index; of its limits by their buckets too (rows/phone.ts). */
export interface PhoneRows {
  tat(index: Uint8Array, bucket: number): Instant | undefined;
  putTat(index: Uint8Array, bucket: number, tat: KeptTat): void;
  deleteTat(index: Uint8Array, bucket: number): void;
  history(index: Uint8Array): PhoneHistory | undefined;
  putHistory(index: Uint8Array, history: PhoneHistory, kid: number): void;
  deleteHistory(index: Uint8Array): void;
}

/** What of a unit of work is about phones. */
export interface PhonesUnit {
  readonly phones: PhoneRows;
  /** Attempts left on a phone's pending, unexpired verifications. */
  openAttempts(index: Uint8Array): number;
}

/**
 * One transaction, as an act sees it: synchronous, and up to date with what the acts before it in the same transaction have
 * changed. What an act reads or writes here it has declared, since a database may have to lock and load it before.
 */
export interface UnitOfWork extends PhonesUnit {
  /** The store's clock, once everything is locked. */
  readonly now: Instant;

  verification(id: string): Verification | undefined;
  insertVerification(verification: Verification): void;
  updateVerification(verification: Verification): void;

  message(verificationId: string, copy: number): Message | undefined;
  putMessage(message: Message): void;

  /** Those stored under any of a slot's names. */
  records(slot: Slot): readonly IdempotencyRecord[];
  putRecord(record: IdempotencyRecord): void;
  deleteRecord(name: Uint8Array): void;

  /** The codes typed at a tenant in the window of otp/verification/spraying.ts that are committed. */
  guesses(tenant: string): Guesses;
  countGuess(guess: { readonly tenant: string; readonly isRight: boolean }): void;

  /** What a tenant's lists say of a number: the verdict of the longest entry. */
  verdict(tenant: string, number: string): Verdict | undefined;

  /**
   * A count of a tenant's today. The count of messages may be higher than they are: what an instance has taken in
   * advance (a lot, on PostgreSQL) counts as used. It is exact where the next message is to be warned of or refused.
   */
  day(tenant: string, kind: CountKind): DailyCount;
  putDay(tenant: string, kind: CountKind, day: DailyCount): void;

  prefix(name: PrefixName): PrefixRecord;
  /** Its decisions go to `StoreWatchers.onPrefix` once they are durable. */
  putPrefix(name: PrefixName, change: PrefixChange): void;

  /** Adds what a late report changes, if the verification that ended at a moment is summed by now. */
  sumLate(endMs: Instant, change: readonly SumRow[]): void;

  /** Writes an event down for each of its tenant's endpoints that asks for it. */
  owe(event: OwedEvent): void;

  /** Writes an entry of the audit. */
  note(entry: AuditEntry): void;
}

/**
 * One act: what it is about, and what it does once that is locked and loaded. Locks are taken in this order: slot,
 * verification, phone, prefix, day. What is found through the verification is asked for once that is loaded.
 */
export interface Act<T> {
  /** The Idempotency-Key's slot whose records it works on, with the verifications that they name. */
  readonly slot?: Slot | undefined;
  readonly verificationId?: string | undefined;
  /** True when it works on messages of its verification. */
  readonly withMessages?: boolean;
  /** The tenant whose guesses it looks at. */
  readonly guessesOf?: string | undefined;
  phone?(unit: UnitOfWork): PhoneRef | undefined;
  /** The number that it asks the lists about. */
  number?(unit: UnitOfWork): ListedNumber | undefined;
  prefix?(unit: UnitOfWork): PrefixName | undefined;
  /** What it does with a tenant's day, each count once. */
  daily?(unit: UnitOfWork): readonly DayUse[];
  /** Pure but for what it does to the unit; may be run again on a fresh one. */
  run(unit: UnitOfWork): T;
}

/** What an act does with a count of a tenant's day. */
export interface DayUse {
  readonly tenant: string;
  readonly kind: CountKind;
  /** The cap under which it may count a message; undefined where it can only give one back. */
  readonly max: number | undefined;
}

/** A number that a tenant's lists are asked about, in E.164. */
export interface ListedNumber {
  readonly tenant: string;
  readonly number: string;
}
