/**
 * What an operator decides about verifications, and what follows from it: the guess budget of a phone, by its history,
 * and the resends that a verification has left. The same figure is promised to callers and grants a resend.
 *
 * Lengthen, do not lock: if wrong guesses locked a number, anyone could lock anyone out. Instead the next codes get
 * longer: from 20 guesses on a code has 8 digits, and from 100 on 10, as far as the operator allows. Guesses are the
 * wrong codes of the last 90 days and the attempts still open on the phone's live requests; without the latter, all of
 * many requests that are opened first would be short. A success forgives the wrong codes of its own request only;
 * forgiving all of them would hand an attacker a fresh budget whenever the owner signs in.
 */
import { dayMs, secondMs, type Instant } from "../../system.ts";
import type { GuardMode } from "../limits/pumping-guard.ts";
import { spendableFrom, spendAll, type Limit } from "../limits/rate-limit.ts";
import { stateAt, type Verification } from "./verification.ts";

/** A cap on money. */
export interface DailySpend {
  /** In millionths, 1 or more. */
  readonly max: number;
  /** ISO 4217. */
  readonly currency: string;
}

export interface Policy {
  /** Digits of a code as long as nothing speaks for more: 6 to 10. */
  readonly codeLength: number;
  /** The most digits a code may be lengthened to: codeLength to 10. */
  readonly codeLengthMax: number;
  /** `lengthen` codes after wrong guesses, or be `strict`, NIST's letter: refuse sends to a number past 100 of them. */
  readonly guessPolicy: "lengthen" | "strict";
  /** Lifetime of a code, 180 000 to 600 000. */
  readonly ttlMs: number;
  /** Wrong codes until the lock, 1 to 10. */
  readonly attemptsMax: number;
  /** Waits before each resend; as many resends as entries, at most 5. */
  readonly resendGapsMs: readonly number[];
  /** Messages to one phone, every limit at once. 1 to 4 of them. */
  readonly phoneLimits: readonly Limit[];
  /** Countries served, ISO 3166-1 alpha-2, or undefined for all. */
  readonly allowedCountries: ReadonlySet<string> | undefined;
  /** Whether the pumping guard refuses what it finds, or only notes it. */
  readonly fraudGuard: GuardMode;
  /** Messages of a tenant in one UTC day, 1 to 100 000 000, or undefined for no cap. */
  readonly dailyMessagesMax: number | undefined;
  /** Calls of a tenant in one UTC day; undefined for no cap. */
  readonly dailyVoiceMax?: number | undefined;
  /** The same of its messages to some countries, 0 to 100 000 000 each. */
  readonly countryCaps?: ReadonlyMap<string, number> | undefined;
  /** What a tenant's messages of one UTC day may cost, and in which currency, or undefined for no cap. */
  readonly dailySpend?: DailySpend | undefined;
  /** How long a terminal verification stays readable, 24 to 2160 hours in milliseconds. */
  readonly retentionMs: number;
}

/** The phone limits that apply to so many buckets: all of them, or none where a phone has no buckets (the sandbox). Pure. */
export function limitsFor(policy: Policy, tatsMs: readonly Instant[]): readonly Limit[] {
  return policy.phoneLimits.slice(0, tatsMs.length);
}

/** A message is not sent, and a resend neither promised nor accepted, with less of the lifetime left than this. */
export const sendLifeMinMs = 60_000;
/** A fallback's message is owed with no less left, where that can be had: its providers' calls take their time. */
const fallbackLifeMinMs = sendLifeMinMs + 10_000;

/** The latest moment to owe a message by fallback. Pure. */
export function lastFallbackMs(expireMs: Instant): Instant {
  return expireMs - fallbackLifeMinMs;
}

/** How many of its messages a phone gets back in any 24 hours for requests it verified. */
export const refundsPerDayMax = 10;

const forgetDays = 90;

/** What is remembered of a phone. Empty for most. */
export interface PhoneHistory {
  /** Wrong codes by day: pairs of a day's number since the epoch and a count, oldest first; 90 days at most. */
  readonly wrongCodes: readonly (readonly [day: number, count: number])[];
  /** When messages were given back, in the last 24 hours, oldest first; at most 10. */
  readonly refunds: readonly Instant[];
}

export const emptyHistory: PhoneHistory = { wrongCodes: [], refunds: [] };

/** Counts the wrong codes of the last 90 days. Pure. */
export function wrongCodesOf(history: PhoneHistory, now: Instant): number {
  const oldest = dayOf(now) - forgetDays;
  let sum = 0;
  for (const [day, count] of history.wrongCodes) if (day > oldest) sum += count;
  return sum;
}

/** Remembers one more wrong code, and forgets those past their time. Pure. */
export function withWrongCode(history: PhoneHistory, now: Instant): PhoneHistory {
  const today = dayOf(now);
  const kept = history.wrongCodes.filter(([day]) => day > today - forgetDays && day !== today);
  const count = history.wrongCodes.find(([day]) => day === today)?.[1] ?? 0;
  return { ...history, wrongCodes: [...kept, [today, count + 1]] };
}

/** Forgives `count` wrong codes, the latest first: those of a request that was verified in the end. Pure. */
export function forgive(history: PhoneHistory, count: number): PhoneHistory {
  let left = count;
  const wrongCodes = history.wrongCodes.toReversed().map(([day, n]) => {
    const forgiven = Math.min(n, left);
    left -= forgiven;
    return [day, n - forgiven] as const;
  });
  return { ...history, wrongCodes: wrongCodes.filter(([, n]) => n > 0).toReversed() };
}

/** How many of `wanted` messages may still be given back today, and the history that remembers it. Pure. */
export function withRefunds(history: PhoneHistory, now: Instant, wanted: number): [count: number, PhoneHistory] {
  const recent = history.refunds.filter((at) => at > now - dayMs);
  // Histories merged from two master keys may hold more than ten between them.
  const count = Math.max(0, Math.min(wanted, refundsPerDayMax - recent.length));
  return [count, { ...history, refunds: [...recent, ...Array<Instant>(count).fill(now)] }];
}

/** True once nothing in a history can matter any more. Pure. */
export function isForgettable(history: PhoneHistory, now: Instant): boolean {
  return wrongCodesOf(history, now) === 0 && history.refunds.every((at) => at <= now - dayMs);
}

const lengthenFrom = 20;
const lengthenFurtherFrom = 100;
const strictGuessesMax = 100;

/**
 * How many digits the next code for a phone gets, or "refuse" under the strict policy once the code's own attempts
 * could take the phone past 100. `openAttempts` are those left on its live requests. Pure.
 */
export function nextCodeLength(
  policy: Policy,
  history: PhoneHistory,
  openAttempts: number,
  now: Instant,
): number | "refuse" {
  const guesses = wrongCodesOf(history, now) + openAttempts;
  if (policy.guessPolicy === "strict") {
    return guesses + policy.attemptsMax > strictGuessesMax ? "refuse" : policy.codeLength;
  }
  const digits = guesses >= lengthenFurtherFrom ? 10 : guesses >= lengthenFrom ? 8 : 0;
  return Math.max(policy.codeLength, Math.min(digits, policy.codeLengthMax));
}

/** The number of a moment's UTC day since the epoch. Pure. */
export function dayOf(now: Instant): number {
  return Math.floor(now / dayMs);
}

// ---- resends --------------------------------------------------------------------------------------------------------

/** The resends that a verification may still have. */
export interface ResendsLeft {
  readonly count: number;
  /** When the next one may be asked for, which may be past; null without one. */
  readonly nextMs: Instant | null;
}

const noResends: ResendsLeft = { count: 0, nextMs: null };

/**
 * Counts the resends that are left, if each is asked for as soon as its gap and the phone's limits allow. A resend that
 * would come with too little of the lifetime left does not count. `tatsMs` are the TATs of the limits; without them the
 * limits are left out. Callers are told waits in whole seconds, so a second that is begun counts as one that is over.
 * Pure.
 */
export function resendsLeft(
  verification: Verification,
  policy: Policy,
  now: Instant,
  tatsMs: readonly Instant[] = [],
): ResendsLeft {
  if (stateAt(verification, now) !== "PENDING") return noResends;
  const { resends, nextResendMs, expireMs } = verification;
  const limits = limitsFor(policy, tatsMs);
  const lastMs = expireMs - sendLifeMinMs;
  let [count, gapEndMs, atMs, tats] = [0, nextResendMs, now, tatsMs];
  let nextMs: Instant | null = null;
  while (resends + count < policy.resendGapsMs.length) {
    const dueMs = Math.max(gapEndMs, spendableFrom(limits, tats));
    atMs += Math.ceil(Math.max(0, dueMs - atMs) / secondMs) * secondMs;
    const spent = spendAll(limits, tats, atMs);
    if (atMs > lastMs || !spent.allowed) break;
    nextMs ??= dueMs;
    count += 1;
    tats = spent.tatsMs;
    gapEndMs = atMs + (policy.resendGapsMs[resends + count] ?? 0);
  }
  return { count, nextMs };
}
