/**
 * What every message that is newly owed has to pass, whichever way it came to be owed: the phone's prefix, the phone's
 * limits, the daily cap. And what it is then: a message in its worker's hand, of a verification, with what was spent on it.
 */
import type { Instant } from "../system.ts";
import type { Channel } from "./channel.ts";
import { countMessage, dailyMaxOf, dailyOf, type Share } from "./daily-cap.ts";
import { limitReached, rateLimited, spendLimited } from "./denial.ts";
import type { IdempotencyClaim } from "./idempotency.ts";
import { newMessage, type Message } from "./message.ts";
import { spendNamed, type LimitKey } from "./named-limit.ts";
import * as policies from "./policy.ts";
import type { Policy } from "./policy.ts";
import type { Judgment, PrefixRecord } from "./pumping-guard.ts";
import { spendAll } from "./rate-limit.ts";
import type { Refusal } from "./reason.ts";
import type { CallView } from "./standing.ts";
import type { Verification } from "./verification.ts";
import type { Decided, PhoneView, Writes } from "./writes.ts";

/** What a send is decided by, beside what is asked. */
export interface SendTerms {
  readonly claim: IdempotencyClaim | undefined;
  readonly policy: Policy;
  /** What the limits outside the store have to say, if they refuse. */
  readonly limited?: Refusal | undefined;
  /** The tenant's limits that the send names. */
  readonly limitKeys?: readonly LimitKey[];
}

/** A message that is owed from now on, in its worker's hand. `share` of the daily cap is to be warned of. */
export interface Owed {
  readonly verification: Verification;
  readonly message: Message;
  readonly now: Instant;
  /** The TATs of the phone's buckets, this message spent. */
  readonly tatsMs: readonly Instant[];
  readonly share?: Share | undefined;
}

export interface Refused {
  readonly kind: "refused";
  readonly refusal: Refusal;
  readonly share?: Share | undefined;
}

/** Whether the guard judges a send: not one to a number that the operator allows. */
export function isJudged<View extends CallView>(view: View): view is View & { readonly prefix: PrefixRecord } {
  return view.prefix !== undefined && view.verdict !== "allow";
}

export function prefixChangeOf(judgment: Judgment | undefined): Pick<Writes, "prefix"> {
  return judgment === undefined ? {} : { prefix: judgment.change };
}

/** What a message spends: of its phone's limits, of those that its send names, and of the daily cap. */
export type Spending =
  | {
      readonly allowed: true;
      /** The TATs of the phone's buckets, this message spent. */
      readonly tatsMs: readonly Instant[];
      readonly day: number | null;
      readonly share: Share | undefined;
      readonly writes: Pick<Writes, "tats" | "limitTats" | "daily" | "warned">;
    }
  /** Nothing is spent. */
  | { readonly allowed: false; readonly decided: Decided<Refused> };

/**
 * Spends what one message of a tenant costs, or says why it may not be. In order: the phone's limits, those that are named,
 * the daily cap. Pure.
 */
export function spendFor(
  { now, phone, daily }: Pick<CallView, "now" | "daily"> & { readonly phone: PhoneView },
  tenant: string,
  policy: Policy,
  limitKeys: readonly LimitKey[] = [],
): Spending {
  const spent = spendAll(policies.limitsFor(policy, phone.tats), phone.tats, now);
  if (!spent.allowed) return { allowed: false, decided: rateLimited(spent) };
  const named = spendNamed(limitKeys, phone.limitTats ?? [], now);
  if (!named.allowed) return { allowed: false, decided: limitReached(named) };
  const cap = dailyMaxOf(tenant, policy);
  const counting = countMessage(daily, cap, now);
  if (!counting.counted) return { allowed: false, decided: spendLimited(counting, cap) };
  const { tatsMs } = spent;
  const { day, share } = counting;
  const limitTats = limitKeys.length === 0 ? {} : { limitTats: named.tats };
  return { allowed: true, tatsMs, day, share, writes: { tats: tatsMs, ...limitTats, ...dailyOf(counting, cap) } };
}

/** The latest message of a verification, by a channel, counted under the daily cap on `day`. Pure. */
export function owedMessage(
  { id, resends, expireMs }: Verification,
  channel: Channel,
  now: Instant,
  day: number | null,
): Message {
  const deadlineMs = expireMs - policies.sendLifeMinMs;
  return newMessage({ verificationId: id, copy: resends, channel, now, deadlineMs, countedDay: day });
}
