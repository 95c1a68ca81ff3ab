/**
 * What a newly owed message has to pass, and what it takes, be it owed by a send, a resend or a fallback:
 *
 *   the phone's prefix · the phone's limits · the named limits of its send · its tenant's UTC day
 *
 * Of the day it takes one of the daily cap, one of its country's cap, and its price of the cap on money. It takes all of
 * these or none, in the transaction that owes it. A message notes what it took of its day for its next call, or the one under
 * way. If that is proven not to leave, it gives exactly that back, while the day lasts (daily-cap.ts has the rules of one count).
 */
import { dayMs, type Instant } from "../../system.ts";
import type { Channel } from "../channel.ts";
import {
  countMessage,
  uncounted,
  type CountKind,
  type DailyCount,
  type Days,
  type SpendWarning,
} from "../verification/daily-cap.ts";
import { newMessage, type Message } from "../message/message.ts";
import { dayOf, limitsFor, sendLifeMinMs, type Policy } from "../verification/policy.ts";
import { refuse, type Refusal } from "../reason.ts";
import { isSandbox } from "../message/sandbox.ts";
import { latestCopy, type Verification } from "../verification/verification.ts";
import { nothing, type Decided, type PhoneView, type Writes } from "./writes.ts";
import type { IdempotencyClaim } from "../verification/idempotency.ts";
import { spendNamed, type LimitKey } from "../limits/named-limit.ts";
import type { GuardMode, Judgment, PrefixRecord, Tally } from "../limits/pumping-guard.ts";
import { spendAll } from "../limits/rate-limit.ts";
import { refused, type CallView } from "./standing.ts";

/** A cap on a tenant's day. */
export interface Cap {
  readonly kind: CountKind;
  readonly max: number;
  /** Of money: which. */
  readonly currency?: string;
}

/** What a message has taken of a day: the counts that it is in, for its next call or the one under way. */
export type Taken = Pick<Message, "countedDay" | "countryDay" | "reserved">;

const nothingTaken: Taken = { countedDay: null, countryDay: null, reserved: null };

const countryPrefix = "country:";
export const countryKind = (region: string): CountKind => `${countryPrefix}${region}`;

/** Where a message goes, and how. */
export interface MessageRoute {
  readonly region: string;
  readonly channel: Channel;
}

/**
 * The caps that hold for a tenant's messages to a country by a channel. Nothing leaves the sandbox, so nothing of it counts.
 * Pure.
 */
export function capsOf(tenant: string, { region, channel }: MessageRoute, policy: Policy): readonly Cap[] {
  if (isSandbox(tenant)) return [];
  const { dailyMessagesMax, dailySpend, dailyVoiceMax: callsMax } = policy;
  const countryMax = policy.countryCaps?.get(region);
  return [
    ...(dailyMessagesMax === undefined ? [] : [{ kind: "messages" as const, max: dailyMessagesMax }]),
    ...(callsMax === undefined || channel !== "voice" ? [] : [{ kind: "calls" as const, max: callsMax }]),
    ...(countryMax === undefined ? [] : [{ kind: countryKind(region), max: countryMax }]),
    ...(dailySpend === undefined ? [] : [{ kind: "spend" as const, ...dailySpend }]),
  ];
}

/** Every cap on a tenant's day, over all countries and channels. Pure. */
export function capsOfPolicy({ dailyMessagesMax, dailyVoiceMax, countryCaps, dailySpend }: Policy): readonly Cap[] {
  return [
    ...(dailyMessagesMax === undefined ? [] : [{ kind: "messages" as const, max: dailyMessagesMax }]),
    ...(dailyVoiceMax === undefined ? [] : [{ kind: "calls" as const, max: dailyVoiceMax }]),
    ...[...(countryCaps ?? [])].map(([region, max]) => ({ kind: countryKind(region), max })),
    ...(dailySpend === undefined ? [] : [{ kind: "spend" as const, ...dailySpend }]),
  ];
}

/** What a count is of, besides a tenant's day: one country's messages, or one channel's. Pure. */
export function subjectOf(kind: CountKind): Pick<SpendWarning, "country" | "channel"> {
  if (kind === "calls") return { channel: "voice" };
  return kind.startsWith(countryPrefix) ? { country: kind.slice(countryPrefix.length) } : {};
}

/** Shares of caps that were reached, which operators are warned of. */
export interface SpendWarnings {
  /** Absent where there are none. */
  readonly reached?: readonly SpendWarning[] | undefined;
}

/** What came of counting a message. Refused, it takes nothing; what is written then is that operators were warned. */
export type Counted = SpendWarnings & {
  readonly writes: Pick<Writes, "days" | "warned">;
} & ({ readonly counted: true; readonly taken: Taken } | { readonly counted: false; readonly refusal: Refusal });

/** Tells what the next message of a verification may cost at most, in millionths; undefined where that is not known. Pure. */
export type PriceOf = (verification: Verification, channel: Channel) => number | undefined;

/** What a message is counted by. */
export interface Bill {
  readonly caps: readonly Cap[];
  /** What it may cost at most, in millionths; undefined where that is not known. Asked only under a cap on money. */
  readonly price: () => number | undefined;
}

/** Counts a message under every cap of its bill, or under none; `before` is what it has taken already. Pure. */
export function countAll(days: Days | undefined, { caps, price }: Bill, now: Instant, before = nothingTaken): Counted {
  const counts = new Map<CountKind, DailyCount>();
  const reached: SpendWarning[] = [];
  let taken = before;
  for (const cap of caps) {
    const { kind, max } = cap;
    if (isTaken(before, kind, now)) continue;
    const amount = kind === "spend" ? price() : 1;
    // Of what nobody knows the price of, nobody can say that it fits.
    if (amount === undefined) return { counted: false, refusal: spendLimit(kind, nextDayMs(now)), writes: {} };
    // Waiting would change nothing.
    if (max === 0 && kind.startsWith(countryPrefix)) return { counted: false, refusal: closedCountry, writes: {} };
    const counting = countMessage(days?.get(kind), max, now, amount);
    // A cap of 0 is reached by nothing that happens.
    const warning = counting.share === undefined || max === 0 ? undefined : warningOf(counting.share, cap);
    if (!counting.counted) {
      const refusal = spendLimit(kind, counting.retryAfterMs);
      if (warning === undefined || counting.daily === undefined) return { counted: false, refusal, writes: {} };
      const noted = new Map([[kind, counting.daily]]);
      return { counted: false, refusal, writes: { days: noted, warned: [warning] }, reached: [warning] };
    }
    if (warning !== undefined) reached.push(warning);
    if (counting.daily !== undefined) counts.set(kind, counting.daily);
    taken = { ...taken, ...takenOf(kind, dayOf(now), amount) };
  }
  const written = counts.size === 0 ? {} : { days: counts };
  if (reached.length === 0) return { counted: true, taken, writes: written };
  return { counted: true, taken, writes: { ...written, warned: reached }, reached };
}

function warningOf(share: SpendWarning["share"], { kind, max, currency }: Cap): SpendWarning {
  return { share, cap: max, ...(currency === undefined ? {} : { currency }), ...subjectOf(kind) };
}

function takenOf(kind: CountKind, day: number, amount: number): Partial<Taken> {
  // A call is in the count of calls if it is in any.
  if (kind === "messages" || kind === "calls") return { countedDay: day };
  return kind === "spend" ? { reserved: { day, amount } } : { countryDay: day };
}

function isTaken({ countedDay, countryDay, reserved }: Taken, kind: CountKind, now: Instant): boolean {
  const day = kind === "messages" || kind === "calls" ? countedDay : kind === "spend" ? reserved?.day : countryDay;
  return day === dayOf(now);
}

/**
 * What a message that is about to be claimed has taken for its next call. What a waiting message has taken still
 * counts, unless its calls so far used it up. A message that was in another worker's hand may have been sent, and is
 * counted anew. Pure.
 */
export function takenForNextCall(message: Message): Taken {
  return message.delivery === "QUEUED" ? takenBy(message) : nothingTaken;
}

/** What a message holds of a day. Pure. */
export function takenBy({ countedDay, countryDay, reserved }: Message): Taken {
  return { countedDay, countryDay, reserved };
}

/** A message, as far as the counts are told by it. */
type CountedMessage = Taken & Pick<Message, "channel">;

/** The counts that a message is in, of whatever day. Pure. */
export function kindsOf({ countedDay, countryDay, reserved, channel }: CountedMessage, region: string): CountKind[] {
  return [
    ...(countedDay === null ? [] : ["messages" as const]),
    ...(countedDay === null || channel !== "voice" ? [] : ["calls" as const]),
    ...(countryDay === null ? [] : [countryKind(region)]),
    ...(reserved === null ? [] : ["spend" as const]),
  ];
}

/** What a message may give back of a day that is not over, by what it is in. Pure. */
export function givenBack(message: CountedMessage, region: string, now: Instant): ReadonlyMap<CountKind, number> {
  const back = new Map<CountKind, number>();
  for (const kind of kindsOf(message, region)) {
    if (isTaken(message, kind, now)) back.set(kind, kind === "spend" ? (message.reserved?.amount ?? 0) : 1);
  }
  return back;
}

/** The days without what a message gives back. Pure. */
function withGivenBack(days: Days, back: ReadonlyMap<CountKind, number>): Days {
  return new Map([...days].map(([kind, daily]) => [kind, uncounted(daily, back.get(kind) ?? 0)]));
}

/**
 * A message that is not called for any more, and whose last call did not leave: without what that had taken, and with the
 * counts of the day that change by it. Pure.
 */
export function withPlaceBack(
  message: Message,
  { days, now, verification }: Pick<CallView, "days" | "now"> & { readonly verification: Verification },
): { readonly message: Message; readonly writes: Pick<Writes, "days"> } {
  const back = givenBack(message, verification.region, now);
  const changed = [...(days ?? [])].filter(([kind]) => back.has(kind));
  const writes = changed.length === 0 ? {} : { days: withGivenBack(new Map(changed), back) };
  return { message: { ...message, ...nothingTaken }, writes };
}

function nextDayMs(now: Instant): number {
  return (dayOf(now) + 1) * dayMs - now;
}

const { refusal: closedCountry } = refuse("COUNTRY_NOT_ALLOWED", { field: "phone" });

/** SPEND_LIMIT, which says of whose cap it is. */
function spendLimit(kind: CountKind, retryAfterMs: number): Refusal {
  if (kind === "messages") return refuse("SPEND_LIMIT", { retryAfterMs }).refusal;
  if (kind === "spend") {
    const message = "The daily cap on what messages cost is reached.";
    return refuse("SPEND_LIMIT", { retryAfterMs, message, metadata: { cap: "spend" } }).refusal;
  }
  if (kind === "calls") {
    const message = "The daily cap on calls is reached. Other channels may have room.";
    return refuse("SPEND_LIMIT", { retryAfterMs, message, metadata: { cap: "calls" } }).refusal;
  }
  const country = kind.slice(countryPrefix.length);
  const message = "The daily cap on messages to this country is reached.";
  return refuse("SPEND_LIMIT", { field: "phone", retryAfterMs, message, metadata: { cap: "country", country } })
    .refusal;
}

// ---- owing the next message ------------------------------------------------------------------------------------------

/** What a send is decided by, beside what is asked. */
export interface SendTerms {
  readonly claim: IdempotencyClaim | undefined;
  readonly policy: Policy;
  /** What the limits outside the store have to say, if they refuse. */
  readonly limited?: Refusal | undefined;
  /** These limits would refuse, had the guard refused nothing before. */
  readonly isBeyond?: boolean | undefined;
  /** The tenant's limits that the send names. */
  readonly limitKeys?: readonly LimitKey[];
  /** Needed under a cap on money. */
  readonly priceOf?: PriceOf | undefined;
}

/** A message that is owed from now on, in its worker's hand. Shares of caps that it reached are to be warned of. */
export interface Owed extends SpendWarnings {
  readonly verification: Verification;
  readonly message: Message;
  readonly now: Instant;
  /** The TATs of the phone's buckets, this message spent. */
  readonly tatsMs: readonly Instant[];
}

export interface Refused extends SpendWarnings {
  readonly kind: "refused";
  readonly isByGuard?: boolean;
  readonly refusal: Refusal;
}

/** What the pumping guard says of a message: what it counts for at its prefix, or how it is refused. */
export type Guarded =
  | { readonly admitted: true; readonly tally: Tally; readonly writes: Pick<Writes, "prefix"> }
  /** Only the refusal is counted. */
  | { readonly admitted: false; readonly decided: Decided<Refused> };

/**
 * Asks the guard by `judge` about a send or a resend; not about one to a number that the operator allows. What the limits
 * would not have let through without a guard is not counted as refused by it. Pure.
 */
export function askGuard(
  { now, prefix, verdict }: CallView,
  judge: (record: PrefixRecord, now: Instant, mode: GuardMode) => Judgment,
  { policy: { fraudGuard: mode }, limited, isBeyond = false }: Pick<SendTerms, "policy" | "limited" | "isBeyond">,
): Guarded {
  if (prefix === undefined || verdict === "allow") return { admitted: true, tally: "none", writes: {} };
  const judgment = judge(prefix, now, mode);
  const writes = { prefix: judgment.change };
  if (judgment.kind === "admitted") return { admitted: true, tally: judgment.tally, writes };
  // A message that would have been refused does not count: a guard that observes sees what one that enforces would.
  if (mode === "observe") return { admitted: true, tally: "none", writes };
  const result =
    judgment.kind === "blocked"
      ? refused("DESTINATION_BLOCKED", { field: "phone" })
      : refused("PHONE_RATE_LIMITED", { field: "phone", retryAfterMs: judgment.retryAfterMs, message: ofPrefix });
  // The one by which it decides something of the prefix is, which operators are told.
  const isCounted = limited === undefined && (!isBeyond || judgment.change.decisions.length > 0);
  return { admitted: false, decided: { writes: isCounted ? writes : {}, result: { ...result, isByGuard: true } } };
}

const ofPrefix = "Too many messages to numbers that begin as this phone's does, and too few of them verified.";

/** What a message spends: of its phone's limits, of those that its send names, and of the caps of its tenant's day. */
export type Spending =
  | {
      readonly allowed: true;
      /** The TATs of the phone's buckets, this message spent. */
      readonly tatsMs: readonly Instant[];
      readonly taken: Taken;
      readonly warnings: SpendWarnings;
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
  const spent = spendAll(limitsFor(policy, phone.tats), phone.tats, now);
  if (!spent.allowed) return { allowed: false, decided: rateLimited(spent) };
  const named = limitKeys.length === 0 ? undefined : spendNamed(limitKeys, phone.limitTats ?? [], now);
  if (named?.allowed === false) return { allowed: false, decided: limitReached(named) };
  const caps = capsOf(verification.tenant, { region: verification.region, channel }, policy);
  const counted = countAll(days, { caps, price: () => priceOf?.(verification, channel) }, now);
  if (!counted.counted) return { allowed: false, decided: spendLimited(counted) };
  const { tatsMs } = spent;
  const { taken, reached } = counted;
  const writes = { tats: tatsMs, ...(named && { limitTats: named.tats }), ...counted.writes };
  return { allowed: true, tatsMs, taken, warnings: { reached }, writes };
}

/** The latest message of a verification, by a channel, with what it has taken of the day. Pure. */
export function owedMessage(verification: Verification, channel: Channel, now: Instant, taken: Taken): Message {
  const { id, expireMs } = verification;
  const deadlineMs = expireMs - sendLifeMinMs;
  return newMessage({ verificationId: id, copy: latestCopy(verification), channel, now, deadlineMs, ...taken });
}

// ---- refusals -----------------------------------------------------------------------------------------------------------

/** Refuses for a phone's limits. Nothing is spent; TATs that were too far ahead are corrected. */
function rateLimited({ retryAfterMs, tatsMs }: { retryAfterMs: number; tatsMs?: readonly Instant[] }) {
  const result = refused("PHONE_RATE_LIMITED", { field: "phone", retryAfterMs });
  return tatsMs === undefined ? nothing(result) : { writes: { tats: tatsMs }, result };
}

/** Refuses for a limit that the send names, as `rateLimited` does for the phone's. */
function limitReached({ refusal, tats }: Extract<ReturnType<typeof spendNamed>, { allowed: false }>) {
  const result = { kind: "refused", refusal } as const;
  return tats === undefined ? nothing(result) : { writes: { limitTats: tats }, result };
}

/** Refuses for a cap of the day. Nothing is spent. */
function spendLimited({ refusal, writes, reached }: Extract<Counted, { counted: false }>) {
  return { writes, result: { kind: "refused", refusal, reached } as const };
}
