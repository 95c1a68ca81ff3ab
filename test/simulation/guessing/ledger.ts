/**
 * What was sent to one phone by one lane, held against its limits in every window of the whole run: between any two
 * sendings at most `burst + floor(time / interval)`, and what was given back. The same rule as budget.ts, checked once at
 * the end, since a year of sendings has two million windows.
 */
import type { Limit } from "../../../src/otp/limits/rate-limit.ts";
import { hold } from "../violation.ts";

export class Ledger {
  readonly #lanes = new Map<string, { readonly at: number[]; readonly count: number[] }>();

  /** Notes a message (1) or one that was given back (-1). */
  note(lane: string, at: number, count: 1 | -1): void {
    const entries = this.#lanes.get(lane) ?? { at: [], count: [] };
    entries.at.push(at);
    entries.count.push(count);
    this.#lanes.set(lane, entries);
  }

  /** Throws for the first window with more messages than its limit. Returns how many windows it looked at. */
  inspect(limits: readonly Limit[]): number {
    let windows = 0;
    for (const [lane, entries] of this.#lanes) {
      for (const { burst, intervalMs } of limits) windows += inspectLane(lane, entries, burst, intervalMs);
    }
    return windows;
  }
}

function inspectLane(
  lane: string,
  { at, count }: { readonly at: readonly number[]; readonly count: readonly number[] },
  burst: number,
  intervalMs: number,
): number {
  let windows = 0;
  for (let end = 0; end < at.length; end++) {
    if (count[end] !== 1) continue;
    let net = 0;
    for (let start = end; start >= 0; start--) {
      net += count[start] ?? 0;
      const forMs = (at[end] ?? 0) - (at[start] ?? 0);
      windows += 1;
      if (net > burst + Math.floor(forMs / intervalMs)) {
        hold(false, "limits", `${net} SMS by ${lane} in ${forMs} ms, at ${burst}@${intervalMs}ms`);
      }
    }
  }
  return windows;
}
