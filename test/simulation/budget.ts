/**
 * The budget of SMS per phone, kept as a list of what was spent and given back instead of as buckets: in any window W
 * that ends with a spending, at most `burst + floor(W / interval)` were spent, and what was given back within it.
 */
import type { Limit } from "../../src/otp/limits/rate-limit.ts";
import { hold } from "./violation.ts";

interface Entry {
  readonly at: number;
  /** 1 for a message, negative for what was given back. */
  readonly count: number;
}

const dayMs = 86_400_000;
/** How many sends a phone gets back a day for requests it verified. */
const refundsPerDayMax = 10;

export class Budget {
  readonly #limits: () => readonly Limit[];
  readonly #entries = new Map<string, Entry[]>();
  readonly #refunds = new Map<string, number[]>();

  constructor(limits: () => readonly Limit[]) {
    this.#limits = limits;
  }

  spend(phone: string, lane: string, now: number): void {
    const entries = this.#of(lane);
    entries.push({ at: now, count: 1 });
    for (const { burst, intervalMs } of this.#limits()) {
      let spent = 0;
      let back = 0;
      for (const entry of entries.toReversed()) {
        if (entry.count > 0) spent += entry.count;
        else back -= entry.count;
        const most = burst + Math.floor(Math.max(0, now - entry.at) / intervalMs) + back;
        hold(spent <= most, "I10", `${spent} SMS to ${phone} in ${now - entry.at} ms, at ${burst}@${intervalMs}ms`);
      }
    }
  }

  /** A request of `messages` SMS was verified. */
  verified(phone: string, lane: string, now: number, messages: number): void {
    const today = (this.#refunds.get(phone) ?? []).filter((at) => at > now - dayMs);
    const count = Math.min(messages, refundsPerDayMax - today.length);
    this.#refunds.set(phone, [...today, ...Array<number>(count).fill(now)]);
    if (count > 0) this.#of(lane).push({ at: now, count: -count });
  }

  /** A message was proven never to have left. */
  unsent(lane: string, now: number): void {
    this.#of(lane).push({ at: now, count: -1 });
  }

  /** The service's clock lost so much of the time that really passed: what it noted before is that much longer ago. */
  lost(ms: number): void {
    for (const [lane, entries] of this.#entries) {
      this.#entries.set(
        lane,
        entries.map(({ at, count }) => ({ at: at - ms, count })),
      );
    }
  }

  /** The limits were configured anew: what was spent under the old ones says nothing about a window that begins now. */
  reset(): void {
    this.#entries.clear();
  }

  #of(lane: string): Entry[] {
    const entries = this.#entries.get(lane) ?? [];
    this.#entries.set(lane, entries);
    return entries;
  }
}
