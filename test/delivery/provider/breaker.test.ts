/**
 * The breaker around a provider. Its clock is the machine's, so that is what these tests move; nothing here waits.
 */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { guarded } from "../../../src/delivery/breaker.ts";
import type { SendOutcome } from "../../../src/otp/message/message.ts";
import type { E164 } from "../../../src/otp/phone-number.ts";
import { createPhoneNetwork } from "../../support/service/world.ts";
import { sms } from "../../support/data/messages.ts";

const failed: SendOutcome = { kind: "ambiguous", detail: "HTTP 500" };
const taken: SendOutcome = { kind: "accepted" };
const unreached: SendOutcome = { kind: "unavailable", detail: "no connection" };
const wellAfter = () => vi.setSystemTime(Date.now() + 10_000);

/** A number that its gateway stumbles over. */
const odd = (i: number) => `+3163000000${i}` as E164;

/** `httpStatus` is what each call is answered with, if it is answered. */
function createGuarded(httpStatus?: number) {
  const network = createPhoneNetwork();
  const turns: (readonly [provider: string, isClosed: boolean])[] = [];
  const provider = guarded(
    {
      ...network,
      send(message, signal, onStatus) {
        if (httpStatus !== undefined) onStatus?.(httpStatus);
        return network.send(message, signal, onStatus);
      },
    },
    () => Date.now(),
    (...turn) => turns.push(turn),
  );
  let recipients = 0;
  const sendTo = (to: E164) => provider.send({ ...sms, to }, new AbortController().signal);
  /** Each to a number of its own. */
  const send = () => sendTo(`+316${20_000_000 + (recipients += 1)}` as E164);
  return {
    turns,
    network,
    provider,
    send,
    sendTo,
    /** Sends so many messages, one after the other, that all end alike. */
    async sendAll(outcome: SendOutcome, count: number) {
      for (let i = 0; i < count; i += 1) {
        network.script.push(outcome);
        await send();
      }
    },
    /** Fails once for each of five odd numbers. */
    async failAtFive() {
      for (let i = 0; i < 5; i += 1) {
        network.script.push(failed);
        await sendTo(odd(i));
      }
    },
    /** Sends until calls are no longer let through; how many were. */
    async sendUntilOpen(outcome: SendOutcome, max: number) {
      const before = network.received.length;
      for (let i = 0; i < max && provider.isClosed(); i += 1) {
        network.script.push(outcome);
        await send();
      }
      network.script.length = 0;
      return network.received.length - before;
    },
  };
}

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => void vi.useRealTimers());

test.each([failed, unreached, { kind: "refused", cause: "credentials", detail: "" } as const])(
  "a provider that fails every call (%j) is left alone after 5",
  async (outcome) => {
    const { network, provider, send, sendUntilOpen } = createGuarded();
    expect(await sendUntilOpen(outcome, 100)).toBe(5);
    const before = network.received.length;
    expect(provider.isClosed()).toBe(false);
    expect(await send()).toMatchObject({ kind: "unavailable" });
    expect(network.received).toHaveLength(before);
  },
);

test("one that worked for long is left alone after 5 failures", async () => {
  const { send, sendUntilOpen } = createGuarded();
  for (let i = 0; i < 50; i += 1) await send();
  expect(await sendUntilOpen(failed, 100)).toBe(5);
});

test.each([
  ["after a start", 0],
  ["after a while", 50],
])("%s 4 failures are borne, whatever their share of the calls", async (_, callsBefore) => {
  const { provider, sendAll, sendUntilOpen } = createGuarded();
  await sendAll(taken, callsBefore);
  await sendAll(failed, 2);
  await sendAll(taken, 3);
  await sendAll(failed, 2);
  expect(provider.isClosed()).toBe(true);
  expect(await sendUntilOpen(failed, 1)).toBe(1);
  expect(provider.isClosed()).toBe(false);
});

test("5 failures are too many among 20 calls, and not among 21", async () => {
  for (const [between, isClosed] of [
    [15, false],
    [16, true],
  ] as const) {
    const { provider, sendAll } = createGuarded();
    await sendAll(failed, 4);
    await sendAll(taken, between);
    await sendAll(failed, 1);
    expect(provider.isClosed()).toBe(isClosed);
  }
});

test.each([
  { kind: "refused", cause: "recipient", detail: "" },
  { kind: "refused", cause: "content", detail: "" },
  { kind: "throttled", detail: "" },
] satisfies SendOutcome[])("numbers and texts that are refused say nothing of the provider: %j", async (outcome) => {
  const { provider, sendUntilOpen } = createGuarded();
  expect(await sendUntilOpen(outcome, 40)).toBe(40);
  expect(provider.isClosed()).toBe(true);
});

describe("an odd number", () => {
  test("that is answered as if the address were wrong keeps nobody else from the provider", async () => {
    const { network, provider, sendTo } = createGuarded(404);
    for (let i = 0; i < 40; i += 1) {
      network.script.push({ kind: "unavailable", detail: "HTTP 404" });
      await sendTo(odd(1));
      expect(provider.isClosed()).toBe(true);
    }
    expect(await sendTo(odd(2))).toEqual(taken);
  });

  const refusedBalance: SendOutcome = { kind: "refused", cause: "balance", detail: "too dear" };

  test.each([failed, refusedBalance])(
    "that fails every time (%j) keeps nobody else from the provider",
    async (outcome) => {
      const { network, provider, send, sendTo } = createGuarded();
      for (let i = 0; i < 40; i += 1) {
        for (let tries = 0; tries < 5; tries += 1) {
          network.script.push(outcome);
          await sendTo(odd((i + tries) % 4));
          expect(provider.isClosed()).toBe(true);
        }
        expect(await send()).toEqual(taken);
      }
      expect(network.received).toHaveLength(240);
    },
  );

  test("counts as often as it fails where there was no connection: that is not due to it", async () => {
    const { network, provider, sendTo } = createGuarded();
    for (let i = 0; i < 5; i += 1) {
      network.script.push(unreached);
      await sendTo(odd(1));
    }
    expect(provider.isClosed()).toBe(false);
  });

  test("does not keep a breaker open: the trial is somebody else's, if one comes within 9 s more", async () => {
    const { network, provider, send, sendTo, failAtFive } = createGuarded();
    await failAtFive();
    expect(provider.isClosed()).toBe(false);
    wellAfter();
    for (let i = 0; i < 5; i += 1) expect(await sendTo(odd(i))).toMatchObject({ kind: "unavailable" });
    expect(network.received).toHaveLength(5);
    expect(await send()).toEqual(taken);
    expect(provider.isClosed()).toBe(true);
  });

  test("makes the trial where nobody else comes", async () => {
    const { provider, sendTo, failAtFive } = createGuarded();
    await failAtFive();
    wellAfter();
    wellAfter();
    expect(await sendTo(odd(0))).toEqual(taken);
    expect(provider.isClosed()).toBe(true);
  });
});

test("after 10 s one call tries the provider, and its success opens the way for all", async () => {
  const { network, provider, send, sendUntilOpen } = createGuarded();
  await sendUntilOpen(failed, 20);
  wellAfter();
  const before = network.received.length;
  expect(await send()).toMatchObject({ kind: "accepted" });
  expect(await send()).toMatchObject({ kind: "accepted" });
  expect(network.received).toHaveLength(before + 2);
  expect(provider.isClosed()).toBe(true);
});

test("after a recovery the failures before it are forgotten", async () => {
  const { provider, send, sendAll, sendUntilOpen } = createGuarded();
  await sendUntilOpen(failed, 20);
  wellAfter();
  await send();
  await sendAll(failed, 4);
  expect(provider.isClosed()).toBe(true);
  expect(await sendUntilOpen(failed, 20)).toBe(1);
});

test.each<SendOutcome>([
  { kind: "throttled", retryAfterMs: 5_000, detail: "HTTP 429" },
  { kind: "refused", cause: "recipient", detail: "unknown" },
])("what is said of a number alone keeps no breaker from opening: $kind", async (ofNumber) => {
  const { provider, sendAll } = createGuarded();
  for (let i = 0; i < 4; i += 1) {
    await sendAll(ofNumber, 20);
    await sendAll(failed, 1);
  }
  expect(provider.isClosed()).toBe(true);
  await sendAll(ofNumber, 20);
  await sendAll(failed, 1);
  expect(provider.isClosed()).toBe(false);
});

test("while one call tries the provider the others go elsewhere at once", async () => {
  const { network, send, sendUntilOpen } = createGuarded();
  await sendUntilOpen(failed, 20);
  wellAfter();
  const trial = Promise.withResolvers<SendOutcome>();
  network.script.push(() => trial.promise);
  const before = network.received.length;
  const tried = send();
  expect(await send()).toMatchObject({ kind: "unavailable" });
  expect(network.received).toHaveLength(before + 1);
  trial.resolve(failed);
  expect(await tried).toEqual(failed);
  // A failed trial costs another 10 s.
  expect(await send()).toMatchObject({ kind: "unavailable" });
  wellAfter();
  expect(await send()).toMatchObject({ kind: "accepted" });
});

test("its opening and its closing are told once each, whatever comes between", async () => {
  const { turns, network, send, sendUntilOpen } = createGuarded();
  await sendUntilOpen(failed, 20);
  for (let i = 0; i < 10; i += 1) expect(await send()).toMatchObject({ kind: "unavailable", isUnasked: true });
  wellAfter();
  network.script.push(failed);
  expect(await send()).toEqual(failed);
  expect(turns).toEqual([["test", false]]);
  wellAfter();
  await send();
  await send();
  expect(turns).toEqual([
    ["test", false],
    ["test", true],
  ]);
});

describe("a provider that asks to wait", () => {
  const throttled: SendOutcome = { kind: "throttled", retryAfterMs: 60_000, detail: "HTTP 429" };
  const paused = { kind: "throttled", isUnasked: true };

  test("is not called for that number before its time, and for all others at once", async () => {
    const { network, send, sendTo } = createGuarded();
    network.script.push(throttled);
    await sendTo(odd(1));
    vi.setSystemTime(Date.now() + 59_999);
    expect(await sendTo(odd(1))).toMatchObject({ ...paused, retryAfterMs: 1 });
    expect(await send()).toEqual(taken);
    vi.setSystemTime(Date.now() + 1);
    expect(await sendTo(odd(1))).toEqual(taken);
    expect(network.received).toHaveLength(3);
  });

  test("holds nobody else's message for whoever has five numbers throttled all day, while others' are taken", async () => {
    const { network, send, sendTo } = createGuarded();
    const others: SendOutcome[] = [];
    for (let minute = 0; minute < 1_440; minute++) {
      for (let i = 0; i < 5; i++) {
        network.script.push(throttled);
        await sendTo(odd(i));
        others.push(await send());
      }
      vi.setSystemTime(Date.now() + 60_000);
    }
    expect(others).toHaveLength(7_200);
    expect(new Set(others.map(({ kind }) => kind))).toEqual(new Set(["accepted"]));
  });

  test("holds nobody else's message for whoever has ten numbers throttled in turns, none of which is taken in between", async () => {
    const { network, send, sendTo } = createGuarded();
    for (const i of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) {
      network.script.push({ ...throttled, retryAfterMs: 10_000 });
      await sendTo(odd(i));
    }
    const others: SendOutcome[] = [];
    for (let second = 0; second < 60; second += 1) {
      network.script.push({ ...throttled, retryAfterMs: 10_000 });
      await sendTo(odd(second % 10));
      network.script.length = 0;
      others.push(...(await Promise.all([send(), send(), send()])));
      vi.setSystemTime(Date.now() + 1_000);
    }
    expect(others).toEqual(Array.from({ length: 180 }, () => taken));
  });

  test("waits twice as long each time that its number is throttled again, a minute at most, until it is taken", async () => {
    const { network, sendTo } = createGuarded();
    const waits: number[] = [];
    for (const outcome of [...Array.from({ length: 6 }, () => throttled), taken, throttled]) {
      network.script.push(outcome.kind === "throttled" ? { ...outcome, retryAfterMs: 5_000 } : outcome);
      await sendTo(odd(1));
      const left = await sendTo(odd(1));
      const waitMs = left.kind === "throttled" ? (left.retryAfterMs ?? 0) : 0;
      waits.push(waitMs);
      vi.setSystemTime(Date.now() + waitMs);
    }
    const [first, second = 0, ...later] = waits;
    expect(first).toBe(5_000);
    expect(second).toBeGreaterThanOrEqual(10_000);
    expect(second).toBeLessThanOrEqual(20_000);
    const expected = [2, 4].map((times) => expect.closeTo(Math.min(second * times, 60_000), -1) as number);
    expect(later).toEqual([...expected, 60_000, 60_000, 0, 5_000]);
  });

  test.each([{}, { retryAfterMs: 0 }])("and says no wait (%j) is given a second, then two to four", async (said) => {
    const { network, sendTo } = createGuarded();
    const waits: number[] = [];
    for (let i = 0; i < 2; i += 1) {
      network.script.push({ kind: "throttled", detail: "HTTP 429", ...said });
      const outcome = await sendTo(odd(1));
      waits.push(outcome.kind === "throttled" ? (outcome.retryAfterMs ?? 0) : 0);
      expect(await sendTo(odd(1))).toMatchObject({ ...paused, retryAfterMs: waits.at(-1) });
      vi.setSystemTime(Date.now() + (waits.at(-1) ?? 0));
    }
    const [first, second] = waits;
    expect(first).toBe(1_000);
    expect(second).toBeGreaterThanOrEqual(2_000);
    expect(second).toBeLessThanOrEqual(4_000);
  });

  test("for longer than a minute is asked again in a minute by others' messages to that number, not by the one that it told", async () => {
    const { network, sendTo } = createGuarded();
    network.script.push({ ...throttled, retryAfterMs: 300_000 });
    expect(await sendTo(odd(1))).toMatchObject({ kind: "throttled", retryAfterMs: 300_000 });
    expect(await sendTo(odd(1))).toMatchObject({ ...paused, retryAfterMs: 60_000 });
  });

  test("lets numbers that are throttled together twice come again apart, up to twice as late", async () => {
    const { network, sendTo } = createGuarded();
    const throttleAll = async () => {
      const waits: number[] = [];
      for (let i = 0; i < 10; i += 1) {
        network.script.push({ ...throttled, retryAfterMs: 4_000 });
        await sendTo(odd(i));
        const left = await sendTo(odd(i));
        waits.push(left.kind === "throttled" ? (left.retryAfterMs ?? 0) : 0);
      }
      return waits.toSorted((a, b) => a - b);
    };
    expect(await throttleAll()).toEqual(Array.from({ length: 10 }, () => 4_000));
    vi.setSystemTime(Date.now() + 4_000);
    const [least = 0, ...more] = await throttleAll();
    expect(least).toBeGreaterThanOrEqual(8_000);
    expect(more.at(-1)).toBeLessThanOrEqual(16_000);
    expect((more.at(-1) ?? 0) - least).toBeGreaterThan(4_000);
  });

  test("and counts all messages together is done with a burst while half of what it takes comes evenly", async () => {
    const { network, sendTo } = createGuarded();
    /** It takes four a second. */
    let room = 4;
    const owed = new Map<number, { readonly cameMs: number; dueMs: number }>();
    const delays: number[] = [];
    for (let [ms, count] = [0, 0]; ms <= 120_000; ms += 100) {
      room = Math.min(4, room + 0.4);
      const coming = (ms % 500 === 0 && ms <= 60_000 ? 1 : 0) + (ms === 20_000 ? 10 : 0);
      for (let i = 0; i < coming; i += 1) owed.set((count += 1), { cameMs: ms, dueMs: ms });
      for (const [number, message] of owed) {
        if (message.dueMs > ms) continue;
        if (room < 1) network.script.push({ ...throttled, retryAfterMs: 5_000 });
        const before = network.received.length;
        const outcome = await sendTo(odd(number));
        network.script.length = 0;
        if (outcome.kind === "throttled") message.dueMs = ms + (outcome.retryAfterMs ?? 0);
        else if (owed.delete(number)) delays.push(ms - message.cameMs);
        if (outcome.kind !== "throttled") room -= network.received.length - before;
      }
      vi.setSystemTime(Date.now() + 100);
    }
    expect([owed.size, delays.length]).toEqual([0, 131]);
    expect(Math.max(...delays)).toBeLessThan(30_000);
    expect(delays.filter((delay) => delay > 0).length).toBeLessThan(20);
  });
});
