/**
 * Whether our clock agrees with a provider's: codes expire by ours, and a signed report is valid only near the time of its
 * signature.
 */
import type { Finding } from "../provider.ts";

/** Date headers have whole seconds and take a while to arrive; a larger difference is the clock's. */
const skewMaxMs = 30_000;

/** Compares the Date header of a provider's answer with `now` in milliseconds. Says nothing without a readable one. */
export function clockFindings(provider: string, date: string | undefined, now: number): Finding[] {
  const theirs = Date.parse(date ?? "");
  if (Number.isNaN(theirs)) return [];
  const skewMs = now - theirs;
  if (Math.abs(skewMs) <= skewMaxMs) return [{ ok: true, sentence: `The clock agrees with ${provider}'s.` }];
  const skew = `${Math.round(Math.abs(skewMs) / 1_000)} s ${skewMs > 0 ? "ahead of" : "behind"}`;
  return [{ ok: false, sentence: `The clock is ${skew} ${provider}'s: set it by NTP.` }];
}
