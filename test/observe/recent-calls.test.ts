/**
 * Calls of a provider in the last hour: what is counted as what, and for how long.
 */
import { expect, test } from "vitest";
import { createRecentCalls, type RecentCall } from "../../src/observe/recent-calls.ts";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import { createManualSystem } from "../support/service/system.ts";

const accepted: SendOutcome = { kind: "accepted" };
const call = (outcome: SendOutcome, durationMs = 40): RecentCall => ({ outcome, durationMs, isTakenOver: false });
const none = { calls: 0, failures: 0, takenOver: 0, passedOver: 0, p50Ms: undefined, p99Ms: undefined };

test.each<[SendOutcome, { calls: number; failures: number; passedOver: number }]>([
  [accepted, { calls: 1, failures: 0, passedOver: 0 }],
  [
    { kind: "refused", cause: "recipient", detail: "" },
    { calls: 1, failures: 0, passedOver: 0 },
  ],
  [
    { kind: "refused", cause: "content", detail: "" },
    { calls: 1, failures: 0, passedOver: 0 },
  ],
  [
    { kind: "refused", cause: "credentials", detail: "" },
    { calls: 1, failures: 1, passedOver: 0 },
  ],
  [
    { kind: "refused", cause: "balance", detail: "" },
    { calls: 1, failures: 1, passedOver: 0 },
  ],
  [
    { kind: "unavailable", detail: "" },
    { calls: 1, failures: 1, passedOver: 0 },
  ],
  [
    { kind: "ambiguous", detail: "" },
    { calls: 1, failures: 1, passedOver: 0 },
  ],
  [
    { kind: "throttled", detail: "" },
    { calls: 1, failures: 1, passedOver: 0 },
  ],
  [
    { kind: "unavailable", detail: "", isUnasked: true },
    { calls: 0, failures: 0, passedOver: 1 },
  ],
  [
    { kind: "throttled", detail: "", isUnasked: true },
    { calls: 0, failures: 0, passedOver: 1 },
  ],
])("%j counts as %j", (outcome, counted) => {
  const { now } = createManualSystem();
  const recent = createRecentCalls(now);
  recent.note("acme", "sms", call(outcome));
  expect(recent.read("acme", "sms")).toMatchObject(counted);
  expect(recent.read("acme", "voice")).toEqual(none);
  expect(recent.read("other", "sms")).toEqual(none);
});

test("latency is told to within a step, and what came from another provider is counted", () => {
  const recent = createRecentCalls(createManualSystem().now);
  for (let i = 0; i < 98; i++) recent.note("acme", "sms", call(accepted, 42));
  recent.note("acme", "sms", { ...call(accepted, 1_800), isTakenOver: true });
  recent.note("acme", "sms", call(accepted, 99_999));
  expect(recent.read("acme", "sms")).toEqual({ ...none, calls: 100, takenOver: 1, p50Ms: 50, p99Ms: 2_000 });
});

test("a call is counted for an hour, whether there are others or not", () => {
  const system = createManualSystem();
  const recent = createRecentCalls(system.now);
  recent.note("acme", "sms", call(accepted));
  for (let minute = 1; minute <= 70; minute++) {
    system.advance(60_000);
    if (minute % 2 === 0) recent.note("acme", "sms", call(accepted));
  }
  expect(recent.read("acme", "sms").calls).toBe(30);
  system.advance(59 * 60_000);
  expect(recent.read("acme", "sms").calls).toBe(1);
  system.advance(60_000);
  expect(recent.read("acme", "sms")).toEqual(none);
});
