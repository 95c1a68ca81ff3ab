/**
 * The decision about a send. Any decision is a pure function of what the store has loaded and locked (its view) and of
 * facts that were made beforehand; it returns what to write and what to answer. It never asks the time, never waits, and
 * may be run twice on the same view. A refusal is part of the answer, so what it counts is committed with it.
 */
import type { Instant } from "../../system.ts";
import { passOf } from "./bot-pass.ts";
import type { Channel } from "../channel.ts";
import { refusalOf, type Verdict } from "../verification/destination.ts";
import { newFallback, type FallbackPlan } from "../message/fallback.ts";
import { recordOf, type IdempotencyClaim } from "../verification/idempotency.ts";
import { emptyLog, withNote, type Verification } from "../verification/verification.ts";
import { spentLimits } from "../limits/named-limit.ts";
import { objectionTo, type PhoneNumber } from "../phone-number.ts";
import { lastFallbackMs, type Policy } from "../verification/policy.ts";
import { askGuard, owedMessage, spendFor, type Owed, type Refused, type SendTerms } from "./spending.ts";
import { judgeSend } from "../limits/pumping-guard.ts";
import type { Result } from "../reason.ts";
import { isSandbox, sandboxDigits } from "../message/sandbox.ts";
import { nextDigits, noGuesses } from "../verification/spraying.ts";
import { precedentFor, refused, type Replay, type SendView } from "./standing.ts";
import type { AndroidAppHash, WebOrigin } from "../template/last-line.ts";
import { nothing, type Decided } from "./writes.ts";

/** A send whose form is right: everything about it that takes randomness or a key. */
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
 * Decides the first part of a send: idempotency, then its form, then the destination. The bot check is asked
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
 * Decides a send. In order: idempotency, its form (channel, phone), the destination, the prefix (of a number that
 * no entry allows), the guess budget, `limited`, the phone's limits, the limits that it names, the daily cap.
 */
export function decideSend(view: SendView, facts: Result<SendFacts>, terms: SendTerms): Decided<SendResult> {
  const { claim, policy, limited, limitKeys = [], priceOf } = terms;
  const admission = admissionOf(view, facts, claim, policy);
  if (admission.kind !== "admitted") return nothing(admission);
  const { now, phone } = view;
  if (!facts.ok || phone === undefined) throw new Error("a send that was admitted has a phone");

  const guarded = askGuard(view, judgeSend, terms);
  if (!guarded.admitted) return guarded.decided;
  const digits = isSandbox(facts.value.tenant)
    ? sandboxDigits(facts.value.phone.e164, policy.codeLength)
    : nextDigits(policy, phone, view.guesses ?? noGuesses, now);
  if (digits === "refuse") return nothing(refused("DESTINATION_BLOCKED", { field: "phone" }));
  if (limited !== undefined) return nothing({ kind: "refused", refusal: limited });

  const { phone: number, ...kept } = facts.value;
  const [channel, ...others] = routeOf(facts.value, view.verdict);
  const expireMs = now + policy.ttlMs;
  const opened: Verification = {
    ...kept,
    channel,
    fallback:
      others.length === 0 ? null : newFallback({ ...kept.fallback, channels: others }, now, lastFallbackMs(expireMs)),
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
  const owed: Owed = { verification, message, now, tatsMs: spent.tatsMs, ...spent.warnings };
  return {
    writes: {
      verification,
      message,
      ...spent.writes,
      ...guarded.writes,
      ...(claim && recordOf(claim, verification.id, null, now)),
    },
    result: { kind: "opened", ...owed, passUntilMs: admission.passUntilMs },
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
