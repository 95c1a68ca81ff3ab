/**
 * The decision about a fallback that is due: either the next channel owes the same code, as after a resend, or the
 * fallback ends. It costs what a resend costs, though nothing at a prefix that has proven itself, and does not use up the
 * resends that the user may ask for.
 */
import type { Channel } from "../channel.ts";
import { nextDueMs, withoutNext, type Fallback } from "../message/fallback.ts";
import { giveUp, isDone, isProvenUnsent, type Message } from "../message/message.ts";
import { askGuard, owedMessage, spendFor, withPlaceBack, type Owed, type PriceOf, type Spending } from "./spending.ts";
import { lastFallbackMs, limitsFor, sendLifeMinMs, type Policy } from "../verification/policy.ts";
import { judgeFallback } from "../limits/pumping-guard.ts";
import { giveBackAll } from "../limits/rate-limit.ts";
import { limitsBack, wasInVain } from "./settlement.ts";
import type { CallView } from "./standing.ts";
import type { Instant } from "../../system.ts";
import { end, isAllUnsent, latestCopy, stateAt, withNote, type Verification } from "../verification/verification.ts";
import { nothing, type Decided, type PhoneView, type Writes } from "./writes.ts";

export interface FallbackView extends CallView {
  readonly verification: Verification;
  /** The latest message that is owed. */
  readonly message: Message | undefined;
  readonly phone: PhoneView;
}

export interface FallbackTerms {
  readonly policy: Policy;
  /** The channels that a provider is configured for. */
  readonly channelsOn: readonly Channel[];
  /** Needed under a cap on money. */
  readonly priceOf?: PriceOf | undefined;
}

/** How soon to look again while a call of the channel before is under way. It takes 5 s at most. */
const lookAgainMs = 1_000;

/**
 * Decides a fallback that is due. Undefined where none is owed now: it is no longer due, or a call of the message
 * before it is under way and has to end first. Undefined too where the fallback has ended, which it does when
 *
 * - the verification has ended, or has less than a minute to live;
 * - a list, the prefix or the phone's limits refuse it;
 * - no channel that is left is on and has room under the caps of the day.
 *
 * A message that still waits for its next call is given up for the fallback: there are never two calls at once.
 */
export function decideFallback(view: FallbackView, terms: FallbackTerms): Decided<Owed | undefined> {
  const { now, verification, message } = view;
  const { fallback } = verification;
  if (fallback === null || fallback.dueMs === null || fallback.dueMs > now) return nothing(undefined);
  if (stateAt(verification, now) !== "PENDING") return dropped(view);
  const channels = fallback.channels.filter((each) => terms.channelsOn.includes(each));
  const isTooLate = now >= verification.expireMs - sendLifeMinMs;
  if (channels.length === 0 || isTooLate || view.verdict === "block") return dropped(view);
  if (message !== undefined && isUnderWay(message, now)) {
    const later = { ...fallback, dueMs: now + lookAgainMs };
    return { writes: { verification: { ...verification, fallback: later } }, result: undefined };
  }
  return owedNext(view, { ...fallback, channels }, terms);
}

/** Owes the message of the first channel that the caps let, if the prefix and the limits let any. */
function owedNext(
  view: FallbackView,
  fallback: Fallback,
  { policy, priceOf }: FallbackTerms,
): Decided<Owed | undefined> {
  const { now, verification } = view;
  const guarded = askGuard(view, judgeFallback, { policy });
  if (!guarded.admitted) return dropped(view, guarded.decided.writes);
  const before = givenUpFor(view, policy);
  const found = firstAffordable(fallback.channels, (channel) =>
    spendFor({ ...view, ...before.budget }, verification, channel, { policy, priceOf }),
  );
  // Nothing is given up for what is refused: the message before it goes on.
  if (found === undefined) return dropped(view);
  const { channel, channels, spent } = found;
  const next: Fallback = {
    ...fallback,
    channels,
    dueMs: channels.length === 0 ? null : nextDueMs(fallback.afterMs, now, lastFallbackMs(verification.expireMs)),
    owed: fallback.owed + 1,
    unsent: before.isUnsent ? [...fallback.unsent, latestCopy(verification)] : fallback.unsent,
  };
  const nextResendMs = now + (policy.resendGapsMs[verification.resends] ?? 0);
  const owing = withNote(
    { ...verification, delivery: "SENDING", nextResendMs, fallback: next },
    { kind: "fallback", outcome: channel, copy: latestCopy({ ...verification, fallback: next }) },
    now,
  );
  const days = new Map([...(before.writes.days ?? []), ...(spent.writes.days ?? [])]);
  const message = owedMessage(owing, channel, now, spent.taken);
  return {
    writes: { verification: owing, message, ...before.writes, ...spent.writes, days, ...guarded.writes },
    result: { verification: owing, message, now, tatsMs: spent.tatsMs, ...spent.warnings },
  };
}

/** The first channel whose message may be paid for, and those after it: a cap on calls or on money may have room for others. */
function firstAffordable(
  channels: readonly Channel[],
  spend: (channel: Channel) => Spending,
): { channel: Channel; channels: readonly Channel[]; spent: Spending & { readonly allowed: true } } | undefined {
  for (const [i, channel] of channels.entries()) {
    const spent = spend(channel);
    if (spent.allowed) return { channel, channels: channels.slice(i + 1), spent };
  }
  return undefined;
}

/** Owes nothing more by fallback. Where no message has left, and none is under way, there is no code to wait for. */
function dropped({ verification, message, phone, now }: FallbackView, writes: Writes = {}): Decided<undefined> {
  // Queued was the message to come, once the latest one had ended. With none to come, that is how far it got.
  const isToCome = verification.delivery === "QUEUED" && message !== undefined && message.dueMs === null;
  const delivery = isToCome ? message.delivery : verification.delivery;
  const left = { ...verification, delivery, fallback: withoutNext(verification.fallback) };
  const isOver = stateAt(verification, now) === "PENDING" && isAllUnsent(left);
  if (!isOver) return { writes: { ...writes, verification: left }, result: undefined };
  const failed = end(left, "FAILED", now);
  return { writes: { ...writes, verification: failed, ...limitsBack(failed, phone, now) }, result: undefined };
}

/** True while the message is in a worker's hand, and its call not settled. */
function isUnderWay(message: Message, now: Instant): boolean {
  return message.delivery !== "QUEUED" && !isDone(message) && (message.dueMs ?? now) > now;
}

interface GivenUp {
  /** True where it is proven never to have left, so that its budget pays for the next. */
  readonly isUnsent: boolean;
  readonly budget: Pick<FallbackView, "phone" | "days">;
  readonly writes: Pick<Writes, "earlier" | "days">;
}

/** The message before, given up if it still waits to be called for: the next channel takes its place. */
function givenUpFor({ now, message, phone, days, verification }: FallbackView, policy: Policy): GivenUp {
  const isWaiting = message !== undefined && message.dueMs !== null && !isAwaitingReport(message, now);
  if (!isWaiting) return { isUnsent: false, budget: { phone, days }, writes: {} };
  const earlier = giveUp(message, wasInVain(verification, message));
  // A call under way may have left.
  const isUnspent = message.delivery === "QUEUED";
  const left = isUnspent ? withPlaceBack(earlier, { days, now, verification }) : { message: earlier, writes: {} };
  const isUnsent = isProvenUnsent(earlier);
  const tats = isUnsent ? giveBackAll(limitsFor(policy, phone.tats), phone.tats, now, 1) : undefined;
  return {
    isUnsent,
    budget: {
      phone: tats === undefined ? phone : { ...phone, tats },
      days: days && new Map([...days, ...(left.writes.days ?? [])]),
    },
    writes: { earlier: left.message, ...left.writes },
  };
}

/** True for a message that is in nobody's hand and not called for again, but may be reported on. */
function isAwaitingReport({ delivery, dueMs }: Message, now: Instant): boolean {
  return delivery !== "QUEUED" && dueMs !== null && dueMs > now;
}
