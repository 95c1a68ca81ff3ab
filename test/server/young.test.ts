/**
 * The part of V8's heap for young objects grows again with the load once a collection at rest has made it small. Held where
 * it is then, it would be collected at every few calls.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const script = `
  import { getHeapSpaceStatistics } from "node:v8";
  import { boundHeap } from ${JSON.stringify(new URL("../../src/server/listener/heap.ts", import.meta.url).href)};
  const youngBytes = () => getHeapSpaceStatistics().find(({ space_name: name }) => name === "new_space").space_size;
  let isIdle = false;
  boundHeap(() => isIdle);
  const kept = [];
  const turn = () => new Promise((resolve) => setTimeout(resolve));
  // Some of it outlives a collection of the young, as calls under way do.
  async function work(isDone) {
    for (let i = 0; i < 20_000 && !isDone(); i += 1) {
      kept[i % 400] = Array.from({ length: 500 }, (_, n) => ({ n }));
      if (i % 20 === 0) await turn();
    }
    kept.length = 0;
  }
  await work(() => youngBytes() >= 33_554_432);
  const large = youngBytes();
  // Long enough to be looked at.
  const seenMs = performance.now() + 1_000;
  while (performance.now() < seenMs) await turn();
  isIdle = true;
  while (youngBytes() >= large / 2) await turn();
  const small = youngBytes();
  isIdle = false;
  await work(() => youngBytes() >= large / 2);
  console.log(JSON.stringify({ large, small, again: youngBytes() }));
  process.exit();
`;

test("the young part grows again after a collection at rest", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", script]);
  const { large, small, again } = JSON.parse(stdout) as Record<"large" | "small" | "again", number>;
  expect(large).toBe(33_554_432);
  expect(small).toBeLessThan(large / 2);
  expect(again).toBeGreaterThanOrEqual(large / 2);
});
