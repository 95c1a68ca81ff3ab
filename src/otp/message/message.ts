/**
 * A message is one text owed to a phone by one channel, kept in the outbox until a provider has it. This file holds its
 * states, and what to do after a provider has answered. It holds no text: that is rendered for each call (template/).
 *
 * Delivery is at least once: a crash between a provider's acceptance and our note of it sends the text again. That is
 * harmless, since every copy carries the same code, and bounded: at most two calls per message whose answer is not that it
 * has to wait.
 */
import type { Instant } from "../../system.ts";
import type { Channel } from "../channel.ts";
import { providerName, providerReason } from "./provider-text.ts";

/** How far a message got, or how it ended. */
export type Delivery = "QUEUED" | "SENDING" | "ACCEPTED" | "DELIVERED" | "UNDELIVERED" | "REJECTED" | "EXPIRED";

export interface Message {
  /** The verification it belongs to. */
  readonly verificationId: string;
  /** 0 for the first message of a verification, then one more per resend. */
  readonly copy: number;
  /** How it travels. */
  readonly channel: Channel;
  readonly delivery: Delivery;
  /** How many times a provider was called. Calls that a crash cut short count, calls that were put off do not. */
  readonly calls: number;
  /** How many of those calls ended without acceptance. */
  readonly failures: number;
  /** True once a call ended without telling whether the text was sent: the message may have arrived. */
  readonly maybeSent: boolean;
  /** True while every provider that answered refused the recipient. */
  readonly recipientRefused: boolean;
  /** Which provider of the configured order is next. */
  readonly providerIndex: number;
  /** When it is due: the next try, or the end of the lease while SENDING. Null once nothing more is to be done. */
  readonly dueMs: Instant | null;
  /** Not sent at or after this moment. */
  readonly deadlineMs: Instant;
  /** The UTC day on which the daily cap has counted its next call, or the one under way; null for none. */
  readonly countedDay: number | null;
  /** The same of its country's cap. */
  readonly countryDay: number | null;
  /** What it has reserved of a UTC day under the cap on money, in millionths, likewise. */
  readonly reserved: { readonly day: number; readonly amount: number } | null;
  /** The provider that took it, or answered last. */
  readonly provider: string | null;
  /** What the provider that took it calls it, as far as that is known; null again once another has answered in vain. */
  readonly providerMessageId: string | null;
  /** The provider's own words on why, for the operator; cleaned (provider-text.ts). */
  readonly detail: string | null;
}

/** What a provider call came to. Every provider's answers are brought to these few. */
export type SendOutcome =
  /** Taken; where the provider knows already, with what became of it. */
  | {
      readonly kind: "accepted";
      readonly providerMessageId?: string;
      readonly delivery?: "DELIVERED" | "UNDELIVERED";
    }
  /** Proven not sent, and this provider will not send it. */
  | {
      readonly kind: "refused";
      readonly cause: "recipient" | "credentials" | "balance" | "content";
      readonly detail: string;
    }
  /**
   * Proven not sent; the provider asks to wait: with everything where it says so, else with this recipient. `isUnasked`
   * while it is left alone for that.
   */
  | {
      readonly kind: "throttled";
      readonly retryAfterMs?: number;
      readonly detail: string;
      readonly isUnasked?: true;
    }
  /** Proven not sent: the provider could not be reached, or is left alone, having failed too often (`isUnasked`). */
  | { readonly kind: "unavailable"; readonly detail: string; readonly isUnasked?: true }
  /** It may have been sent: the answer was lost, late or makes no sense. */
  | { readonly kind: "ambiguous"; readonly detail: string };

type Throttled = Extract<SendOutcome, { readonly kind: "throttled" }>;

export interface EndedCall {
  readonly outcome: SendOutcome;
  readonly provider: string;
  /** How many providers the message's channel has. */
  readonly providers: number;
  /** True where the provider before had the message in vain; one that gave it an id is known without. */
  readonly isReturned?: boolean;
}

/** What a provider later says became of a message. */
export interface Report {
  readonly reference: string;
  /** The provider's id of the message, if the report has one. */
  readonly providerMessageId: string | undefined;
  readonly delivery: "ACCEPTED" | "DELIVERED" | "UNDELIVERED";
  /** The provider's own word on why. */
  readonly detail: string | undefined;
}

/** A claim on a message lasts so long; a worker that has not settled it by then is taken for dead. */
export const leaseMs = 30_000;

/** Calls per message that may end without acceptance. */
export const failuresMax = 2;

/** The shortest wait for a provider that asks for one, and the wait where it does not say how long. */
export const putOffMs = 1_000;
/** Where there are several providers, each is asked again so soon: another one may be ready earlier. */
const putOffMsMax = 15_000;

/** The wait before a second call to the same provider. Short, since a user is waiting. */
export const retryDelayMs = 500;

/** What is known of a message when it is made. */
export interface MessageFacts
  extends
    Pick<Message, "verificationId" | "copy" | "channel" | "deadlineMs" | "countedDay">,
    Partial<Pick<Message, "countryDay" | "reserved">> {
  readonly now: Instant;
}

/** What a call has taken of its day is spent once the call may have sent the text. */
const usedUp = { countedDay: null, countryDay: null, reserved: null } as const;

/** A new message, claimed by the process that creates it: it goes straight to that process's worker. Pure. */
export function newMessage({ now, ...facts }: MessageFacts): Message {
  return {
    countryDay: null,
    reserved: null,
    ...facts,
    delivery: "SENDING",
    calls: 1,
    failures: 0,
    maybeSent: false,
    recipientRefused: true,
    providerIndex: 0,
    dueMs: leaseEnd(now, facts.deadlineMs),
    provider: null,
    providerMessageId: null,
    detail: null,
  };
}

/** The message after a worker took it in hand. Pure. */
export function claim(message: Message, now: Instant): Message {
  // A call cut short by a crash may have reached the provider.
  const cutShort = message.calls > message.failures;
  return {
    ...message,
    delivery: "SENDING",
    calls: message.calls + 1,
    maybeSent: message.maybeSent || cutShort,
    dueMs: leaseEnd(now, message.deadlineMs),
  };
}

/** The message after it was claimed and put back unsent, unless its provider has said meanwhile that it has it. Pure. */
export function unclaim(message: Message, now: Instant): Message {
  if (message.delivery === "ACCEPTED") return { ...message, calls: message.calls - 1, dueMs: null };
  return { ...message, delivery: "QUEUED", calls: message.calls - 1, dueMs: now };
}

/** True once no further call will be made for this message, and none is under way. Pure. */
export function isDone(message: Message): boolean {
  // What waits for its report does so until its deadline. A lease may end behind that, and never does so with it.
  return message.dueMs === null || message.dueMs === message.deadlineMs;
}

/** When the lease of a claim ends. */
function leaseEnd(now: Instant, deadlineMs: Instant): Instant {
  return now + leaseMs === deadlineMs ? deadlineMs + 1 : now + leaseMs;
}

/** When a claimed message was claimed, or a millisecond before. Pure. */
export function claimTimeOf({ dueMs }: Message): Instant | undefined {
  return dueMs === null ? undefined : dueMs - leaseMs - 1;
}

/**
 * The message after its deadline, its verification's end or the daily cap came before it was sent. What a report said stays,
 * also where the message waits for the next provider since one had it in vain: that is known by its id, or said. Pure.
 */
export function giveUp(message: Message, isReturned = message.providerMessageId !== null): Message {
  const cutShort = message.calls > message.failures;
  const isReported = message.delivery === "ACCEPTED" || message.delivery === "UNDELIVERED";
  const isInVain = message.delivery === "QUEUED" && isReturned && !cutShort;
  const delivery = isInVain ? "UNDELIVERED" : isReported ? message.delivery : "EXPIRED";
  return { ...message, delivery, maybeSent: message.maybeSent || cutShort, dueMs: null };
}

/**
 * True while the worker that claimed `claimed` still has it in hand: its call is not settled, and nobody else has
 * claimed it since. An outcome other than acceptance counts only then: a later claim has counted the call as cut short.
 * A report that came meanwhile has moved the delivery, and leaves the message in hand. Pure.
 */
export function isInHand(claimed: Message, stored: Message): boolean {
  return stored.delivery !== "QUEUED" && stored.dueMs === claimed.dueMs && stored.calls === claimed.calls;
}

/** True where a report, or the end, has settled a message since it was claimed, and nobody has claimed it since. Pure. */
export function isOverSince(claimed: Message, stored: Message): boolean {
  return stored.dueMs === null && stored.calls === claimed.calls;
}

/** True if nothing of this message can have reached the phone, and nothing will. Pure. */
export function isProvenUnsent(message: Message): boolean {
  return (
    message.dueMs === null && !message.maybeSent && (message.delivery === "REJECTED" || message.delivery === "EXPIRED")
  );
}

/**
 * The message after a provider's answer: accepted, due again, or given up after two failures. After a proven non-send it is
 * due at once at the next provider, or after a pause at the same one when there is no other. A provider that asks to wait
 * has not failed: its call is put off, for as long as there is time. Where the last one fails, the message goes back to
 * the first, if all before it have asked to wait. What the call took of the day stays for the next one, or to be given back,
 * unless it may have left. Pure.
 */
export function settle(message: Message, call: EndedCall, now: Instant): Message {
  const { outcome, provider, providers } = call;
  if (outcome.kind === "accepted") {
    const accepted: Message = {
      ...message,
      delivery: forward(message.delivery, outcome.delivery ?? "ACCEPTED"),
      maybeSent: true,
      dueMs: null,
      ...usedUp,
      provider,
      providerMessageId: providerName(outcome.providerMessageId),
      // What an earlier provider said is over. A report that came before this answer is not.
      detail: message.delivery === "SENDING" ? null : message.detail,
    };
    // The provider's report can come before its answer.
    return accepted.delivery === "UNDELIVERED" ? failOver(accepted, providers, now) : accepted;
  }
  const isReturned = message.providerMessageId !== null || call.isReturned === true;
  const isReported = message.delivery === "ACCEPTED" || message.delivery === "UNDELIVERED";
  const ended = outcome.kind === "ambiguous" || isReported ? { ...message, ...usedUp } : message;
  // The provider's report came before its answer was lost, so the provider has had the message.
  if (message.delivery === "ACCEPTED") return { ...ended, dueMs: null };
  if (message.delivery === "UNDELIVERED") return failOver(ended, providers, now);
  const settled =
    outcome.kind === "throttled"
      ? putOff(ended, outcome, isReturned ? ended.provider : provider)
      : failed(ended, outcome, provider);
  const next = nextTry(settled, { outcome, providers, isReturned });
  const dueMs = next === undefined ? null : now + next.waitMs;
  if (next === undefined || dueMs === null || dueMs >= message.deadlineMs) {
    // An accepted message is called for again only when its provider has reported it undelivered.
    const isInVain = isReturned && outcome.kind !== "ambiguous";
    if (isInVain && settled.calls === settled.failures) return { ...settled, delivery: "UNDELIVERED", dueMs: null };
    // What may have been sent waits for the provider's report until its deadline; the rest is proven unsent.
    return settled.maybeSent
      ? { ...settled, delivery: forward(settled.delivery, "SENDING"), dueMs: settled.deadlineMs }
      : { ...settled, delivery: "REJECTED", dueMs: null };
  }
  return { ...settled, delivery: "QUEUED", dueMs, providerIndex: next.providerIndex };
}

/**
 * The message after a provider's report. Reports come in any order, more than once, and before the answer to the call
 * they are about: delivery only moves forward. If the provider that has the message says that it was undelivered, it
 * goes to the next provider, as far as there is time and a call left. Pure.
 */
export function report(
  message: Message,
  said: Pick<Report, "delivery" | "detail"> & {
    readonly isFromHolder: boolean;
    readonly providers: number;
    /** The place of the provider that is next; the one after the message's own unless said. */
    readonly next?: number;
  },
  now: Instant,
): Message {
  if (said.delivery !== "DELIVERED" && !said.isFromHolder) return message;
  const delivery = forward(message.delivery, said.delivery);
  if (delivery === message.delivery) return message;
  // What did not go through before has arrived now.
  const before = delivery === "DELIVERED" ? null : message.detail;
  const detail = providerReason(said.detail) ?? before;
  const reported: Message = { ...message, delivery, detail, maybeSent: true };
  if (delivery === "DELIVERED" || (delivery === "ACCEPTED" && isDone(message))) return { ...reported, dueMs: null };
  // While a call is under way its own end decides.
  if (delivery !== "UNDELIVERED" || !isDone(message)) return reported;
  return failOver(reported, said.providers, now, said.next);
}

/**
 * An undelivered message, due at the next provider; or left undelivered when there is none, no call or no time. What it holds
 * then is a call's that may be put back unmade.
 */
function failOver(message: Message, providers: number, now: Instant, next = message.providerIndex + 1): Message {
  const inVain = { ...message, failures: message.failures + 1, dueMs: null };
  const goesOn = inVain.failures < failuresMax && next < providers && now < message.deadlineMs;
  return goesOn ? { ...inVain, ...usedUp, delivery: "QUEUED", providerIndex: next, dueMs: now } : inVain;
}

/** The message after a call that ended without acceptance. */
function failed(
  message: Message,
  outcome: Exclude<SendOutcome, { kind: "accepted" | "throttled" }>,
  provider: string,
): Message {
  return {
    ...message,
    failures: message.failures + 1,
    maybeSent: message.maybeSent || outcome.kind === "ambiguous",
    recipientRefused: message.recipientRefused && outcome.kind === "refused" && outcome.cause === "recipient",
    provider,
    providerMessageId: null,
    detail: providerReason(outcome.detail),
  };
}

/** The message after a call that does not count. The id stays that an earlier provider, who failed, gave it. */
function putOff(message: Message, { detail }: { readonly detail: string }, provider: string | null): Message {
  return {
    ...message,
    calls: message.calls - 1,
    recipientRefused: false,
    provider,
    detail: providerReason(detail),
  };
}

/** How long a provider that asks to wait is waited for; what is left of a wait, where it was not asked. Pure. */
export function waitOf({ retryAfterMs = putOffMs, isUnasked }: Throttled): number {
  return Math.max(retryAfterMs, isUnasked === true ? retryDelayMs : putOffMs);
}

function nextTry(
  message: Message,
  { outcome, providers, isReturned }: Pick<EndedCall, "outcome" | "providers" | "isReturned">,
): { waitMs: number; providerIndex: number } | undefined {
  if (message.failures >= failuresMax) return undefined;
  const { providerIndex, failures } = message;
  const isThrottled = outcome.kind === "throttled";
  const goesRound = providers > 1 && !(isThrottled && isReturned === true);
  // The one that is first again after the last one's failure is waited for at its place.
  const isSecondRound = goesRound && providerIndex === 0 && failures > 0;
  const other = providerIndex + 1;
  if (other < providers && !(isThrottled && isSecondRound)) return { waitMs: 0, providerIndex: other };
  const waitMs = isThrottled ? waitOf(outcome) : retryDelayMs;
  // No provider has failed, all have asked to wait: the first one's time may be the nearest.
  if (goesRound && isThrottled && failures === 0) return { waitMs: Math.min(waitMs, putOffMsMax), providerIndex: 0 };
  // Only the last one has failed: those before it have asked to wait.
  const isProven = outcome.kind === "refused" || outcome.kind === "unavailable";
  if (goesRound && isProven && providerIndex > 0 && failures === 1) return { waitMs, providerIndex: 0 };
  return outcome.kind === "refused" ? undefined : { waitMs, providerIndex };
}

const order: Record<Delivery, number> = {
  QUEUED: 0,
  SENDING: 1,
  ACCEPTED: 2,
  EXPIRED: 3,
  REJECTED: 3,
  UNDELIVERED: 3,
  DELIVERED: 4,
};

/** The further of two deliveries: a late report never takes a message back. Pure. */
export function forward(from: Delivery, to: Delivery): Delivery {
  return order[to] >= order[from] ? to : from;
}
