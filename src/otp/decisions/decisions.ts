/**
 * The decisions about a verification: send, verify, cancel; a resend's is in resending.ts. A decision is a pure function of what the store has
 * loaded and locked (its view) and of facts that were made beforehand; it returns what to write and what to answer. It
 * never asks the time, never waits, and may be run twice on the same view. A refusal is part of the answer, so what it
 * counts is committed with it.
 */
import type { Instant } from "../../system.ts";
import { passOf } from "./bot-pass.ts";
import type { Channel } from "../channel.ts";
import { codesMatch, deriveCode, parseCode, whyNoCode } from "../message/code.ts";
import { refusalOf, type Verdict } from "../verification/destination.ts";
import { newFallback, type FallbackPlan } from "../message/fallback.ts";
import { recordOf, type IdempotencyClaim } from "../verification/idempotency.ts";
import type { KeyRing } from "../keys/key-ring.ts";
import { emptyLog, end, messagesSpent, withNote, type Verification } from "../verification/verification.ts";
import { spentLimits } from "../limits/named-limit.ts";
import { objectionTo, openPhone, type PhoneNumber } from "../phone-number.ts";
import * as policies from "../verification/policy.ts";
import type { Policy } from "../verification/policy.ts";
import { askGuard, owedMessage, spendFor, type Owed, type Refused, type SendTerms } from "./spending.ts";
import { judgeSend } from "../limits/pumping-guard.ts";
import { giveBackAll } from "../limits/rate-limit.ts";
import type { Result } from "../reason.ts";
import { isSandbox, sandboxCode, sandboxDigits, sandboxOutcome } from "../message/sandbox.ts";
import type { Secret } from "../keys/secret.ts";
import { nextDigits, noGuesses } from "../verification/spraying.ts";
import {
  decidedBy,
  precedentFor,
  refused,
  standingOf,
  type Replay,
  type SendView,
  type UpdateView,
} from "./standing.ts";
import type { AndroidAppHash, WebOrigin } from "../template/last-line.ts";
import { nothing, type Decided, type Writes } from "./writes.ts";
import { terminalReason } from "../state.ts";

// ---- send -----------------------------------------------------------------------------------------------------------

/** A send that passed the door: everything about it that takes randomness or a key. */
export interface SendFacts {
  readonly id: string;
  readonly tenant: string;
  readonly keyId: string;
  readonly kid: number;
  readonly salt: Uint8Array;
  readonly phone: PhoneNumber;
  readonly phoneIndex: Uint8Array;
  readonly phoneBox: Uint8Array;
  readonly locale: string;
  readonly channel: Channel;
  readonly purpose: string;
  readonly bind: string;
  readonly webOrigin: WebOrigin | undefined;
  readonly appHash: AndroidAppHash | undefined;
  readonly knownUser: boolean;
  /** The channels to go on to, and when. */
  readonly fallback: FallbackPlan;
}

/** A send that is admitted may have passed the bot check before: `passUntilMs`. */
export type AdmissionResult =
  | { readonly kind: "admitted"; readonly passUntilMs: Instant | undefined }
  | Replay
  | Refused;

/**
 * Decides the first part of a send: idempotency, then what the door said, then the destination. The bot check is asked
 * between this and `decideSend`, which decides all of it again.
 */
export function decideAdmission(
  view: SendView,
  facts: Result<SendFacts>,
  claim: IdempotencyClaim | undefined,
  policy: Policy,
): Decided<AdmissionResult> {
  return nothing(admissionOf(view, facts, claim, policy));
}

function admissionOf(
  view: SendView,
  facts: Result<SendFacts>,
  claim: IdempotencyClaim | undefined,
  policy: Policy,
): AdmissionResult {
  const precedent = claim && precedentFor(view, claim, view.recorded);
  if (precedent !== undefined) return precedent;
  if (!facts.ok) return { kind: "refused", refusal: facts.refusal };
  const { tenant, phone } = facts.value;
  const [channel] = routeOf(facts.value, view.verdict);
  const refusal = refusalOf(tenant, { phone, channel }, view.verdict, policy);
  if (refusal !== undefined) return { kind: "refused", refusal };
  return { kind: "admitted", passUntilMs: claim && passOf(claim, view.record, view.now) };
}

/** A send that is opened takes the pass that it had of the bot check. */
export type SendResult =
  | ({ readonly kind: "opened"; readonly passUntilMs?: Instant | undefined } & Owed)
  | Replay
  | Refused;

/**
 * Decides a send. In order: idempotency, what the door said (channel, phone), the destination, the prefix (of a number that
 * no entry allows), the guess budget, `limited`, the phone's limits, the limits that it names, the daily cap.
 */
export function decideSend(
  view: SendView,
  facts: Result<SendFacts>,
  { claim, policy, limited, limitKeys = [], priceOf }: SendTerms,
): Decided<SendResult> {
  const door = admissionOf(view, facts, claim, policy);
  if (door.kind !== "admitted") return nothing(door);
  const { now, phone } = view;
  if (!facts.ok || phone === undefined) throw new Error("a send that was admitted has a phone");

  const guarded = askGuard(view, judgeSend, policy);
  if (!guarded.admitted) return guarded.decided;
  const digits = isSandbox(facts.value.tenant)
    ? sandboxDigits(facts.value.phone.e164, policy.codeLength)
    : nextDigits(policy, phone, view.guesses ?? noGuesses, now);
  if (digits === "refuse") return nothing(refused("DESTINATION_BLOCKED", { field: "phone" }));
  if (limited !== undefined) return nothing({ kind: "refused", refusal: limited });

  const { phone: number, ...kept } = facts.value;
  const [channel, ...others] = routeOf(facts.value, view.verdict);
  const expireMs = now + policy.ttlMs;
  const plan = { ...kept.fallback, channels: others };
  const opened: Verification = {
    ...kept,
    channel,
    fallback: newFallback(plan, now, policies.lastFallbackMs(expireMs)),
    region: number.region,
    tally: guarded.tally,
    state: "PENDING",
    delivery: "SENDING",
    digits,
    attempts: 0,
    attemptsMax: policy.attemptsMax,
    resends: 0,
    nextResendMs: now + (policy.resendGapsMs[0] ?? 0),
    createMs: now,
    expireMs,
    endMs: null,
    log: emptyLog,
    spentLimits: limitKeys.length === 0 ? [] : spentLimits(limitKeys),
  };
  const verification = withNote(opened, { kind: "send", outcome: opened.channel }, now);
  const spent = spendFor({ ...view, phone }, verification, verification.channel, { policy, limitKeys, priceOf });
  if (!spent.allowed) return spent.decided;
  const message = owedMessage(verification, verification.channel, now, spent.taken);
  const owed: Owed = { verification, message, now, tatsMs: spent.tatsMs, ...spent.shares };
  return {
    writes: {
      verification,
      message,
      ...spent.writes,
      ...guarded.writes,
      ...(claim && recordOf(claim, verification.id, null, now)),
    },
    result: { kind: "opened", ...owed, passUntilMs: door.passUntilMs },
  };
}

/** The channels that a send goes by in their order, without those that do not suit its number unless all do not. */
function routeOf(
  { tenant, phone, channel, fallback }: SendFacts,
  verdict: Verdict | undefined,
): readonly [Channel, ...Channel[]] {
  if (isSandbox(tenant) || verdict === "allow") return [channel, ...fallback.channels];
  const suited: Channel[] = [];
  for (const each of [channel, ...fallback.channels]) if (objectionTo(phone, each) === undefined) suited.push(each);
  const [first = channel, ...others] = suited;
  return [first, ...others];
}

// ---- verify, cancel ------------------------------------------------------------------------------------------------

export interface VerifyFacts {
  readonly code: Secret;
  readonly purpose: string;
  readonly bind: string;
}

/** What a verify is decided by, beside what is asked. */
export interface VerifyTerms {
  readonly claim: IdempotencyClaim | undefined;
  readonly keys: KeyRing;
  readonly policy: Policy;
}

export type VerifyResult = { readonly kind: "verified"; readonly verification: Verification } | Replay | Refused;

/**
 * Decides a verify. In order: idempotency, REQUEST_NOT_FOUND, the terminal state's reason, expiry, CODE_MALFORMED,
 * purpose, comparison. The attempt is counted in the same write that holds the outcome; the code is compared in
 * constant time. Five attempts at six digits are one chance in 200,000.
 */
export function decideVerify(
  view: UpdateView,
  facts: VerifyFacts,
  { claim, keys, policy }: VerifyTerms,
): Decided<VerifyResult> {
  const standing = standingOf(view, claim);
  if (standing.kind !== "pending") return decidedBy(standing);
  const { verification, phone, now } = standing;
  const staged = stagedEnd(verification, keys);
  if (staged !== undefined) {
    return { writes: { verification: end(verification, staged, now) }, result: refused(terminalReason(staged)) };
  }
  const typed = parseCode(facts.code, verification.digits);
  if (typed === undefined) {
    const message = whyNoCode(facts.code, verification.digits);
    return nothing(refused("CODE_MALFORMED", { field: "code", message }));
  }
  if (facts.purpose !== verification.purpose) return nothing(refused("PURPOSE_MISMATCH", { field: "purpose" }));
  if (facts.bind !== verification.bind) return nothing(refused("PURPOSE_MISMATCH", { field: "bind" }));

  const attempts = verification.attempts + 1;
  const counted = (outcome: "right" | "wrong") =>
    withNote({ ...verification, attempts }, { kind: "guess", outcome }, now);
  const right = isSandbox(verification.tenant) ? sandboxCode(verification.digits) : deriveCode(keys, verification);
  if (right !== undefined && codesMatch(right, typed)) {
    const verified = end(counted("right"), "VERIFIED", now);
    const [refunds, history] = policies.withRefunds(
      policies.forgive(phone.history, verification.attempts),
      now,
      messagesSpent(verification),
    );
    return {
      writes: {
        verification: verified,
        history,
        tats: giveBackAll(policies.limitsFor(policy, phone.tats), phone.tats, now, refunds),
        ...guessOf(verification.tenant, { isRight: true }),
        ...(claim && recordOf(claim, verified.id, { at: now }, now)),
      },
      result: { kind: "verified", verification: verified },
    };
  }
  const attemptsRemaining = verification.attemptsMax - attempts;
  const wrong = refused("CODE_MISMATCH", { field: "code", attemptsRemaining });
  return {
    writes: {
      verification: attemptsRemaining > 0 ? counted("wrong") : end(counted("wrong"), "LOCKED", now),
      history: policies.withWrongCode(phone.history, now),
      ...guessOf(verification.tenant, { isRight: false }),
      ...recordOf(claim, verification.id, { at: now, refusal: wrong.refusal }, now),
    },
    result: wrong,
  };
}

/** What a compared code adds to its tenant's count. Test runs mistype all day, and nothing can be won there. */
function guessOf(tenant: string, { isRight }: { readonly isRight: boolean }): Pick<Writes, "guess"> {
  return isSandbox(tenant) ? {} : { guess: { tenant, isRight } };
}

/** The end that a sandbox number has in store for its verification. */
function stagedEnd({ tenant, kid, id, phoneBox }: Verification, keys: KeyRing): "EXPIRED" | "LOCKED" | undefined {
  if (!isSandbox(tenant)) return undefined;
  const outcome = sandboxOutcome(openPhone(keys, kid, id, phoneBox));
  return outcome === "expired" ? "EXPIRED" : outcome === "locked" ? "LOCKED" : undefined;
}

export type CancelResult = { readonly kind: "canceled"; readonly verification: Verification } | Replay | Refused;

/** Decides a cancel: a pending verification becomes CANCELED, a canceled one is answered again, any other is refused. */
export function decideCancel(view: UpdateView, claim: IdempotencyClaim | undefined): Decided<CancelResult> {
  const standing = standingOf(view, claim);
  if (standing.kind === "terminal" && standing.verification.state === "CANCELED") {
    return nothing({ kind: "canceled", verification: standing.verification });
  }
  if (standing.kind !== "pending") return decidedBy(standing);
  const canceled = end(standing.verification, "CANCELED", standing.now);
  return {
    writes: { verification: canceled, ...recordOf(claim, canceled.id, { at: standing.now }, standing.now) },
    result: { kind: "canceled", verification: canceled },
  };
}
