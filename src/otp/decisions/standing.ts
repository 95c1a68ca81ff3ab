/**
 * What verify, resend and cancel look at first, in this order: the answer of an earlier call with the same
 * Idempotency-Key, whether there is such a verification, and whether it is still pending.
 */
import type { Instant } from "../../system.ts";
import type { Days } from "../verification/daily-cap.ts";
import type { Verdict } from "../verification/destination.ts";
import {
  precedentOf,
  type IdempotencyClaim,
  type IdempotencyRecord,
  type StoredAnswer,
} from "../verification/idempotency.ts";
import type { PrefixRecord } from "../limits/pumping-guard.ts";
import { refuse, type Reason, type Refusal } from "../reason.ts";
import type { Guesses } from "../verification/spraying.ts";
import { expire, stateAt, type Verification } from "../verification/verification.ts";
import { noWrites, nothing, type Decided, type PhoneView, type Writes } from "./writes.ts";
import { terminalReason } from "../state.ts";

/** An answer to be built again: the verification as it stands, and what was kept of the first answer. */
export interface Replay {
  readonly kind: "replay";
  readonly verification: Verification;
  /** Null when the first call never noted its answer. */
  readonly answer: StoredAnswer | null;
  /** The master key that was current at the first call. */
  readonly kid: number;
}

/** A refusal as a decision's result. */
export function refused(
  reason: Reason,
  particulars: Omit<Refusal, "reason"> = {},
): { kind: "refused"; refusal: Refusal } {
  return { kind: "refused", refusal: refuse(reason, particulars).refusal };
}

export interface CallView {
  readonly now: Instant;
  readonly record?: IdempotencyRecord | undefined;
  /** Absent where none is known: a send was refused for its form, or there is no such verification. */
  readonly phone?: PhoneView | undefined;
  /** Absent where the guard does not judge, was not asked for, or does not count the verification. */
  readonly prefix?: PrefixRecord | undefined;
  /** For a send or resend: what the longest entry of the lists says of the number; undefined when there is none. */
  readonly verdict?: Verdict | undefined;
  /** For a send or resend: the tenant's day, as far as it is under caps. */
  readonly days?: Days | undefined;
}

/** What a send is shown beside that. */
export interface SendView extends CallView {
  /** The verification that the record is of. */
  readonly recorded?: Verification | undefined;
  /** The codes compared in the tenant's window (`oldestMinute`); absent like the phone. */
  readonly guesses?: Guesses | undefined;
}

export interface UpdateView extends CallView {
  /** Undefined when there is none with this id in this tenant. */
  readonly verification?: Verification | undefined;
}

export type Standing =
  | { readonly kind: "pending"; readonly verification: Verification; readonly phone: PhoneView; readonly now: Instant }
  | { readonly kind: "terminal"; readonly verification: Verification; readonly writes: Writes }
  | { readonly kind: "missing" }
  | Replay
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** The checks that verify, resend and cancel share, in their order. */
export function standingOf(view: UpdateView, claim: IdempotencyClaim | undefined): Standing {
  const precedent = claim && precedentFor(view, claim, view.verification);
  if (precedent !== undefined) return precedent;
  const { verification, phone, now } = view;
  if (verification === undefined || phone === undefined) return { kind: "missing" };
  if (verification.state !== "PENDING") return { kind: "terminal", verification, writes: noWrites };
  if (stateAt(verification, now) === "EXPIRED") {
    const expired = expire(verification);
    return { kind: "terminal", verification: expired, writes: { verification: expired } };
  }
  return { kind: "pending", verification, phone, now };
}

/** What a call comes to whose verification is not pending: the answer of its precedent, or why there is none. */
export function decidedBy(
  standing: Exclude<Standing, { kind: "pending" }>,
): Decided<Replay | { kind: "refused"; refusal: Refusal }> {
  if (standing.kind === "missing") return nothing(refused("REQUEST_NOT_FOUND"));
  if (standing.kind !== "terminal") return nothing(standing);
  const { state } = standing.verification;
  if (state === "PENDING") throw new Error("a terminal standing is not pending");
  return { writes: standing.writes, result: refused(terminalReason(state)) };
}

/** What follows from an earlier call with the same Idempotency-Key: its answer again, or a refusal. Undefined for a first call. */
export function precedentFor(
  view: Pick<CallView, "now" | "record">,
  claim: IdempotencyClaim,
  verification: Verification | undefined,
): Replay | { kind: "refused"; refusal: Refusal } | undefined {
  const precedent = precedentOf(claim, view.record, view.now);
  if (precedent.kind === "refused") return precedent;
  // A record outlives its verification only when the retention was shortened: then the call counts as a first one.
  if (precedent.kind === "none" || verification === undefined) return undefined;
  const { answer, kid } = precedent.record;
  return { kind: "replay", verification, answer, kid };
}
