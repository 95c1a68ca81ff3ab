import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { decideSend } from "../../../src/otp/decisions/sending.ts";
import { parsePhoneNumber, type E164 } from "../../../src/otp/phone-number.ts";
import type { Policy } from "../../../src/otp/verification/policy.ts";
import { ok } from "../../../src/otp/reason.ts";
import { channels, type Channel } from "../../../src/otp/channel.ts";
import {
  isFictional,
  isSandbox,
  sandboxCode,
  sandboxOf,
  sandboxOutcome,
  sandboxSend,
} from "../../../src/otp/message/sandbox.ts";
import { freshPhone, policy, sendFacts } from "../../support/data/examples.ts";
import { testEpochMs as now } from "../../support/service/system.ts";

const documented = [
  ...readFileSync(new URL("../../../docs/testing.md", import.meta.url), "utf8").matchAll(/^\| `(\+1 [\d ]+)` \|/gm),
].map(([, number = ""]) => number.replaceAll(" ", ""));

describe("a fictional number", () => {
  test.each(["+14155550100", "+12125550199", "+12025550142"])("is %s, whatever its area", (e164) => {
    expect(isFictional(e164)).toBe(true);
  });

  test.each([
    ["+14155550099", "before the range"],
    ["+14155550200", "behind it"],
    ["+14155560100", "another exchange"],
    ["+141555501000", "a digit too many"],
    ["+1415555010", "a digit too few"],
    ["+4415555010", "another country"],
    ["+34415555010", "another country of as many digits"],
    [" +14155550100", "with something before it"],
    ["+14155550100 ", "with something behind it"],
  ])("is not %s: %s", (e164) => {
    expect(isFictional(e164)).toBe(false);
    expect(sandboxOutcome(e164)).toBeUndefined();
  });
});

describe("an outcome", () => {
  test("is had by the numbers that docs/testing.md lists, in its order, and by no others", () => {
    const numbers = Array.from({ length: 100 }, (_, i) => `+1415555${String(100 + i).padStart(4, "0")}`);
    const taken = numbers.filter((number) => sandboxOutcome(number) !== undefined);
    expect(taken).toEqual(documented);
    expect(taken.map((number) => sandboxOutcome(number))).toEqual([
      "delivered",
      "undelivered",
      "provider-down",
      "refused",
      "rate-limited",
      "expired",
      "locked",
      "long-code",
      "undelivered by sms",
      "undelivered by voice",
      "undelivered by whatsapp",
      "refused by sms",
      "refused by voice",
      "refused by whatsapp",
    ]);
  });

  test("is the same in every area", () => {
    for (const number of documented) {
      expect(sandboxOutcome(number.replace("415", "212"))).toBe(sandboxOutcome(number));
    }
  });

  test("is had by numbers that are valid, so that they come past the door", () => {
    for (const number of documented)
      expect(parsePhoneNumber(number)).toEqual(ok({ e164: number, region: "US", kind: "mobile" }));
  });
});

test("a tenant's sandbox is another tenant, and is known as a sandbox", () => {
  expect(sandboxOf("default")).not.toBe("default");
  expect(isSandbox(sandboxOf("default"))).toBe(true);
  expect(isSandbox("default")).toBe(false);
  expect(sandboxOf("a")).not.toBe(sandboxOf("b"));
});

describe("the sandbox's code", () => {
  test.each([
    [6, "123456"],
    [7, "1234567"],
    [8, "12345678"],
    [10, "1234567890"],
  ])("of %i digits is %s", (digits, code) => {
    expect(sandboxCode(digits).reveal()).toBe(code);
  });

  const sandboxFacts = ok({
    ...sendFacts,
    tenant: sandboxOf("default"),
    phone: { e164: "+14155550100" as E164, region: "US", kind: "mobile" as const },
  });
  const guessed = {
    ...freshPhone,
    history: { wrongCodes: [[Math.floor(now / 86_400_000), 500]], refunds: [] },
  } as const;

  test.each<[string, Partial<Policy>]>([
    ["guesses", {}],
    ["guesses under the strict policy", { guessPolicy: "strict" }],
  ])(
    "does not get longer, and is not refused, after 500 wrong %s: a test run sends to one number all day",
    (_, more) => {
      const { result } = decideSend({ now, phone: guessed }, sandboxFacts, {
        claim: undefined,
        policy: { ...policy, ...more },
      });
      expect(result).toMatchObject({ kind: "opened", verification: { digits: 6 } });
    },
  );

  test("does not get longer with many requests open", () => {
    const view = { now, phone: { ...freshPhone, openAttempts: 100 } };
    const { result } = decideSend(view, sandboxFacts, { claim: undefined, policy });
    expect(result).toMatchObject({ kind: "opened", verification: { digits: 6 } });
  });
});

describe("the sandbox's provider", () => {
  test.each<[string, Channel]>([
    ["+14155550108", "sms"],
    ["+14155550109", "voice"],
    ["+14155550110", "whatsapp"],
    ["+14155550111", "sms"],
    ["+14155550112", "voice"],
    ["+14155550113", "whatsapp"],
  ])("has another answer for %s by %s than by any other channel", (e164, by) => {
    const [own] = channels.filter((channel) => channel === by).map((channel) => sandboxSend(e164, channel));
    const others = channels.filter((channel) => channel !== by).map((channel) => sandboxSend(e164, channel));
    expect(own).toMatchObject(
      e164.endsWith("11") || e164.endsWith("12") || e164.endsWith("13")
        ? { kind: "refused", cause: "recipient" }
        : { kind: "accepted", delivery: "UNDELIVERED" },
    );
    expect(others).toEqual([1, 2].map(() => ({ kind: "accepted", delivery: "DELIVERED" })));
  });

  test.each([
    ["+14155550100", { kind: "accepted", delivery: "DELIVERED" }],
    ["+14155550101", { kind: "accepted", delivery: "UNDELIVERED" }],
    ["+14155550102", { kind: "unavailable" }],
    ["+14155550103", { kind: "refused", cause: "recipient" }],
    ["+14155550105", { kind: "accepted", delivery: "DELIVERED" }],
    ["+14155550106", { kind: "accepted", delivery: "DELIVERED" }],
    ["+14155550107", { kind: "accepted", delivery: "DELIVERED" }],
  ])("answers for %s: %o", (e164, outcome) => {
    expect(sandboxSend(e164, "sms")).toMatchObject(outcome);
  });
});
