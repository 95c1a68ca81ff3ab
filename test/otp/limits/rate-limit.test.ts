import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { available, giveBack, giveBackAll, spend, spendAll, type Limit } from "../../../src/otp/limits/rate-limit.ts";
import { dayMs, hourMs, minuteMs } from "../../support/data/examples.ts";
import { testEpochMs as now } from "../../support/service/system.ts";

const limit: Limit = { burst: 5, intervalMs: 10 * minuteMs };
const fullAt = now + limit.burst * limit.intervalMs;

/** Takes from a bucket at each of these moments, in order, and says whether that was allowed. */
function decisions(of: Limit, times: readonly number[]): boolean[] {
  let tatMs = 0;
  return times.map((at) => {
    const spent = spend(of, tatMs, at);
    if (spent.allowed) tatMs = spent.tatMs;
    return spent.allowed;
  });
}

/** The moments at which taking was allowed. */
function admitted(of: Limit, times: readonly number[]): number[] {
  const allowed = decisions(of, times);
  return times.filter((_, i) => allowed[i]);
}

const limits = fc.record({
  burst: fc.integer({ min: 1, max: 8 }),
  intervalMs: fc.integer({ min: 1, max: 5_000 }),
});
/** Waits between calls: many none, many short, some longer than a whole refill. */
const waits = fc.array(
  fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 900 }), fc.integer({ min: 0, max: 50_000 })),
  {
    minLength: 1,
    maxLength: 60,
  },
);
const timesOf = (gaps: readonly number[]) => {
  let at = now;
  return gaps.map((gap) => (at += gap));
};

describe("a limit bounds every window", () => {
  test("from any one message to any later one, at most burst and one more per interval", () => {
    fc.assert(
      fc.property(limits, waits, (of, gaps) => {
        const times = admitted(of, timesOf(gaps));
        // The oracle counts: every window that could be too full begins and ends with a message.
        for (const [i, from] of times.entries()) {
          for (const [j, to] of times.slice(i).entries()) {
            expect(j + 1).toBeLessThanOrEqual(of.burst + Math.floor((to - from) / of.intervalMs));
          }
        }
      }),
      { seed: 1, numRuns: 500 },
    );
  });

  test("and refuses nothing that the bound has room for", () => {
    fc.assert(
      fc.property(limits, waits, (of, gaps) => {
        const asked = timesOf(gaps);
        const allowed: number[] = [];
        const byOracle = asked.map((at) => {
          const hasRoom = [...allowed, at].every(
            (from, i) => allowed.length + 1 - i <= of.burst + Math.floor((at - from) / of.intervalMs),
          );
          if (hasRoom) allowed.push(at);
          return hasRoom;
        });
        expect(decisions(of, asked)).toEqual(byOracle);
      }),
      { seed: 2, numRuns: 500 },
    );
  });

  test("5@10m and 6@4h together let a phone have 12 messages in any 24 hours, and no more", () => {
    const both = [limit, { burst: 6, intervalMs: 4 * hourMs }];
    let tatsMs = [0, 0];
    const sent: number[] = [];
    for (let at = now; at <= now + 3 * dayMs; at += minuteMs) {
      const spent = spendAll(both, tatsMs, at);
      if (!spent.allowed) continue;
      tatsMs = spent.tatsMs;
      sent.push(at);
    }
    const inDay = sent.map((from) => sent.filter((at) => at >= from && at <= from + dayMs).length);
    expect(Math.max(...inDay)).toBe(12);
    expect(sent.filter((at) => at === now)).toHaveLength(1);
  });
});

describe("a full bucket", () => {
  test("allows its burst at once, and then one per interval", () => {
    const times = [now, now, now, now, now, now, now + limit.intervalMs - 1, now + limit.intervalMs];
    expect(admitted(limit, times)).toEqual([now, now, now, now, now, now + limit.intervalMs]);
  });

  test("is as full after a year as after one refill", () => {
    expect(available(limit, 0, now)).toBe(5);
    expect(available(limit, now, now)).toBe(5);
    expect(available(limit, now - 365 * dayMs, now)).toBe(5);
  });

  test("takes a cost of its whole burst, and no more than that", () => {
    expect(spend(limit, 0, now, 5)).toEqual({ allowed: true, tatMs: fullAt });
    expect(spend(limit, 0, now, 6)).toMatchObject({ allowed: false, retryAfterMs: limit.intervalMs });
  });
});

describe("a denied call", () => {
  test("says how long to wait: a millisecond earlier is denied still, then it succeeds", () => {
    fc.assert(
      fc.property(limits, fc.integer({ min: 0, max: 100_000 }), fc.integer({ min: 1, max: 8 }), (of, ahead, cost) => {
        fc.pre(cost <= of.burst);
        const spent = spend(of, now + ahead, now, cost);
        fc.pre(!spent.allowed);
        expect(spent.retryAfterMs).toBeGreaterThan(0);
        expect(spend(of, spent.tatMs, now + spent.retryAfterMs - 1, cost).allowed).toBe(false);
        expect(spend(of, spent.tatMs, now + spent.retryAfterMs, cost).allowed).toBe(true);
      }),
      { seed: 3, numRuns: 300 },
    );
  });

  test("spends nothing: a thousand of them push the next allowed one back by nothing", () => {
    const patient = admitted(limit, [now, now, now, now, now, now + limit.intervalMs]);
    const impatient = Array.from({ length: 1_000 }, (_, i) => now + 1 + i);
    expect(admitted(limit, [now, now, now, now, now, ...impatient, now + limit.intervalMs])).toEqual(patient);
  });

  test("by one limit takes nothing from the others, and waits for the slowest", () => {
    const both = [limit, { burst: 1, intervalMs: hourMs }, { burst: 1, intervalMs: dayMs }];
    const first = spendAll(both, [0, 0, 0], now);
    expect(first).toEqual({ allowed: true, tatsMs: [now + limit.intervalMs, now + hourMs, now + dayMs] });
    expect(spendAll(both, [now + limit.intervalMs, now + hourMs, now + dayMs], now + minuteMs)).toEqual({
      allowed: false,
      retryAfterMs: dayMs - minuteMs,
    });
    expect(spendAll(both, [now + limit.intervalMs, now + hourMs, now], now + minuteMs)).toEqual({
      allowed: false,
      retryAfterMs: hourMs - minuteMs,
    });
  });
});

describe("a bucket from a clock that was ahead, or from a limit that was wider", () => {
  test.each([
    ["an hour", hourMs],
    ["a day", dayMs],
    ["thirty years", 30 * 365 * dayMs],
  ])("%s ahead is empty, and refills from the first call on", (_, aheadMs) => {
    let tatMs = fullAt + aheadMs;
    const allowed: number[] = [];
    for (let at = now; at <= now + hourMs; at += minuteMs) {
      const spent = spend(limit, tatMs, at);
      tatMs = spent.tatMs;
      if (spent.allowed) allowed.push(at - now);
    }
    expect(allowed).toEqual([1, 2, 3, 4, 5, 6].map((n) => n * limit.intervalMs));
  });

  test("is corrected by a denied call, in its own place alone", () => {
    const both = [limit, { burst: 1, intervalMs: hourMs }, { burst: 2, intervalMs: dayMs }];
    const tatsMs = [fullAt + dayMs, now + hourMs, now + dayMs];
    expect(spendAll(both, tatsMs, now)).toEqual({
      allowed: false,
      retryAfterMs: hourMs,
      tatsMs: [fullAt, now + hourMs, now + dayMs],
    });
  });

  test("is left as it is when a denied call finds nothing to correct", () => {
    expect(spendAll([limit], [fullAt], now)).toEqual({ allowed: false, retryAfterMs: limit.intervalMs });
  });

  test("is never more than full", () => {
    expect(available(limit, now + minuteMs, now - dayMs)).toBe(0);
    expect(available(limit, 0, now - dayMs)).toBe(5);
  });

  test("is not opened by giving back more than one at a time", () => {
    expect(available(limit, giveBack(limit, fullAt + dayMs, now, 1), now)).toBe(1);
  });
});

describe("giving back", () => {
  test("undoes a spending", () => {
    fc.assert(
      fc.property(limits, fc.integer({ min: 0, max: 100_000 }), (of, ahead) => {
        const tatMs = now + ahead;
        const spent = spend(of, tatMs, now);
        fc.pre(spent.allowed);
        expect(giveBack(of, spent.tatMs, now, 1)).toBe(tatMs);
      }),
      { seed: 4, numRuns: 300 },
    );
  });

  test("never makes a bucket fuller than full, however much is given", () => {
    fc.assert(
      fc.property(limits, fc.integer({ min: -100_000, max: 100_000 }), fc.nat(50), (of, ahead, count) => {
        const before = available(of, now + ahead, now);
        const after = available(of, giveBack(of, now + ahead, now, count), now);
        expect(after).toBe(Math.min(of.burst, before + count));
      }),
      { seed: 5, numRuns: 300 },
    );
  });

  test("of nothing changes nothing that counts", () => {
    expect(giveBack(limit, now + minuteMs, now, 0)).toBe(now + minuteMs);
    expect(available(limit, giveBack(limit, 0, now, 0), now)).toBe(5);
  });

  test("goes to every limit", () => {
    const both = [limit, { burst: 6, intervalMs: 4 * hourMs }];
    const spent = spendAll(both, [0, 0], now);
    expect(spent.allowed).toBe(true);
    expect(giveBackAll(both, [now + 3 * limit.intervalMs, now + 12 * hourMs], now, 2)).toEqual([
      now + limit.intervalMs,
      now + 4 * hourMs,
    ]);
  });
});
