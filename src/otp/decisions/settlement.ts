/**
 * What a provider's word means for a message and its verification: its answer to a call, and its later report. Both are
 * decisions (sending.ts).
 */
import type { Instant } from "../../system.ts";
import type { Channel } from "../channel.ts";
import { hastened } from "../message/fallback.ts";
import {
  callOutcome,
  end,
  isAllUnsent,
  latestCopy,
  stateAt,
  withNote,
  withoutSpentLimits,
  type LogEntry,
  type ProviderCallOutcome,
  type Verification,
} from "../verification/verification.ts";
import {
  claimTimeOf,
  forward,
  giveUp,
  isDone,
  isInHand,
  isOverSince,
  isProvenUnsent,
  report,
  settle,
  unclaim,
  type EndedCall,
  type Message,
  type Report,
} from "../message/message.ts";
import type { Days } from "../verification/daily-cap.ts";
import { limitsFor, type Policy } from "../verification/policy.ts";
import { giveBackNamed } from "../limits/named-limit.ts";
import { providerName } from "../message/provider-text.ts";
import { giveBackAll } from "../limits/rate-limit.ts";
import { kindsOf, takenBy, withPlaceBack } from "./spending.ts";
import { nothing, type Decided, type PhoneView, type Writes } from "./writes.ts";

export interface SettleView {
  readonly now: Instant;
  readonly message: Message;
  readonly verification: Verification;
  readonly phone: PhoneView;
  /** The counts of today that the message is in; undefined when it is in none. */
  readonly days?: Days | undefined;
}

/** A message and its verification after a provider's answer was noted. */
export interface Settled {
  readonly message: Message;
  readonly verification: Verification;
}

/** A call that has ended, and the message as it was claimed for it. */
export interface ClaimedCall extends EndedCall {
  readonly claimed: Message;
}

/**
 * Notes a provider's answer. A message that is proven never to have left gives back its budget, and what it took of the
 * daily cap while the day lasts. If it is the only one of its verification, there is no code out there to wait for: the
 * verification becomes FAILED, or goes on by its next channel at once. A resend that never left does not count.
 */
export function decideSettle(view: SettleView, call: ClaimedCall, policy: Policy): Decided<Settled> {
  const { now, verification } = view;
  // Where it is no longer in this worker's hand, another one was faster, or an earlier try to note this very answer has
  // ended it or put it back, and the next provider may have it by now. Only an acceptance is still to be noted, once.
  // Anything else, counted again, would give the budget back twice, send an accepted text once more, or give up a message
  // that has a provider left to go to.
  const isNews = call.outcome.kind === "accepted" && !hasHad(view, call.provider, taken);
  const isOwn = isInHand(call.claimed, view.message);
  if (!isOwn && !isNews) return outOfHand(view, call);
  const pending = stateAt(verification, now) === "PENDING";
  // Once it has ended otherwise than accepted, it goes to no further provider.
  const isFinal = !isOwn && view.message.dueMs === null && view.message.delivery !== "ACCEPTED";
  const providers = isFinal || isSuperseded(view) ? 0 : call.providers;
  // What the message holds for its next call is not what an earlier one, whose answer is late, has taken.
  const isUnspent = isOwn ? isProvenNotLeft(view, call) : view.message.delivery === "QUEUED";
  const isReturned = wasInVain(verification, view.message);
  const settled = settle(view.message, { ...call, providers, isReturned }, now);
  const answered = isUnspent ? { ...settled, ...takenBy(view.message) } : settled;
  // Nothing is sent after a terminal state, and what has failed stays so.
  const isUndelivered = view.message.delivery === "UNDELIVERED" || callOutcome(call.outcome) === "undelivered";
  const over: Message = isUndelivered
    ? { ...answered, delivery: "UNDELIVERED", dueMs: null }
    : giveUp(answered, isReturned);
  const message = pending || answered.dueMs === null ? answered : over;
  return concluded(noted(view, callOutcome(call.outcome), call.provider), message, { policy, isUnspent });
}

/**
 * Notes the answer to a call whose message a report, or its end, has settled meanwhile. If the call did not leave, what it took
 * comes back: once, since the message holds it no longer then.
 */
function outOfHand(view: SettleView, call: ClaimedCall): Decided<Settled> {
  const { verification, message } = view;
  const isLast = isOverSince(call.claimed, message);
  const holds = kindsOf(message, verification.region).length > 0;
  // One that was put off does not count as a call: the next one has its number, and may have left.
  const isAgain = call.outcome.kind === "throttled" && hasHad(view, call.provider, putOff, claimTimeOf(call.claimed));
  if (!isLast || !holds || isAgain || !isProvenNotLeft(view, call)) return nothing({ message, verification });
  const left = withPlaceBack(message, view);
  return { writes: { message: left.message, ...left.writes }, result: { message: left.message, verification } };
}

/**
 * Puts a claimed message back that was not called for. It waits with its place, unless a report on an earlier call, or its
 * end, has come meanwhile, after which it is not called for again. Writes nothing for what somebody else has in hand.
 */
export function decideRelease(
  view: Pick<SettleView, "now" | "message" | "verification" | "days">,
  claimed: Message,
): Decided<undefined> {
  const { message, now } = view;
  const isOwn = isInHand(claimed, message);
  if (!isOwn && !isOverSince(claimed, message)) return nothing(undefined);
  const released = isOwn ? unclaim(message, now) : message;
  const left = isDone(released) ? withPlaceBack(released, view) : { message: released, writes: {} };
  return { writes: { message: left.message, ...left.writes }, result: undefined };
}

/**
 * Gives up a message that is too late to send (past its deadline, or after the end of its verification), or over the cap. One
 * that its provider has reported to have ends as that, and nothing is given up.
 */
export function decideGiveUp(view: SettleView, policy: Policy): Decided<Settled> {
  // A call under way may have left.
  const isUnspent = view.message.delivery === "QUEUED";
  const message = giveUp(view.message, wasInVain(view.verification, view.message));
  const told = message.delivery === "ACCEPTED" ? view : noted(view, "given-up", null);
  return concluded(told, message, { policy, isUnspent });
}

const taken: ReadonlySet<string> = new Set<ProviderCallOutcome>(["accepted", "delivered", "undelivered"]);
const mayHaveLeft: ReadonlySet<string> = new Set<ProviderCallOutcome>([
  "accepted",
  "delivered",
  "undelivered",
  "ambiguous",
]);
const putOff: ReadonlySet<string> = new Set<ProviderCallOutcome>(["throttled"]);

/** Whether the log says already that a call of a provider for a message has come to one of these, since a moment if one is given. */
function hasHad(
  { verification, message }: SettleView,
  provider: string,
  outcomes: ReadonlySet<string>,
  since: Instant = verification.createMs,
): boolean {
  const { copy } = message;
  return verification.log.entries.some(
    (entry) =>
      entry.kind === "call" &&
      outcomes.has(entry.outcome) &&
      entry.copy === copy &&
      entry.provider === provider &&
      verification.createMs + entry.offsetMs >= since,
  );
}

/**
 * Whether what has failed of a message is that a provider had it in vain: the id that it gave is kept then, and the log says so
 * of one that gave none. Pure.
 */
export function wasInVain({ log }: Verification, { copy, failures, providerMessageId }: Message): boolean {
  if (failures !== 1) return false;
  const isSaid = ({ kind, outcome }: LogEntry) =>
    kind === "report" ? outcome === "UNDELIVERED" : kind === "call" && outcome === "undelivered";
  return providerMessageId !== null || log.entries.some((entry) => entry.copy === copy && isSaid(entry));
}

/** Whether the answer proves that its call did not leave. A report that came before it says otherwise, unless it is of another call. */
function isProvenNotLeft(view: SettleView, { outcome, provider }: EndedCall): boolean {
  if (outcome.kind === "accepted" || outcome.kind === "ambiguous") return false;
  const { delivery, provider: reporter } = view.message;
  const isReported = delivery === "ACCEPTED" || delivery === "DELIVERED" || delivery === "UNDELIVERED";
  return !isReported || reporter !== provider || hasHad(view, provider, mayHaveLeft);
}

/** What is decided about, with the end of a call in the log. */
function noted<View extends SettleView>(view: View, outcome: ProviderCallOutcome, provider: string | null): View {
  const { verification, message, now } = view;
  const note = { kind: "call", outcome, provider, copy: message.copy } as const;
  return { ...view, verification: withNote(verification, note, now) };
}

/** How a message has come to what it is. */
interface Conclusion {
  readonly policy: Policy;
  /** What the message holds of the day is not spent: unless it is for a next call, it comes back. */
  readonly isUnspent: boolean;
}

/** The message as it has become, and what follows from that for its verification, its phone and the day. */
function concluded(view: SettleView, message: Message, { policy, isUnspent }: Conclusion): Decided<Settled> {
  const { now, verification, phone } = view;
  const pending = stateAt(verification, now) === "PENDING";
  const latest = message.copy === latestCopy(verification);
  // One that was reported undelivered before its answer goes on behind that.
  const { delivery } = verification;
  const reached = delivery === "UNDELIVERED" ? message.delivery : forward(delivery, message.delivery);
  const moved = latest ? { ...verification, delivery: reached } : verification;
  const kept = isUnspent && isDone(message) ? withPlaceBack(message, view) : { message, writes: {} };
  if (!isProvenUnsent(message)) {
    const left = message.maybeSent ? withoutSpentLimits(moved) : moved;
    const goesOn = pending && latest ? goneOn(left, message, now) : left;
    const result: Settled = { message: kept.message, verification: goesOn };
    return { writes: { ...result, ...kept.writes }, result };
  }

  // With a later copy under way or arrived, an earlier one that never left changes nothing.
  const withdrawn = !pending || !latest ? moved : withoutLatest(moved, message.copy, now);
  // A success gives back all messages that the verification still counts, so this one would come back twice.
  const comesBackOtherwise = verification.state === "VERIFIED" || (pending && !latest);
  const tats = giveBackAll(limitsFor(policy, phone.tats), phone.tats, now, 1);
  const isOver = stateAt(withdrawn, now) !== "PENDING" && withdrawn.state !== "VERIFIED";
  const ended = isOver && isNothingSent(withdrawn, message.copy) ? limitsBack(withdrawn, phone, now) : {};
  const result: Settled = { message: kept.message, verification: withdrawn };
  return {
    writes: { ...result, ...ended, ...(comesBackOtherwise ? {} : { tats }), ...kept.writes },
    result,
  };
}

/** True if nothing of a verification has left, one more of its messages being proven unsent. */
function isNothingSent({ resends, fallback }: Verification, copy: number): boolean {
  if (resends > 0) return false;
  return fallback === null ? copy === 0 : new Set([...fallback.unsent, copy]).size === 1 + fallback.owed;
}

/** Gives back what a verification of which nothing has left was counted by: the limits that its send named. */
export function limitsBack(
  verification: Verification,
  { limits, limitTats = [] }: PhoneView,
  now: Instant,
): Pick<Writes, "verification" | "limitTats"> {
  if (limits === undefined) return {};
  return { verification: withoutSpentLimits(verification), limitTats: giveBackNamed(limits, limitTats, now) };
}

/** What a provider's report says, and whose it is. */
export interface ReportFacts extends Omit<Report, "reference"> {
  readonly provider: string;
  /** The providers of a channel, in their order. */
  readonly providersOf: (channel: Channel) => readonly string[];
}

/** Notes a provider's report. Safe to repeat, and in any order. */
export function decideReport(view: SettleView, facts: ReportFacts): Decided<Settled> {
  const { now, verification, message } = view;
  // The message may bear the name that the provider before this one gave it.
  const knownId = message.provider === facts.provider ? message.providerMessageId : null;
  const reportedId = providerName(facts.providerMessageId);
  const isSameMessage = knownId === null || reportedId === null || knownId === reportedId;
  // Once a message is on its way to the next provider, the one before has nothing more to say of its failure.
  const providers = facts.providersOf(message.channel);
  // It had the message before it left the order, and so does the whole order come after it.
  const hasLeft = !providers.includes(facts.provider) && message.provider === facts.provider && isDone(message);
  const holder = hasLeft ? facts.provider : providers[message.providerIndex];
  const isFromHolder = message.delivery !== "QUEUED" && holder === facts.provider && isSameMessage;
  const others = isSuperseded(view) ? 0 : providers.length;
  const reported = report(message, { ...facts, isFromHolder, ...(hasLeft && { next: 0 }), providers: others }, now);
  if (reported === message) return nothing({ message, verification });
  // Its answer may be out still, or lost: what it says shows that it has the message.
  const held: Message = { ...reported, provider: facts.provider, providerMessageId: reportedId ?? knownId };
  const isOver = stateAt(verification, now) !== "PENDING";
  const settled: Message = isOver ? { ...held, delivery: facts.delivery, dueMs: null } : held;
  const note = { kind: "report", outcome: facts.delivery, provider: facts.provider, copy: message.copy } as const;
  const heard = withNote(withoutSpentLimits(verification), note, now);
  const latest = settled.copy === latestCopy(verification);
  const moved = latest ? { ...heard, delivery: settled.delivery } : heard;
  const shown = latest && !isOver ? goneOn(moved, settled, now) : moved;
  // Arrived by an earlier call, it is not called for again.
  const isUnspent = message.delivery === "QUEUED" && settled.dueMs === null;
  const left = isUnspent ? withPlaceBack(settled, view) : { message: settled, writes: {} };
  const result: Settled = { message: left.message, verification: shown };
  return { writes: { ...result, ...left.writes }, result };
}

/** Whether the next channel has taken the message's place: then it goes to no other provider. */
function isSuperseded({ verification, message }: Pick<SettleView, "verification" | "message">): boolean {
  return verification.fallback !== null && message.copy < latestCopy(verification);
}

/** A verification whose latest message was reported undelivered, with no provider left: its next channel's turn has come. */
function goneOn(verification: Verification, { delivery, dueMs }: Message, now: Instant): Verification {
  if (delivery !== "UNDELIVERED" || dueMs !== null || verification.fallback === null) return verification;
  return { ...verification, fallback: hastened(verification.fallback, now) };
}

/**
 * A pending verification whose latest message never left. Its next channel's turn has come, if there is one; with nothing
 * sent and nothing to come it is FAILED. A resend does not count then, and may be asked for again at once.
 */
function withoutLatest(verification: Verification, copy: number, now: Instant): Verification {
  const { resends, fallback } = verification;
  const isOfResend = copy > (fallback?.owed ?? 0);
  const left: Verification = isOfResend
    ? { ...verification, resends: resends - 1, nextResendMs: now }
    : { ...verification, fallback: fallback && { ...fallback, unsent: [...fallback.unsent, copy] } };
  if (left.fallback === null) return isOfResend ? left : end(left, "FAILED", now);
  if (isAllUnsent(left)) return end(left, "FAILED", now);
  if (left.fallback.dueMs === null) return { ...left, nextResendMs: now };
  return { ...left, delivery: "QUEUED", fallback: hastened(left.fallback, now) };
}
