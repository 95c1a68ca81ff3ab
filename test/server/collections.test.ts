/**
 * The more a collection of what strangers left behind has to go through, the longer it is until the next one: thousands of idle
 * connections make each one long, and calls wait for it.
 */
import { execFile } from "node:child_process";
import { constants } from "node:perf_hooks";
import { promisify } from "node:util";
import { expect, test } from "vitest";

/** Leaves much behind with each turn of a process whose collections take long, and tells when they began and how long they took. */
const leaving = `
  import { PerformanceObserver } from "node:perf_hooks";
  import { setImmediate as nextTurn } from "node:timers/promises";
  import { leftBehind } from ${JSON.stringify(new URL("../../src/server/listener/heap.ts", import.meta.url).href)};
  const kept = [];
  const collections = [];
  const isForced = ({ detail }) => detail.flags === ${constants.NODE_PERFORMANCE_GC_FLAGS_FORCED};
  const count = (entries) => collections.push(...entries.filter(isForced).map(({ startTime, duration }) => [startTime, duration]));
  new PerformanceObserver((list) => count(list.getEntries())).observe({ entryTypes: ["gc"] });
  const tookMs = () => collections.at(-1)?.[1] ?? 0;
  while (tookMs() < 50) {
    kept.push(Array.from({ length: 50_000 }, (_, n) => ({ n })));
    leftBehind(8_388_608);
    await nextTurn();
  }
  const first = collections.length - 1;
  while (collections.length < first + 4) {
    leftBehind(8_388_608);
    await nextTurn();
  }
  console.log(JSON.stringify(collections.slice(first)));
  // Kept until now.
  process.exit(kept.length > 0 ? 0 : 1);
`;

test("the whole heap is not collected again before a mean wait of 10 ms allows it, or a fifth of the time", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", leaving]);
  const collections = JSON.parse(stdout) as [number, number][];
  expect(collections.length).toBeGreaterThanOrEqual(4);
  const tooSoon = collections.slice(1).filter(([startMs], i) => {
    const [beganMs, tookMs] = collections[i] ?? [0, 0];
    // Timers may be early by a millisecond or two.
    return startMs - beganMs < 0.9 * Math.min(tookMs ** 2 / 20, 5 * tookMs);
  });
  expect(tooSoon).toEqual([]);
});
