import { describe, expect, test } from "vitest";
import type { Delivery } from "../../../src/otp/message/message.ts";
import {
  canonicalBind,
  expire,
  messageShown,
  stateAt,
  type Verification,
} from "../../../src/otp/verification/verification.ts";
import { terminalReason, type State } from "../../../src/otp/state.ts";
import { dayMs, endedAs, logOf, messageOf, policy, verificationOf } from "../../support/data/examples.ts";

const ends: readonly Exclude<State, "PENDING">[] = ["VERIFIED", "EXPIRED", "LOCKED", "CANCELED", "FAILED"];

describe("a state", () => {
  test("is pending up to a millisecond before the end of the lifetime, and expired from then on", () => {
    const verification = verificationOf();
    const at = (ms: number) => stateAt(verification, verification.expireMs + ms);
    expect([at(-dayMs), at(-1), at(0), at(1), at(dayMs)]).toEqual([
      "PENDING",
      "PENDING",
      "EXPIRED",
      "EXPIRED",
      "EXPIRED",
    ]);
  });

  test.each(ends)("%s never changes again", (state) => {
    for (const ms of [-dayMs, -1, 0, 1, dayMs]) {
      expect(stateAt(endedAs(state), endedAs(state).expireMs + ms)).toBe(state);
    }
  });

  test("that is terminal answers with a reason of its own", () => {
    expect(ends.map(terminalReason)).toEqual([
      "OTP_ALREADY_VERIFIED",
      "OTP_EXPIRED",
      "OTP_LOCKED",
      "OTP_CANCELED",
      "OTP_FAILED",
    ]);
  });
});

describe("the message that is shown", () => {
  const shown = (verification: Verification, ...deliveries: Delivery[]) =>
    messageShown(
      verification,
      deliveries.map((delivery, copy) => messageOf({ copy, delivery })),
    )?.copy;

  test("is the latest", () => {
    expect(shown(verificationOf())).toBeUndefined();
    expect(shown(verificationOf({ delivery: "SENDING" }), "QUEUED")).toBe(0);
    expect(shown(verificationOf({ delivery: "SENDING", resends: 1 }), "SENDING", "QUEUED")).toBe(1);
  });

  test("is a resend that never left, until a report on the one before comes", () => {
    expect(shown(verificationOf({ delivery: "REJECTED" }), "ACCEPTED", "REJECTED")).toBe(1);
    expect(shown(verificationOf({ delivery: "DELIVERED" }), "DELIVERED", "REJECTED")).toBe(0);
    // Two were under way at once: the last refused, the one before it given up after that.
    const twice = (delivery: Delivery) => shown(verificationOf({ delivery }), "DELIVERED", "EXPIRED", "REJECTED");
    expect([twice("EXPIRED"), twice("REJECTED"), twice("DELIVERED")]).toEqual([1, 2, 0]);
    // It goes on to the next provider, and is in hand.
    expect(shown(verificationOf({ delivery: "QUEUED" }), "SENDING", "EXPIRED")).toBe(0);
  });
});

test("expiry erases the salt, and counts from the end of the lifetime, whenever it is noted", () => {
  const verification = verificationOf({ attempts: 2 });
  expect(expire(verification)).toEqual({
    ...verification,
    state: "EXPIRED",
    salt: null,
    endMs: verification.expireMs,
    log: logOf([policy.ttlMs, "end", "EXPIRED"]),
  });
});

describe("a binding has one form", () => {
  test.each([
    [{}, ""],
    [{ order: "42" }, '[["order","42"]]'],
    [{ b: "2", a: "1" }, '[["a","1"],["b","2"]]'],
    [{ a: "1", b: "2" }, '[["a","1"],["b","2"]]'],
    [{ Z: "1", a: "2", ä: "3" }, '[["Z","1"],["a","2"],["ä","3"]]'],
    [{ "": "" }, '[["",""]]'],
    [{ 'a"],["b': "1" }, '[["a\\"],[\\"b","1"]]'],
    [{ constructor: "1", toString: "2" }, '[["constructor","1"],["toString","2"]]'],
  ])("%j is %s", (bind, canonical) => {
    expect(canonicalBind(bind)).toBe(canonical);
  });
});
