/**
 * The daily cap: how much of a tenant's may go on a provider's bill in one UTC day, as one count; spending.ts has which
 * counts there are. Every message is counted in the transaction that owes it. A further call for a message that may
 * have reached the phone is another SMS, and counts when it is claimed; so does a message that was counted on an
 * earlier day. A call that is proven never to have left is taken out of the count while the day lasts.
 */
import { dayMs, type Instant } from "../../system.ts";
import type { Channel } from "../channel.ts";
import { dayOf } from "./policy.ts";

/** A share of the cap, in percent, that operators are warned of. */
export type Share = 80 | 100;

/** What is kept of a tenant's day. */
export interface DailyCount {
  /** The UTC day's number since the epoch. */
  readonly day: number;
  /** What is counted: messages, or millionths of a currency. */
  readonly count: number;
  /** The highest share that was warned of; 0 for none. */
  readonly warned: Share | 0;
  /** The highest cap that was warned under; 0 for none, or where a version before this was kept has warned. */
  readonly warnedCap: number;
}

/** What came of counting a message; at the cap it is not counted. `share` is to be warned of once what is written is durable. */
export type Counting =
  | { readonly counted: true; readonly daily: DailyCount; readonly share?: Share }
  | { readonly counted: false; readonly retryAfterMs: number; readonly daily?: DailyCount; readonly share?: Share };

/** A day of which nothing is kept yet. Pure. */
export function newDay(now: Instant): DailyCount {
  return { day: dayOf(now), count: 0, warned: 0, warnedCap: 0 };
}

/** Counts an amount if the cap has room for all of it. Pure. */
export function countMessage(daily: DailyCount | undefined, max: number, now: Instant, amount = 1): Counting {
  if (daily === undefined || daily.day !== dayOf(now)) throw new Error("under a cap the view has the day's count");
  const isLeft = daily.count + amount <= max;
  const count = isLeft ? daily.count + amount : daily.count;
  const share = isLeft ? shareOf(count, max) : 100;
  const isNew = share > warnedOf(daily, max);
  const noted: DailyCount = isNew
    ? { day: daily.day, count, warned: share, warnedCap: Math.max(max, daily.warnedCap) }
    : { ...daily, count };
  const reached = isNew && share !== 0 ? { share } : {};
  if (isLeft) return { counted: true, daily: noted, ...reached };
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
  return warnedOf(daily, max) === 0 ? Math.ceil((max * 4) / 5) : max;
}

/** What is counted of a day, each by itself: messages, those to one country, and millionths of the prices' currency. */
export type CountKind = "messages" | "calls" | `country:${string}` | "spend";

/** A tenant's counts of one day, by what they count. */
export type Days = ReadonlyMap<CountKind, DailyCount>;

/** A share of a cap that was reached just now. */
export interface SpendWarning {
  readonly share: Share;
  /** Messages; or millionths, where there is a currency. */
  readonly cap: number;
  readonly currency?: string;
  /** Of the cap on one country's messages: which. */
  readonly country?: string;
  /** Of the cap on one channel's messages: which. */
  readonly channel?: Channel;
}

/** The day without an amount that it counted. Pure. */
export function uncounted(daily: DailyCount, amount: number): DailyCount {
  return { ...daily, count: Math.max(0, daily.count - amount) };
}

function shareOf(count: number, max: number): Share | 0 {
  if (count >= max) return 100;
  // Of money there may be so much that a hundred times it is no whole number any more.
  return count * 5 >= max * 4 ? 80 : 0;
}
