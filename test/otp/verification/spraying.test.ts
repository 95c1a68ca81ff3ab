import { describe, expect, test } from "vitest";
import type { Policy } from "../../../src/otp/verification/policy.ts";
import { isSpraying, codeLengthUnder, minuteOf, oldestMinute } from "../../../src/otp/verification/spraying.ts";
import { minuteMs, policy as defaults } from "../../support/data/examples.ts";
import { testEpochMs as now } from "../../support/service/system.ts";

describe("a tenant is sprayed", () => {
  test.each([
    [0, 0, false],
    [199, 0, false],
    [200, 0, true],
    [200, 49, true],
    [200, 50, false],
    [203, 50, true],
    [1_000_000, 249_999, true],
    [1_000_000, 250_000, false],
    [150, 10_000, false],
    [500, 10_000, false],
  ])("at %i wrong codes and %i right ones: %s", (wrong, right, expected) => {
    expect(isSpraying({ wrong, right })).toBe(expected);
  });
});

describe("a new code amid a spray", () => {
  const spray = { wrong: 200, right: 0 };
  const of = (codeLengthMax: number, more: Partial<Policy> = {}): Policy => ({ ...defaults, codeLengthMax, ...more });

  test.each<[string, Policy, digits: number, expected: number]>([
    ["at most 8 digits", of(8), 6, 8],
    ["at most 10 digits", of(10), 6, 8],
    ["at most 7 digits", of(7), 6, 7],
    ["no lengthening", of(6), 6, 6],
    ["7 digits from the start", of(8, { codeLength: 7 }), 7, 8],
    ["lengthened to 10 already", of(10), 10, 10],
    ["the strict policy", of(8, { guessPolicy: "strict" }), 6, 8],
  ])("is as long as the operator allows: %s", (_, policy, digits, expected) => {
    expect(codeLengthUnder(spray, digits, policy)).toBe(expected);
    expect(codeLengthUnder({ wrong: 199, right: 0 }, digits, policy)).toBe(digits);
  });
});

test("the window is the minute under way and the ten before it", () => {
  for (const at of [now, now + 1, now + minuteMs - 1]) {
    expect(minuteOf(at) - oldestMinute(at)).toBe(10);
    expect(minuteOf(at)).toBe(now / minuteMs);
  }
});
