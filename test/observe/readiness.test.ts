/**
 * When an instance says that it is ready: by itself, on a clock and a database that do as they are told.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { createReadiness, readinessChecks, type Readiness } from "../../src/observe/readiness.ts";

let nowMs: number;
let timers: { atMs: number; act: () => void }[];
let pings: PromiseWithResolvers<void>[];
let open: boolean[];
let readiness: Readiness;

beforeEach(() => {
  nowMs = 1_000;
  timers = [];
  pings = [];
  open = [false];
  readiness = createReadiness({
    system: {
      now: () => nowMs,
      after(ms, act) {
        const timer = { atMs: nowMs + ms, act };
        timers.push(timer);
        return () => void (timers = timers.filter((each) => each !== timer));
      },
    },
    ping() {
      const ping = Promise.withResolvers<void>();
      pings.push(ping);
      return ping.promise;
    },
    providers: () => open.map((isOpen) => ({ isOpen: () => isOpen })),
  });
});

function pass(ms: number): void {
  nowMs += ms;
  for (const { act } of timers.filter(({ atMs }) => atMs <= nowMs)) act();
}

const database = () => readiness.judge(["database"]).then((checks) => checks.database);

/** What a probe says whose write, if it makes one, comes to this. */
async function probe(write: "taken" | "refused"): Promise<string | undefined> {
  const before = pings.length;
  const answer = database();
  if (pings.length > before) {
    if (write === "taken") pings.at(-1)?.resolve();
    else pings.at(-1)?.reject(new Error("no"));
  }
  return answer;
}

describe("the database", () => {
  test("is written to once for all who ask within two seconds", async () => {
    const asked = Promise.all(Array.from({ length: 100 }, database));
    expect(pings).toHaveLength(1);
    pings[0]?.resolve();
    expect(new Set(await asked)).toEqual(new Set(["ok"]));
    pass(1_999);
    expect(await probe("refused")).toBe("ok");
    expect(pings).toHaveLength(1);
    pass(1);
    expect(await probe("refused")).toBe("failing");
    expect(pings).toHaveLength(2);
  });

  test("that fails a batch is failing at once, and well again by itself", async () => {
    expect(await probe("taken")).toBe("ok");
    expect(await probe("taken")).toBe("ok");
    readiness.batchFailed();
    expect(await probe("taken")).toBe("failing");
    pass(999);
    expect(await probe("taken")).toBe("failing");
    expect(pings).toHaveLength(1);
    pass(1);
    expect(await probe("taken")).toBe("ok");
    expect(pings).toHaveLength(2);
  });

  test("that hangs is failing after two seconds, and is not asked again while it does", async () => {
    const first = database();
    pass(2_000);
    expect(await first).toBe("failing");
    pass(60_000);
    const second = database();
    pass(2_000);
    expect(await second).toBe("failing");
    expect(pings).toHaveLength(1);
    pings[0]?.resolve();
    await new Promise(setImmediate);
    pass(2_000);
    expect(await probe("taken")).toBe("ok");
    expect([pings.length, timers.length]).toEqual([2, 0]);
  });

  test("is left alone by those who do not ask about it", async () => {
    expect(await readiness.judge(["serving", "provider"])).toEqual({ serving: "ok", provider: "ok" });
    expect(pings).toEqual([]);
  });
});

test.each([
  [[false], "ok"],
  [[false, false], "ok"],
  [[true, false], "degraded"],
  [[true, true], "failing"],
  [[true], "failing"],
])("providers whose breakers are open as in %j are %s", async (breakers, result) => {
  open = breakers;
  expect(await readiness.judge(["provider"])).toEqual({ provider: result });
});

test("once it drains it does not serve, whatever else is well", async () => {
  const before = readiness.judge(readinessChecks);
  pings[0]?.resolve();
  expect(await before).toEqual({ serving: "ok", database: "ok", provider: "ok" });
  readiness.drain();
  expect(await readiness.judge(readinessChecks)).toEqual({ serving: "failing", database: "ok", provider: "ok" });
});
