/**
 * What every message that is newly owed has to pass, whichever way it came to be owed: the phone's prefix, the phone's
 * limits, the daily cap. And what it is then: a message in its worker's hand, of a verification, with what was spent on it;
 * or why there is no room for it, with the little that a refusal writes, which spends nothing of any of them.
 */
import type { Instant } from "../system.ts";
import type { Channel } from "./channel.ts";
import type { IdempotencyClaim } from "./idempotency.ts";
import { newMessage, type Message } from "./message.ts";
import { spendNamed, type LimitKey } from "./named-limit.ts";
import * as policies from "./policy.ts";
import type { Policy } from "./policy.ts";
import type { Judgment, PrefixRecord } from "./pumping-guard.ts";
import { spendAll } from "./rate-limit.ts";
import type { Refusal } from "./reason.ts";
import { capsOf, countAll, type Counted, type PriceOf, type Shares, type Taken } from "./spending.ts";
import { refused, type CallView } from "./standing.ts";
import { latestCopy, type Verification } from "./verification.ts";
import { nothing, type Decided, type PhoneView, type Writes } from "./writes.ts";

/** What a send is decided by, beside what is asked. */
export interface SendTerms {
  readonly claim: IdempotencyClaim | undefined;
  readonly policy: Policy;
  /** What the limits outside the store have to say, if they refuse. */
  readonly limited?: Refusal | undefined;
  /** The tenant's limits that the send names. */
  readonly limitKeys?: readonly LimitKey[];
  /** Needed under a cap on money. */
  readonly priceOf?: PriceOf | undefined;
}

/** A message that is owed from now on, in its worker's hand. Shares of caps that it reached are to be warned of. */
export interface Owed extends Shares {
  readonly verification: Verification;
  readonly message: Message;
  readonly now: Instant;
  /** The TATs of the phone's buckets, this message spent. */
  readonly tatsMs: readonly Instant[];
}

export interface Refused extends Shares {
  readonly kind: "refused";
  readonly refusal: Refusal;
}

/** Whether the guard judges a send: not one to a number that the operator allows. */
export function isJudged<View extends CallView>(view: View): view is View & { readonly prefix: PrefixRecord } {
  return view.prefix !== undefined && view.verdict !== "allow";
}

export function prefixChangeOf(judgment: Judgment | undefined): Pick<Writes, "prefix"> {
  return judgment === undefined ? {} : { prefix: judgment.change };
}

/** What a message spends: of its phone's limits, of those that its send names, and of the caps of its tenant's day. */
export type Spending =
  | {
      readonly allowed: true;
      /** The TATs of the phone's buckets, this message spent. */
      readonly tatsMs: readonly Instant[];
      readonly taken: Taken;
      readonly shares: Shares;
      readonly writes: Pick<Writes, "tats" | "limitTats" | "days" | "warned">;
    }
  /** Nothing is spent. */
  | { readonly allowed: false; readonly decided: Decided<Refused> };

/**
 * Spends what the next message of a verification costs, or says why it may not be. In order: the phone's limits, those that are
 * named, the caps of the day. Pure.
 */
export function spendFor(
  { now, phone, days }: Pick<CallView, "now" | "days"> & { readonly phone: PhoneView },
  verification: Verification,
  channel: Channel,
  { policy, limitKeys = [], priceOf }: Pick<SendTerms, "policy" | "limitKeys" | "priceOf">,
): Spending {
  const spent = spendAll(policies.limitsFor(policy, phone.tats), phone.tats, now);
  if (!spent.allowed) return { allowed: false, decided: rateLimited(spent) };
  const named = limitKeys.length === 0 ? undefined : spendNamed(limitKeys, phone.limitTats ?? [], now);
  if (named?.allowed === false) return { allowed: false, decided: limitReached(named) };
  const caps = capsOf(verification.tenant, { region: verification.region, channel }, policy);
  const counted = countAll(days, { caps, price: () => priceOf?.(verification, channel) }, now);
  if (!counted.counted) return { allowed: false, decided: spendLimited(counted) };
  const { tatsMs } = spent;
  const { taken, reached } = counted;
  const writes = { tats: tatsMs, ...(named && { limitTats: named.tats }), ...counted.writes };
  return { allowed: true, tatsMs, taken, shares: { reached }, writes };
}

/** The latest message of a verification, by a channel, with what it has taken of the day. Pure. */
export function owedMessage(verification: Verification, channel: Channel, now: Instant, taken: Taken): Message {
  const { id, expireMs } = verification;
  const deadlineMs = expireMs - policies.sendLifeMinMs;
  return newMessage({ verificationId: id, copy: latestCopy(verification), channel, now, deadlineMs, ...taken });
}

// ---- denials -----------------------------------------------------------------------------------------------------------

/** Refuses for a phone's limits. Nothing is spent; TATs that were too far ahead are corrected. */
export function rateLimited({ retryAfterMs, tatsMs }: { retryAfterMs: number; tatsMs?: readonly Instant[] }) {
  const result = refused("PHONE_RATE_LIMITED", { field: "phone", retryAfterMs });
  return tatsMs === undefined ? nothing(result) : { writes: { tats: tatsMs }, result };
}

/** Refuses for a limit that the send names, as `rateLimited` does for the phone's. */
export function limitReached({ refusal, tats }: Extract<ReturnType<typeof spendNamed>, { allowed: false }>) {
  const result = { kind: "refused", refusal } as const;
  return tats === undefined ? nothing(result) : { writes: { limitTats: tats }, result };
}

/** Refuses for the prefix, if the guard enforces. Only the refusal is counted. */
export function prefixRefused(judgment: Judgment | undefined, policy: Policy) {
  if (judgment === undefined || judgment.kind === "admitted" || policy.fraudGuard === "observe") return undefined;
  const result =
    judgment.kind === "blocked"
      ? refused("DESTINATION_BLOCKED", { field: "phone" })
      : refused("PHONE_RATE_LIMITED", { field: "phone", retryAfterMs: judgment.retryAfterMs });
  return { writes: { prefix: judgment.change }, result };
}

/** Refuses for a cap of the day. Nothing is spent. */
export function spendLimited({ refusal, writes, reached }: Extract<Counted, { counted: false }>) {
  return { writes, result: { kind: "refused", refusal, reached } as const };
}
