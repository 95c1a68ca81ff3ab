/**
 * How well the pumping guard tells pumping from people, over 1,000 seeds: the real rules on modelled traffic. What is
 * demanded is asserted; what is only reported is printed, and stands in docs/decisions.md.
 */
import { describe, expect, test } from "vitest";
import { unverifiedSendsMax } from "../../../src/otp/limits/pumping-guard.ts";
import { seededRandom, testEpochMs } from "../../support/service/system.ts";
import { Traffic } from "./pumping-model.ts";

const seeds = 1_000;
const minute = 60_000;

/** How a pump sends: as fast as it is let through, steadily, or in rushes. */
const pumps: Record<string, (traffic: Traffic, conversion: number) => void> = {
  "as fast as it is let through": (traffic, conversion) => {
    while (traffic.send(conversion)) if (traffic.sent > 500) return;
    traffic.advance(10_000);
  },
  "once in 70 s": (traffic, conversion) => {
    traffic.send(conversion);
    traffic.advance(70_000);
  },
  "eight at a time": (traffic, conversion) => {
    for (let i = 0; i < 8; i++) traffic.send(conversion);
    traffic.advance(7 * minute);
  },
};

/** Sends that a pump gets before the first trip, for each seed; Infinity after a day without one. */
function pumped(
  pump: (traffic: Traffic, conversion: number) => void,
  conversion: number,
  before = noTraffic,
): number[] {
  return Array.from({ length: seeds }, (_, seed) => {
    const traffic = new Traffic(seededRandom(seed + 1), testEpochMs);
    before(traffic);
    const [sentBefore, endMs] = [traffic.sent, traffic.now + 24 * 60 * minute];
    while (!traffic.isTripped() && traffic.now < endMs) pump(traffic, conversion);
    return (traffic.sentAtTrip ?? Number.POSITIVE_INFINITY) - sentBefore;
  });
}

const noTraffic: (traffic: Traffic) => void = () => {};

const shareWithin = (sends: readonly number[], most: number) => sends.filter((count) => count <= most).length / seeds;

describe("pumping", () => {
  test.each(Object.keys(pumps).flatMap((name) => [0, 0.01, 0.02].map((conversion) => [name, conversion] as const)))(
    "%s at a conversion of %d is blocked within 35 sends a prefix in 99 % of the seeds and more",
    (name, conversion) => {
      const sends = pumped(pumps[name] ?? noTraffic, conversion);
      expect(shareWithin(sends, unverifiedSendsMax)).toBeGreaterThanOrEqual(0.99);
    },
  );

  test("at 5 % is blocked so often, as told", () => {
    const shares = Object.entries(pumps).map(([name, pump]) => {
      const sends = pumped(pump, 0.05);
      return `${name}: ${(100 * shareWithin(sends, unverifiedSendsMax)).toFixed(1)} % within 35 sends, ${(100 * shareWithin(sends, 1e9)).toFixed(1)} % within a day`;
    });
    console.log(`pumping at 5 %: ${shares.join("; ")}`);
    expect(shares).toHaveLength(3);
  });

  test("of a prefix that was good is blocked within 35 sends of a new block, and of one under way within 130", () => {
    const good = (traffic: Traffic) => traffic.arrive(8 * 60 * minute, 1, 0.7);
    const pump = pumps["as fast as it is let through"] ?? noTraffic;
    const sends = pumped(pump, 0, good);
    const sorted = sends.toSorted((a, b) => a - b);
    console.log(`pumping of a good prefix: median ${sorted[500]}, 99 % ${sorted[989]}, most ${sorted.at(-1)} sends`);
    expect(Math.max(...sends)).toBeLessThanOrEqual(130);
    const fresh = pumped(pump, 0, (traffic) => {
      good(traffic);
      const passed = traffic.count("passed");
      while (traffic.count("passed") === passed) traffic.arrive(1_000, 2, 0.7);
    });
    expect(shareWithin(fresh, unverifiedSendsMax)).toBeGreaterThanOrEqual(0.99);
  });
});

describe("people", () => {
  const kinds: readonly (readonly [name: string, conversion: number, live: (traffic: Traffic, c: number) => void])[] = [
    0.4, 0.5, 0.6, 0.8,
  ].flatMap((conversion) => [
    [`one in two minutes at ${conversion}`, conversion, (t, c) => t.arrive(10 * 60 * minute, 0.5, c)] as const,
    [
      `rushes of ten minutes and silence at ${conversion}`,
      conversion,
      (t, c) => {
        for (let i = 0; i < 6; i++) {
          t.arrive(10 * minute, 6, c);
          t.advance(40 * minute);
        }
      },
    ] as const,
  ]);

  test("trip at most one block in a thousand at 40 to 80 %, rushes and all", () => {
    const lines: string[] = [];
    for (const [name, conversion, live] of kinds) {
      const total = { trips: 0, blocks: 0, refused: 0, sent: 0 };
      for (let seed = 1; seed <= seeds; seed++) {
        const traffic = new Traffic(seededRandom(seed + 77_000), testEpochMs);
        live(traffic, conversion);
        total.trips += traffic.count("tripped");
        total.blocks += traffic.count("tripped") + traffic.count("passed");
        total.refused += traffic.refused;
        total.sent += traffic.sent;
      }
      const share = total.trips / total.blocks;
      const limited = (100 * total.refused) / (total.refused + total.sent);
      lines.push(`${name}: ${total.trips} of ${total.blocks} blocks, ${limited.toFixed(2)} % of sends limited`);
      expect(total.blocks, name).toBeGreaterThan(4_000);
      expect(share, name).toBeLessThanOrEqual(1e-3);
    }
    console.log(lines.join("\n"));
  });
});
