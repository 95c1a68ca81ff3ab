/**
 * The pumping guard: whether a prefix takes messages that nobody asked for. Pumping is sending to numbers whose traffic
 * somebody is paid for. Nobody types those codes, so a prefix whose sends do not verify gives it away.
 *
 * A prefix is a number without its last four digits: 10,000 numbers, of one tenant. Its sends are judged in disjoint
 * blocks of 30 in the order they were sent, once all 30 have ended, verified or not. Judging outcomes as they arrive
 * would be wrong in every rush: successes come within seconds and failures ten minutes later, so the last 30 outcomes
 * of a busy hour are all failures. 3 verified or fewer trip the prefix for an hour, doubled with every trip until a
 * block passes, to a day at most. After that 3 probes are let through, and their outcomes decide.
 *
 * What is sent before anything is known must be bounded too. A prefix that has not proven itself takes `10@60s`; and
 * since its block began any prefix takes 35 sends, and three more for every verified one past the third. So pumping
 * gets 35 sends, and with a prefix that was proven the fallbacks of these.
 *
 * What the guard keeps tells little of when: the limit counts in whole minutes, and all else is in whole seconds. So
 * nobody can lay a row of it beside the one verification that was written in the same millisecond.
 */
import { hourMs, minuteMs, secondMs, type Instant } from "../../system.ts";
import type { E164 } from "../phone-number.ts";
import { giveBack, spend, type Limit } from "./rate-limit.ts";
import type { State } from "../state.ts";

export type GuardMode = "observe" | "enforce";

/** What a verification's outcome counts for: nothing, the block (or round of probes) it is one of, or what is beyond it. */
export type Tally = "none" | "block" | "beyond";

export const blockSends = 30;
/** With so many verified, or fewer, a block trips its prefix. */
export const tripVerifiedMax = 3;
/** With so many verified a block proves its prefix, which then has no limit by time; with so few it takes that back. */
export const provenVerifiedMin = 10;
const unprovenVerifiedMax = 5;
export const probesMax = 3;
/** Sends since the block began, while no more than `tripVerifiedMax` of them are verified. */
export const unverifiedSendsMax = 35;
/** Conversion above a third earns what it sends: each verified send past the third makes room for so many. */
const sendsPerVerified = 3;
/** Of a prefix that has not proven itself. Both are whole minutes. */
export const unprovenLimit: Limit = { burst: 10, intervalMs: 60_000 };

const tripMsMax = 24 * hourMs;
/** Every send has its outcome by then: a life of 10 minutes, a minute until the next sweep, and some room. */
export const endsWithinMs = 15 * minuteMs;
/** A prefix without sends for so long is a new one, and a decision so old is forgotten. */
export const prefixMemoryMs = 30 * 24 * hourMs;
/** Decisions that are kept of one prefix. */
export const decisionsMax = 100;

export interface PrefixRecord {
  readonly phase: "open" | "tripped" | "half-open";
  /** Sends of the block under way, 0 to 30, or probes of the round, 0 to 3; how many have ended, and were verified. */
  readonly sent: number;
  readonly ended: number;
  readonly verified: number;
  /** Sends since the block began that are not of it: those after its 30th, resends, and fallbacks where it is not proven. */
  readonly beyondSent: number;
  readonly beyondVerified: number;
  /** Whether its latest blocks converted well. */
  readonly proven: boolean;
  /** Trips since a block last passed. */
  readonly trips: number;
  /** Outcomes of earlier sends do not count. */
  readonly sinceMs: Instant;
  /** The end of a trip; 0 when there is none. */
  readonly untilMs: Instant;
  readonly tatMs: Instant;
  /** The minute of its latest send. */
  readonly lastMs: Instant;
  /** Sends that it refused, or would have, since the latest decision but a half-opening. */
  readonly refused: number;
  /** The minutes of the first and the latest of them; 0 when there is none. */
  readonly refusedFirstMs: Instant;
  readonly refusedLastMs: Instant;
}

/** `limited` is the first send that an open prefix has no room for since the decision before, a half-opening apart. */
export type DecisionKind = "passed" | "tripped" | "half-opened" | "tripped-again" | "closed" | "unblocked" | "limited";

/** A decision about a prefix, with the numbers it used. */
export interface PrefixDecision {
  readonly kind: DecisionKind;
  readonly atMs: Instant;
  readonly ended: number;
  readonly verified: number;
  /** Sends refused since the decision before. */
  readonly refused: number;
  /** Until when a trip lasts; null for other kinds. */
  readonly untilMs: Instant | null;
  /** False when it refuses nothing: the guard observes. */
  readonly enforced: boolean;
}

/** True for a decision that blocks the prefix. Pure. */
export function isTrip({ kind }: PrefixDecision): boolean {
  return kind === "tripped" || kind === "tripped-again";
}

/** True for one that ends the count of what is refused, so that the next decision's count has nothing of it. Pure. */
export function endsCount({ kind }: PrefixDecision): boolean {
  return kind !== "half-opened" && kind !== "limited";
}

/** The new form of a prefix's record, and the decisions that made it so. */
export interface PrefixChange {
  readonly record: PrefixRecord;
  readonly decisions: readonly PrefixDecision[];
}

export type Judgment =
  | { readonly kind: "admitted"; readonly tally: Tally; readonly change: PrefixChange }
  | { readonly kind: "blocked"; readonly change: PrefixChange }
  | { readonly kind: "limited"; readonly retryAfterMs: number; readonly change: PrefixChange };

const cleanBlock = { sent: 0, ended: 0, verified: 0, beyondSent: 0, beyondVerified: 0 };
const noneRefused = { refused: 0, refusedFirstMs: 0, refusedLastMs: 0 };

export const newPrefix: PrefixRecord = {
  phase: "open",
  ...cleanBlock,
  proven: false,
  trips: 0,
  sinceMs: 0,
  untilMs: 0,
  tatMs: 0,
  lastMs: 0,
  ...noneRefused,
};

export function prefixOf(e164: E164): string {
  return e164.slice(0, -4);
}

/** How many sends a prefix takes from the beginning of a block, when so many of them were verified. Pure. */
export function allowance(verified: number): number {
  return unverifiedSendsMax + sendsPerVerified * Math.max(0, verified - tripVerifiedMax);
}

/** True once nothing of a record matters any more. Pure. */
export function isPrefixForgettable(record: PrefixRecord, now: Instant): boolean {
  return now - record.lastMs >= prefixMemoryMs && now >= record.untilMs;
}

/** Judges a send: `admitted` with what it counts for, `blocked` while tripped, or `limited`. Pure. */
export function judgeSend(loaded: PrefixRecord, now: Instant, mode: GuardMode): Judgment {
  const record = recall(loaded, now);
  if (record.phase === "open") {
    const paid = pay(record, now, mode);
    if ("kind" in paid) return paid;
    const isOfBlock = record.sent < blockSends;
    const next = isOfBlock ? { ...paid, sent: record.sent + 1 } : { ...paid, beyondSent: record.beyondSent + 1 };
    return { kind: "admitted", tally: isOfBlock ? "block" : "beyond", change: changed(noted(next, now)) };
  }
  if (now < record.untilMs || record.sent >= probesMax)
    return { kind: "blocked", change: changed(refusing(record, now)) };
  const probe = { ...record, sent: record.sent + 1 };
  if (record.phase === "half-open") return { kind: "admitted", tally: "block", change: changed(noted(probe, now)) };
  const decision = decide("half-opened", record, now, mode);
  const opened: PrefixRecord = { ...probe, phase: "half-open", untilMs: 0, sinceMs: startOfSecond(now) };
  return { kind: "admitted", tally: "block", change: changed(noted(opened, now), decision) };
}

/** Judges a resend, which costs what a send does and is of no block; none is a probe. Pure. */
export function judgeResend(loaded: PrefixRecord, now: Instant, mode: GuardMode): Judgment {
  const record = recall(loaded, now);
  if (record.phase !== "open") return { kind: "blocked", change: changed(refusing(record, now)) };
  const paid = pay(record, now, mode);
  if ("kind" in paid) return paid;
  return { kind: "admitted", tally: "none", change: changed({ ...paid, beyondSent: record.beyondSent + 1 }) };
}

/**
 * Judges a message by fallback, which is of no block. A prefix that has proven itself takes it for nothing: verified sends make room
 * for sends, and honest ones that go on by themselves would need more than that. Else it costs what a resend does. Pure.
 */
export function judgeFallback(loaded: PrefixRecord, now: Instant, mode: GuardMode): Judgment {
  const record = recall(loaded, now);
  const isFree = record.phase === "open" && record.proven;
  return isFree ? { kind: "admitted", tally: "none", change: changed(record) } : judgeResend(loaded, now, mode);
}

/** The verification that ended, as far as it matters here. */
export interface Ended {
  readonly state: State;
  readonly tally: Tally;
  readonly createMs: Instant;
}

/**
 * Counts the outcome of a send, whose verification has just ended; to be called once for each. Undefined when it changes
 * nothing. One that FAILED has never left, and counts as not sent. Pure.
 */
export function recordOutcome(
  record: PrefixRecord,
  ended: Ended,
  now: Instant,
  mode: GuardMode,
): PrefixChange | undefined {
  const { tally, state, createMs } = ended;
  if (tally === "none" || record.phase === "tripped" || createMs < record.sinceMs) return undefined;
  const isVerified = state === "VERIFIED";
  if (state === "FAILED") return withdraw(record, tally, now);
  if (tally === "beyond") {
    if (!isVerified || record.beyondVerified >= record.beyondSent) return undefined;
    return changed({ ...record, beyondVerified: record.beyondVerified + 1 });
  }
  if (record.ended >= record.sent) return undefined;
  const next = { ...record, ended: record.ended + 1, verified: record.verified + (isVerified ? 1 : 0) };
  if (record.phase === "half-open") {
    if (isVerified) {
      // Probes whose outcome is still to come are the first sends of the clean block.
      const clean = { ...cleanBlock, sent: next.sent - next.ended };
      return changed({ ...next, phase: "open", ...clean, ...noneRefused }, decide("closed", next, now, mode));
    }
    return next.ended < probesMax ? changed(next) : trip("tripped-again", next, now, mode);
  }
  if (next.ended < blockSends) return changed(next);
  if (next.verified <= tripVerifiedMax) return trip("tripped", next, now, mode);
  const proven = next.verified >= provenVerifiedMin || (record.proven && next.verified > unprovenVerifiedMax);
  const decision = decide("passed", next, now, mode);
  return changed({ ...next, ...cleanBlock, ...noneRefused, trips: 0, proven }, decision);
}

/** Lifts a trip, with a clean block and the trips forgotten. Undefined when the prefix is not tripped. Pure. */
export function unblock(loaded: PrefixRecord, now: Instant, mode: GuardMode): PrefixChange | undefined {
  const record = recall(loaded, now);
  if (record.phase === "open") return undefined;
  const decision = decide("unblocked", record, now, mode);
  const { lastMs } = record;
  return changed({ ...newPrefix, lastMs, sinceMs: startOfSecond(now) }, decision);
}

/**
 * A record as it counts now. After a long silence it is a new one. Sends whose outcomes have not come in time (after a
 * restore, say) are taken out, so that no block waits for them for ever. Pure.
 */
export function recall(record: PrefixRecord, now: Instant): PrefixRecord {
  if (isPrefixForgettable(record, now)) return newPrefix;
  const isLate = now - record.lastMs >= endsWithinMs;
  if (record.phase === "tripped" || !isLate || (record.sent === record.ended && record.beyondSent === 0)) return record;
  return { ...record, sent: record.ended, beyondSent: 0, beyondVerified: 0, sinceMs: startOfSecond(now) };
}

/** Takes a message's price from an open prefix, or says how long it has to wait. */
function pay(
  record: PrefixRecord,
  now: Instant,
  mode: GuardMode,
): PrefixRecord | Extract<Judgment, { kind: "limited" }> {
  const limited = (retryAfterMs: number, tatMs: Instant) => {
    const next = refusing({ ...record, tatMs }, now);
    const told = record.refused === 0 ? [decide("limited", next, now, mode)] : [];
    return { kind: "limited", retryAfterMs, change: changed(next, ...told) } as const;
  };
  if (record.sent + record.beyondSent >= allowance(record.verified + record.beyondVerified)) {
    return limited(record.lastMs + endsWithinMs - now, record.tatMs);
  }
  if (record.proven) return record;
  const minute = startOfMinute(now);
  const spending = spend(unprovenLimit, record.tatMs, minute);
  if (!spending.allowed) return limited(spending.retryAfterMs - (now - minute), spending.tatMs);
  return { ...record, tatMs: spending.tatMs };
}

function withdraw(record: PrefixRecord, tally: Tally, now: Instant): PrefixChange {
  const counts =
    tally === "block"
      ? { sent: Math.max(record.ended, record.sent - 1) }
      : { beyondSent: Math.max(record.beyondVerified, record.beyondSent - 1) };
  const tatMs = giveBack(unprovenLimit, record.tatMs, startOfMinute(now), 1);
  return changed({ ...record, ...counts, tatMs });
}

function trip(kind: "tripped" | "tripped-again", record: PrefixRecord, now: Instant, mode: GuardMode): PrefixChange {
  const trips = record.trips + 1;
  const untilMs = startOfSecond(now) + Math.min(tripMsMax, hourMs * 2 ** (trips - 1));
  const decision = { ...decide(kind, record, now, mode), untilMs };
  const { lastMs, sinceMs } = record;
  return changed({ ...newPrefix, phase: "tripped", trips, untilMs, lastMs, sinceMs }, decision);
}

function decide(kind: DecisionKind, record: PrefixRecord, now: Instant, mode: GuardMode): PrefixDecision {
  const { ended, verified, refused } = record;
  return { kind, atMs: startOfSecond(now), ended, verified, refused, untilMs: null, enforced: mode === "enforce" };
}

function changed(record: PrefixRecord, ...decisions: PrefixDecision[]): PrefixChange {
  return { record, decisions };
}

/** Notes that a send was let through. A clock that was set back must not make it one from before. */
function noted(record: PrefixRecord, now: Instant): PrefixRecord {
  return { ...record, lastMs: startOfMinute(now), sinceMs: Math.min(record.sinceMs, startOfSecond(now)) };
}

function refusing(record: PrefixRecord, now: Instant): PrefixRecord {
  const minute = startOfMinute(now);
  const refusedFirstMs = record.refused === 0 ? minute : record.refusedFirstMs;
  return { ...record, refused: record.refused + 1, refusedFirstMs, refusedLastMs: minute };
}

function startOfSecond(now: Instant): Instant {
  return now - (now % secondMs);
}

function startOfMinute(now: Instant): Instant {
  return now - (now % minuteMs);
}
