/**
 * The breaker around a provider. Its clock is the machine's, so that is what these tests move; nothing here waits.
 */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { guarded } from "../../../src/delivery/breaker.ts";
import type { Sms } from "../../../src/delivery/provider.ts";
import type { SendOutcome } from "../../../src/otp/message.ts";
import type { E164 } from "../../../src/otp/phone-number.ts";
import { createPhoneNetwork } from "../../support/world.ts";

const failed: SendOutcome = { kind: "ambiguous", detail: "HTTP 500" };
const unreached: SendOutcome = { kind: "unavailable", detail: "no connection" };
const wellAfter = () => vi.setSystemTime(Date.now() + 10_000);

function newSms(): Sms {
  const to = "+31612345678" as E164;
  return { to, region: "NL", text: "123456 is your code", validitySeconds: 600, reference: "AAAAAAAAAAAAAAAAAAAAAA.0" };
}

function createGuarded() {
  const network = createPhoneNetwork();
  const provider = guarded(network, () => Date.now());
  return {
    network,
    provider,
    send: () => provider.send(newSms(), new AbortController().signal),
    /** Sends until calls are no longer let through; how many were. */
    async sendUntilOpen(outcome: SendOutcome, max: number) {
      const before = network.received.length;
      for (let i = 0; i < max && provider.isClosed(); i += 1) {
        network.script.push(outcome);
        await provider.send(newSms(), new AbortController().signal);
      }
      network.script.length = 0;
      return network.received.length - before;
    },
  };
}

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => void vi.useRealTimers());

test.each([failed, unreached, { kind: "refused", cause: "credentials", detail: "" } as const])(
  "a provider that fails every call (%j) is left alone within 20 calls",
  async (outcome) => {
    const { network, provider, send, sendUntilOpen } = createGuarded();
    expect(await sendUntilOpen(outcome, 100)).toBeLessThanOrEqual(20);
    const before = network.received.length;
    expect(provider.isClosed()).toBe(false);
    expect(await send()).toMatchObject({ kind: "unavailable" });
    expect(network.received).toHaveLength(before);
  },
);

test("one that worked for long is left alone within 20 calls of its end", async () => {
  const { send, sendUntilOpen } = createGuarded();
  for (let i = 0; i < 50; i += 1) await send();
  expect(await sendUntilOpen(failed, 100)).toBeLessThanOrEqual(20);
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

test("a provider that asks to wait is not called before its time, a minute at most", async () => {
  const { network, send } = createGuarded();
  network.script.push({ kind: "throttled", retryAfterMs: 7_000, detail: "HTTP 429" });
  await send();
  vi.setSystemTime(Date.now() + 6_999);
  expect(await send()).toMatchObject({ kind: "throttled", retryAfterMs: 1 });
  expect(network.received).toHaveLength(1);
  vi.setSystemTime(Date.now() + 1);
  network.script.push({ kind: "throttled", retryAfterMs: 3_600_000, detail: "HTTP 429" });
  await send();
  vi.setSystemTime(Date.now() + 60_000);
  expect(await send()).toMatchObject({ kind: "accepted" });
});
