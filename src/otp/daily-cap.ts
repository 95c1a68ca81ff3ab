/**
 * The daily cap: how many messages of a tenant may go on a provider's bill in one UTC day. Every message is counted when it
 * is owed, in the transaction that owes it. A further call for a message that may have reached the phone is another SMS, and
 * is counted when it is claimed; so is one that was counted on a day that is over. A message that is proven never to have
 * left is taken out of the count while the day lasts.
 */
import type { Instant } from "../system.ts";
import type { Message } from "./message.ts";
import { dayMs, dayOf, type Policy } from "./policy.ts";
import { isSandbox } from "./sandbox.ts";

/** A share of the cap, in percent, that operators are warned of. */
export type Share = 80 | 100;

/** What is kept of a tenant's day. */
export interface DailyCount {
  /** The UTC day's number since the epoch. */
  readonly day: number;
  /** Messages counted. */
  readonly count: number;
  /** The highest share that was warned of; 0 for none. */
  readonly warned: Share | 0;
  /** The highest cap that was warned under; 0 for none, or where a version before this was kept has warned. */
  readonly warnedCap: number;
}

/** What came of counting a message; at the cap it is not counted. `share` is to be warned of once what is written is durable. */
export type Counting =
  | { readonly counted: true; readonly day: number | null; readonly daily?: DailyCount; readonly share?: Share }
  | { readonly counted: false; readonly retryAfterMs: number; readonly daily?: DailyCount; readonly share?: Share };

/** The cap that holds for a tenant; undefined for none. Nothing leaves the sandbox, so nothing of it counts. Pure. */
export function dailyMaxOf(tenant: string, policy: Policy): number | undefined {
  return isSandbox(tenant) ? undefined : policy.dailyMessagesMax;
}

/** A day of which nothing is kept yet. Pure. */
export function newDay(now: Instant): DailyCount {
  return { day: dayOf(now), count: 0, warned: 0, warnedCap: 0 };
}

/** Counts a message if the cap has room for it; without a cap (`max` undefined) nothing is counted. Pure. */
export function countMessage(daily: DailyCount | undefined, max: number | undefined, now: Instant): Counting {
  if (max === undefined) return { counted: true, day: null };
  if (daily === undefined || daily.day !== dayOf(now)) throw new Error("under a cap the view has the day's count");
  const isLeft = daily.count < max;
  const count = isLeft ? daily.count + 1 : daily.count;
  const share = shareOf(count, max);
  const isNew = share > warnedOf(daily, max);
  const noted: DailyCount = isNew
    ? { day: daily.day, count, warned: share, warnedCap: Math.max(max, daily.warnedCap) }
    : { ...daily, count };
  const reached = isNew && share !== 0 ? { share } : {};
  if (isLeft) return { counted: true, day: daily.day, daily: noted, ...reached };
  // At the cap nothing is left to write, unless the cap was lowered below what is counted and nobody was warned.
  return {
    counted: false,
    retryAfterMs: (daily.day + 1) * dayMs - now,
    ...(isNew ? { daily: noted } : {}),
    ...reached,
  };
}

/** The highest share that was warned of under a cap, or under a higher one. */
function warnedOf({ warned, warnedCap }: DailyCount, max: number): Share | 0 {
  // Nobody has been warned under a cap that was raised. Only the highest cap counts as raised: while the instances of a
  // rollout have two caps, each would otherwise warn anew after every warning of the other.
  return warnedCap > 0 && max > warnedCap ? 0 : warned;
}

/** The count that is the next to be warned of, or the cap: below it a message is counted, and that is all. Pure. */
export function nextNotable(daily: DailyCount, max: number): number {
  return warnedOf(daily, max) === 0 ? Math.ceil((max * 80) / 100) : max;
}

/** A share of the daily cap that was reached just now. */
export interface SpendWarning {
  readonly share: Share;
  readonly cap: number;
}

/** What it adds to the writes of a decision that a message was counted, or was not. Pure. */
export function dailyOf(
  { daily, share }: Counting,
  cap: number | undefined,
): { daily?: DailyCount; warned?: SpendWarning } {
  if (daily === undefined) return {};
  return share === undefined || cap === undefined ? { daily } : { daily, warned: { share, cap } };
}

/** True for a message that is in the count of today, which it leaves if it is never sent. Pure. */
export function isCountedToday(message: Message, now: Instant): boolean {
  return message.countedDay === dayOf(now);
}

/** The day without one of the messages that it counted. Pure. */
export function uncounted(daily: DailyCount): DailyCount {
  return { ...daily, count: Math.max(0, daily.count - 1) };
}

/**
 * True if the next call for a message that is about to be claimed is counted already. That of a waiting one is, unless its
 * calls so far used it up; one that was in another worker's hand may have been sent. Pure.
 */
export function isNextCallCounted(message: Message, now: Instant): boolean {
  return message.delivery === "QUEUED" && message.countedDay === dayOf(now);
}

function shareOf(count: number, max: number): Share | 0 {
  if (count >= max) return 100;
  return count * 100 >= max * 80 ? 80 : 0;
}
