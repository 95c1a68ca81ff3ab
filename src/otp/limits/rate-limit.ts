/**
 * Rate limits by GCRA, the generic cell rate algorithm. A limit is written `burst@interval`, such as `5@10m`: a full
 * bucket allows 5 at once, and one more every 10 minutes. All that is stored of a bucket is one moment, the theoretical
 * arrival time (TAT): a bucket is full once its TAT has passed, and each spending moves the TAT one interval on. In any
 * window W at most `burst + floor(W / interval)` get through.
 *
 * An empty row and a full bucket are the same thing, so old rows can be deleted once their TAT has passed.
 */
import type { Instant } from "../../system.ts";

export interface Limit {
  /** How many at once, 1 or more. */
  readonly burst: number;
  /** One more every so many milliseconds. */
  readonly intervalMs: number;
}

/** What one address may do. */
export interface AddressLimits {
  /** Sends and resends that led to a message. */
  readonly sends: Limit;
  /** All other calls; and sends and resends with a publishable key, whatever comes of them. */
  readonly calls: Limit;
}

export type SpendResult =
  | { readonly allowed: true; readonly tatMs: Instant }
  /** `tatMs` is the bucket's own, or what has to be stored instead of one that was too far ahead. */
  | { readonly allowed: false; readonly retryAfterMs: number; readonly tatMs: Instant };

/** Tries to take `cost` (1 to burst) from a bucket whose TAT is `tatMs` (0 for a new one). Changes nothing. Pure. */
export function spend(limit: Limit, tatMs: Instant, now: Instant, cost = 1): SpendResult {
  const from = effectiveTat(limit, tatMs, now);
  const next = from + cost * limit.intervalMs;
  const latest = now + limit.burst * limit.intervalMs;
  return next <= latest ? { allowed: true, tatMs: next } : { allowed: false, retryAfterMs: next - latest, tatMs: from };
}

/** Gives `count` back to a bucket; never fuller than full. Pure. */
export function giveBack(limit: Limit, tatMs: Instant, now: Instant, count: number): Instant {
  return Math.max(now, effectiveTat(limit, tatMs, now) - count * limit.intervalMs);
}

/**
 * Takes one from the bucket of every limit, or from none: `tatsMs` are their TATs in the limits' order, 0 for a new one.
 * When refused, the wait is the longest that any of them asks for. Then `tatsMs` are there only if one was too far ahead:
 * storing them spends nothing, and lets that bucket begin to refill. Pure.
 */
export function spendAll(
  limits: readonly Limit[],
  tatsMs: readonly Instant[],
  now: Instant,
):
  | { readonly allowed: true; readonly tatsMs: Instant[] }
  | { readonly allowed: false; readonly retryAfterMs: number; readonly tatsMs?: Instant[] } {
  const spent: Instant[] = [];
  const unspent: Instant[] = [];
  let retryAfterMs = 0;
  let isCorrected = false;
  for (const [i, limit] of limits.entries()) {
    const tatMs = tatsMs[i] ?? 0;
    const spending = spend(limit, tatMs, now);
    spent.push(spending.tatMs);
    unspent.push(spending.allowed ? tatMs : spending.tatMs);
    if (spending.allowed) continue;
    retryAfterMs = Math.max(retryAfterMs, spending.retryAfterMs);
    isCorrected ||= spending.tatMs !== tatMs;
  }
  if (retryAfterMs === 0) return { allowed: true, tatsMs: spent };
  return isCorrected ? { allowed: false, retryAfterMs, tatsMs: unspent } : { allowed: false, retryAfterMs };
}

/** From when on `spendAll` would take one, if nothing is spent or stored until then: maybe a moment long past. Pure. */
export function spendableFrom(limits: readonly Limit[], tatsMs: readonly Instant[]): Instant {
  let from = 0;
  for (const [i, { burst, intervalMs }] of limits.entries()) {
    from = Math.max(from, (tatsMs[i] ?? 0) - (burst - 1) * intervalMs);
  }
  return from;
}

/** Gives `count` back to the bucket of every limit. Pure. */
export function giveBackAll(
  limits: readonly Limit[],
  tatsMs: readonly Instant[],
  now: Instant,
  count: number,
): Instant[] {
  return limits.map((limit, i) => giveBack(limit, tatsMs[i] ?? 0, now, count));
}

/** How many a bucket would allow at once now. Pure. */
export function available(limit: Limit, tatMs: Instant, now: Instant): number {
  return Math.floor((now + limit.burst * limit.intervalMs - effectiveTat(limit, tatMs, now)) / limit.intervalMs);
}

/**
 * A TAT further ahead than an empty bucket's comes from a clock that jumped, or a limit that was wider before. The bucket
 * counts as empty from when that is noticed and stored, so it is never stuck for longer than its burst takes to refill.
 */
function effectiveTat(limit: Limit, tatMs: Instant, now: Instant): Instant {
  return Math.min(Math.max(tatMs, now), now + limit.burst * limit.intervalMs);
}
