/**
 * What a decision is shown of a phone, and what it may write. The store loads the one before the decision and writes
 * the other after it, as one transaction.
 */
import type { Instant } from "../../system.ts";
import { auditEntry, type AuditEntry, type Noted } from "../operators/audit.ts";
import type { Days, SpendWarning } from "../verification/daily-cap.ts";
import type { IdempotencyRecord } from "../verification/idempotency.ts";
import type { Message } from "../message/message.ts";
import type { LimitTats } from "../limits/named-limit.ts";
import type { PhoneHistory } from "../verification/policy.ts";
import type { Limit } from "../limits/rate-limit.ts";
import type { PrefixChange } from "../limits/pumping-guard.ts";
import type { Verification } from "../verification/verification.ts";

/** What a decision wants written. Absent parts stay as they are. */
export interface Writes {
  /** A new verification, or the new form of the loaded one. */
  readonly verification?: Verification;
  /** A new message, or the new form of the loaded one. */
  readonly message?: Message;
  /** The message before a new one, given up for it. */
  readonly earlier?: Message;
  /** The TATs of the phone's buckets, one per phone limit in the policy's order. */
  readonly tats?: readonly Instant[];
  readonly history?: PhoneHistory;
  /** The TATs of the limits of the view, of each in its order. */
  readonly limitTats?: readonly LimitTats[];
  /** The prefix as a send leaves it. What an end means for it, the store works out by itself. */
  readonly prefix?: PrefixChange;
  readonly record?: IdempotencyRecord;
  /** A code that was compared, for its tenant's count. */
  readonly guess?: { readonly tenant: string; readonly isRight: boolean };
  /** The tenant's counts of the day that changed. */
  readonly days?: Days;
  /** The shares of caps that were reached with them. */
  readonly warned?: readonly SpendWarning[];
  /** The entry of an operator's act. */
  readonly audit?: AuditEntry;
}

/** A decision: what to write, and what to answer. */
export interface Decided<R> {
  readonly writes: Writes;
  readonly result: R;
}

/** What the store has loaded and locked about a phone. */
export interface PhoneView {
  /** The TATs of the phone's buckets, one per phone limit in the policy's order; 0 for a new one. */
  readonly tats: readonly Instant[];
  readonly history: PhoneHistory;
  /** Attempts left on all its pending, unexpired verifications. */
  readonly openAttempts: number;
  /**
   * The limits that a send names, or that may come back to a verification, in their order; with the TATs of each. Absent where
   * there are none.
   */
  readonly limits?: readonly (readonly Limit[])[] | undefined;
  readonly limitTats?: readonly LimitTats[] | undefined;
}

export const noWrites: Writes = {};

/** Writes nothing. */
export function nothing<R>(result: R): Decided<R> {
  return { writes: noWrites, result };
}

/** What was decided, with an entry of the audit that is written with it. Pure. */
export function audited<R>(decided: Decided<R>, noted: Noted | undefined, now: Instant): Decided<R> {
  if (noted === undefined) return decided;
  return { ...decided, writes: { ...decided.writes, audit: auditEntry(noted.note, noted.audited, now) } };
}
