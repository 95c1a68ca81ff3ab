/**
 * What both workers stand on: when they look, how a call is bounded, and how they stop.
 */
import { setImmediate as turn } from "node:timers/promises";
import { beforeEach, expect, test } from "vitest";
import { createPoller, type Poller } from "../../src/delivery/poller.ts";

let now: number;
let timers: Set<{ readonly atMs: number; readonly act: () => void }>;
let dueMs: number | undefined;
let room: boolean;
/** When it looked, and when it claimed. */
let looks: number[];
let claims: number[];
let faults: unknown[];
let poller: Poller;
let nextDue: () => Promise<number | undefined>;

beforeEach(() => {
  [now, timers, dueMs, room, looks, claims, faults] = [0, new Set(), undefined, true, [], [], []];
  nextDue = async () => dueMs;
  poller = createPoller({
    system: {
      after(ms, act) {
        const timer = { atMs: now + ms, act };
        timers.add(timer);
        return () => timers.delete(timer);
      },
    },
    now: () => now,
    nextDue() {
      looks.push(now);
      return nextDue();
    },
    hasRoom: () => room,
    async claim() {
      claims.push(now);
      dueMs = undefined;
    },
    nextPollMs: () => 50,
    onFault: (error) => faults.push(error),
  });
});

async function pass(ms: number): Promise<void> {
  const endMs = now + ms;
  for (;;) {
    await turn();
    const next = [...timers].filter(({ atMs }) => atMs <= endMs).toSorted((a, b) => a.atMs - b.atMs)[0];
    if (next === undefined) break;
    timers.delete(next);
    now = next.atMs;
    next.act();
  }
  now = endMs;
}

test("it looks once a second, when something is due, and when it is nudged", async () => {
  poller.pollIn(0);
  await pass(2_500);
  expect(looks).toEqual([0, 1_000, 2_000]);
  dueMs = 3_300;
  await pass(500);
  expect([looks.at(-1), claims]).toEqual([3_000, []]);
  await pass(300);
  expect([looks.at(-1), claims]).toEqual([3_300, [3_300]]);
  poller.pollIn(20);
  // A later look does not take the place of an earlier one.
  poller.pollIn(200);
  await pass(30);
  expect(looks.at(-1)).toBe(3_320);
});

test("without room it claims nothing, and looks again", async () => {
  [dueMs, room] = [0, false];
  poller.pollIn(0);
  await pass(120);
  expect([looks, claims]).toEqual([[0, 50, 100], []]);
  room = true;
  await pass(50);
  expect(claims).toEqual([150]);
});

test("a look that fails is told of, and the next one comes a second later", async () => {
  const down = new Error("down");
  nextDue = () => Promise.reject(down);
  poller.pollIn(0);
  await pass(500);
  nextDue = async () => 0;
  await pass(500);
  expect([faults, looks.slice(0, 2), claims]).toEqual([[down], [0, 1_000], [1_000]]);
});

test("a call has its answer, or what stands for one once it took too long; its signal then ends it", async () => {
  expect(await poller.withDeadline(100, async () => "answer", "late")).toBe("answer");
  await expect(poller.withDeadline(100, () => Promise.reject(new Error("broken")), "late")).rejects.toThrow("broken");
  expect(timers.size).toBe(0);
  const signals: AbortSignal[] = [];
  const hang = (signal: AbortSignal) => {
    signals.push(signal);
    return new Promise<string>(() => {});
  };
  const [first, second] = [poller.withDeadline(100, hang, "late"), poller.withDeadline(1_000, hang, "cut short")];
  await pass(100);
  expect([await first, signals.map(({ aborted }) => aborted)]).toEqual(["late", [true, false]]);
  poller.abortCalls();
  expect([await second, signals.map(({ aborted }) => aborted)]).toEqual(["cut short", [true, true]]);
});

test("a stop ends pauses and looks, and waits for what was begun and what that begins", async () => {
  const [one, two] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  poller.pollIn(500);
  poller.begin(
    (async () => {
      await poller.pause(60_000);
      await one.promise;
      poller.begin(two.promise);
    })(),
  );
  poller.stop();
  poller.pollIn(0);
  let isDrained = false;
  const drained = poller.drained(5_000).then(() => (isDrained = true));
  one.resolve();
  await turn();
  expect([isDrained, poller.isStopping]).toEqual([false, true]);
  two.resolve();
  await drained;
  await pass(10_000);
  expect([looks, faults]).toEqual([[], []]);
  // And no longer than it may.
  poller.begin(new Promise(() => {}));
  const late = poller.drained(5_000);
  await pass(5_000);
  await late;
});

test("it looks once at a time: what it is asked for meanwhile, however often, is one look more", async () => {
  const answer = Promise.withResolvers<undefined>();
  nextDue = () => answer.promise;
  poller.pollIn(0);
  await pass(10);
  for (let i = 0; i < 100; i += 1) poller.pollIn(i);
  await pass(90);
  expect(looks).toEqual([0]);
  nextDue = async () => undefined;
  answer.resolve(undefined);
  await pass(500);
  expect(looks).toEqual([0, 100]);
});
