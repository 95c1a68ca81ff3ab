/**
 * The resends that a verification has left: what callers are promised, and what a resend is granted by.
 */
import type { Instant } from "../system.ts";
import { limitsFor, sendLifeMinMs, type Policy } from "./policy.ts";
import { spendableFrom, spendAll } from "./rate-limit.ts";
import { stateAt, type Verification } from "./verification.ts";

/** The resends that a verification may still have. */
export interface ResendsLeft {
  readonly count: number;
  /** When the next one may be asked for, which may be past; null without one. */
  readonly nextMs: Instant | null;
}

const noResends: ResendsLeft = { count: 0, nextMs: null };

/**
 * Counts the resends that are left, each asked for as soon as its gap and the phone's limits, of which `tatsMs` are the
 * TATs, allow it: one that would come with too little of the lifetime left does not count. Without TATs the limits are left
 * out. Callers are told waits in whole seconds, so a second that is begun counts as one that is over. Pure.
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
    atMs += wholeSeconds(Math.max(0, dueMs - atMs));
    const spent = spendAll(limits, tats, atMs);
    if (atMs > lastMs || !spent.allowed) break;
    nextMs ??= dueMs;
    count += 1;
    tats = spent.tatsMs;
    gapEndMs = atMs + (policy.resendGapsMs[resends + count] ?? 0);
  }
  return { count, nextMs };
}

function wholeSeconds(ms: number): number {
  return Math.ceil(ms / 1000) * 1000;
}
