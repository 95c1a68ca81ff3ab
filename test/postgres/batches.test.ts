/** How many transactions are under way at once, by how far the database is. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Batches } from "../../src/store/postgres/batches.ts";
import type { Connections } from "../../src/store/postgres/connections.ts";

// A batch that takes long is taken for one that waits for a lock: how long is up to the test.
beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => vi.useRealTimers());

/** Batches on connections whose transactions end when the test says so. */
function createBatches(roundTripMs: number) {
  const ends: (() => void)[] = [];
  const connections = {
    roundTripMs: () => roundTripMs,
    transact: () =>
      new Promise((resolve) => ends.push(() => resolve({ done: [{ ok: true, value: "done" }], decided: [] }))),
  } as unknown as Connections;
  const batches = new Batches(connections, { now: () => 0, heard: () => {} }, "one", {});
  return { ends, run: () => batches.run({ run: () => "done" }) };
}

test.each([
  ["nearby, one", 0.2, 1],
  ["in another rack, one", 1.5, 1],
  ["across a network, three", 5, 3],
])("where the database is %s is under way at a time", async (_, roundTripMs, most) => {
  const { ends, run } = createBatches(roundTripMs);
  for (let i = 0; i < 5; i += 1) {
    void run();
    await nextTurn();
    await nextTurn();
  }
  expect(ends).toHaveLength(most);
});

test("acts that came while one was under way share the next", async () => {
  const { ends, run } = createBatches(0.2);
  const first = run();
  await nextTurn();
  const second = run();
  ends.shift()?.();
  expect(await first).toBe("done");
  await nextTurn();
  await nextTurn();
  ends.shift()?.();
  expect(await second).toBe("done");
});

test("one that waits for another instance's lock does not hold up the others", async () => {
  const { ends, run } = createBatches(0.2);
  void run();
  await nextTurn();
  void run();
  await nextTurn();
  expect(ends).toHaveLength(1);
  vi.advanceTimersByTime(50);
  await nextTurn();
  expect(ends).toHaveLength(2);
});
