/** How many transactions are under way at once, by how far the database is. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Batches } from "../../src/store/postgres/batches.ts";
import type { Connections } from "../../src/store/postgres/connections.ts";

// A batch that takes long is taken for one that waits for a lock: how long is up to the test.
beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => vi.useRealTimers());

let passedMs = 0;

/** Lets time pass, where timers are fake. */
function pass(ms: number): void {
  passedMs += ms;
  vi.advanceTimersByTime(ms);
}

/** Batches on connections whose transactions end when the test says so. */
function createBatches(roundTripMs: number) {
  const ends: (() => void)[] = [];
  const unit = { countedUp() {}, decided: [] };
  const connections = {
    roundTripMs: () => roundTripMs,
    transact: () =>
      new Promise((resolve) =>
        ends.push(() => resolve({ unit, outcomes: Array.from({ length: 2 }, () => ({ ok: true, value: "done" })) })),
      ),
  } as unknown as Connections;
  const clock = { now: () => 0, heard: () => {} };
  const batches = new Batches(connections, clock, "one", {}, { watchMs: () => passedMs });
  return { ends, run: () => batches.run({ run: () => "done" }) };
}

async function turns(): Promise<void> {
  await nextTurn();
  await nextTurn();
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
  pass(50);
  await nextTurn();
  expect(ends).toHaveLength(2);
});

describe("after a batch", () => {
  /** Two acts share a batch that takes 8 ms. */
  async function afterTwo() {
    const { ends, run } = createBatches(0.2);
    const both = Promise.all([run(), run()]);
    await turns();
    pass(8);
    ends.shift()?.();
    await both;
    return { ends, run };
  }

  test("of several acts the next waits for those that it has answered, half as long as it took", async () => {
    const { ends, run } = await afterTwo();
    void run();
    await turns();
    pass(3);
    await turns();
    expect(ends).toHaveLength(0);
    pass(1);
    await turns();
    expect(ends).toHaveLength(1);
  });

  test("of several acts the next begins at once when all of them are back", async () => {
    const { ends, run } = await afterTwo();
    void run();
    void run();
    await turns();
    expect(ends).toHaveLength(1);
  });

  test("of several acts the wait begins with the first that comes", async () => {
    const { ends, run } = await afterTwo();
    pass(7);
    void run();
    await turns();
    pass(3);
    await turns();
    expect(ends).toHaveLength(0);
    pass(1);
    await turns();
    expect(ends).toHaveLength(1);
  });

  test("of several acts one that comes later than it took waits for nobody", async () => {
    const { ends, run } = await afterTwo();
    pass(8);
    void run();
    await turns();
    expect(ends).toHaveLength(1);
  });

  test("of one act the next waits for nobody, however long that one took", async () => {
    const { ends, run } = createBatches(0.2);
    const alone = run();
    await turns();
    pass(8);
    ends.shift()?.();
    await alone;
    void run();
    await turns();
    expect(ends).toHaveLength(1);
  });
});
