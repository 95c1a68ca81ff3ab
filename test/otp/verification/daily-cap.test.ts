/**
 * The daily cap: which messages count on a UTC day, which leave the count, and when operators are warned.
 */
import { describe, expect, test } from "vitest";
import { countMessage, type DailyCount, type Days } from "../../../src/otp/verification/daily-cap.ts";
import { decideSend } from "../../../src/otp/decisions/sending.ts";
import { decideResend } from "../../../src/otp/decisions/resending.ts";
import { claim as claimed, settle, unclaim, type Message, type SendOutcome } from "../../../src/otp/message/message.ts";
import type { Policy } from "../../../src/otp/verification/policy.ts";
import { ok } from "../../../src/otp/reason.ts";
import { decideSettle } from "../../../src/otp/decisions/settlement.ts";
import { capsOf, countAll, takenForNextCall } from "../../../src/otp/decisions/spending.ts";
import {
  claim,
  dayMs,
  exhaustedPhone,
  freshPhone,
  messageOf,
  policy,
  secondMs,
  sendFacts,
  verificationOf,
  sameChannel,
} from "../../support/data/examples.ts";
import { testEpochMs } from "../../support/service/system.ts";

const day = Math.floor(testEpochMs / dayMs);
const midnight = (day + 1) * dayMs;
const dailyOf = (count: number, warned: number = 0, warnedCap = warned === 0 ? 0 : 10): DailyCount => ({
  day,
  count,
  warned: warned as DailyCount["warned"],
  warnedCap,
});
const daysOf = (daily: DailyCount): Days => new Map([["messages", daily]]);
const isNextCallCounted = (message: Message, now: number) =>
  takenForNextCall(message).countedDay === Math.floor(now / dayMs);
const capped: Policy = { ...policy, dailyMessagesMax: 10 };

describe("a message under the cap", () => {
  test.each<
    [count: number, warned: 0 | 80 | 100, max: number, count2: number, warned2: number, share: number | undefined]
  >([
    [0, 0, 10, 1, 0, undefined],
    [6, 0, 10, 7, 0, undefined],
    [7, 0, 10, 8, 80, 80],
    [7, 80, 10, 8, 80, undefined],
    [8, 80, 10, 9, 80, undefined],
    [9, 80, 10, 10, 100, 100],
    [9, 100, 10, 10, 100, undefined],
    [0, 0, 1, 1, 100, 100],
    [2, 0, 4, 3, 0, undefined],
    [79_999_999, 0, 100_000_000, 80_000_000, 80, 80],
  ])("of a day with %i (warned of %i) at a cap of %i makes it %i (%i), and warns of %s", (...row) => {
    const [count, warned, max, countAfter, warnedAfter, share] = row;
    const counting = countMessage(dailyOf(count, warned), max, testEpochMs);
    expect(counting).toEqual({
      counted: true,
      daily: dailyOf(countAfter, warnedAfter, warnedAfter === 0 ? 0 : max),
      ...(share === undefined ? {} : { share }),
    });
  });

  test.each([
    [testEpochMs, midnight - testEpochMs],
    [midnight - 1, 1],
    [midnight - dayMs, dayMs],
  ])("is refused at the cap, until the next UTC day", (now, retryAfterMs) => {
    expect(countMessage(dailyOf(10, 100), 10, now)).toEqual({ counted: false, retryAfterMs });
  });

  test("is refused beyond a cap that was lowered, which is told once", () => {
    const first = countMessage(dailyOf(50, 80), 10, testEpochMs);
    expect(first).toMatchObject({ counted: false, share: 100, daily: dailyOf(50, 100) });
    expect(countMessage(dailyOf(50, 100), 10, testEpochMs)).not.toHaveProperty("share");
  });

  /** What is warned of when a message is counted under each of these caps in turn. */
  function warnings(caps: readonly number[]): string[] {
    let daily = dailyOf(0);
    return caps.flatMap((max) => {
      const counting = countMessage(daily, max, testEpochMs);
      daily = counting.daily ?? daily;
      return counting.share === undefined ? [] : [`${counting.share} % at ${daily.count} of ${max}`];
    });
  }

  test("is warned of anew under a cap that was raised", () => {
    expect(warnings([10, 12, 50].flatMap((max) => Array<number>(50).fill(max)))).toEqual([
      "80 % at 8 of 10",
      "100 % at 10 of 10",
      "80 % at 11 of 12",
      "100 % at 12 of 12",
      "80 % at 40 of 50",
      "100 % at 50 of 50",
    ]);
  });

  test("is warned of a few times, and not with each call, while the instances of a rollout have two caps", () => {
    expect(warnings(Array.from({ length: 60 }, (_, i) => (i % 2 === 0 ? 20 : 10)))).toEqual([
      "80 % at 8 of 10",
      "100 % at 10 of 10",
      "80 % at 16 of 20",
      "100 % at 16 of 10",
    ]);
  });

  test("that a version before this one has warned of is not warned of again", () => {
    expect(countMessage(dailyOf(9, 80, 0), 11, testEpochMs)).not.toHaveProperty("share");
  });

  test("is not asked for without a cap or in the sandbox, and is never taken unseen", () => {
    const free = { caps: [], price: () => undefined };
    expect(countAll(undefined, free, testEpochMs)).toMatchObject({
      counted: true,
      taken: { countedDay: null },
      writes: {},
    });
    const way = { region: "NL", channel: "voice" } as const;
    expect(capsOf("default", way, capped)).toEqual([{ kind: "messages", max: 10 }]);
    expect(capsOf("default+test", way, { ...capped, dailyVoiceMax: 3 })).toEqual([]);
    const calls = { ...capped, dailyVoiceMax: 3 };
    expect(capsOf("default", way, calls)).toEqual([
      { kind: "messages", max: 10 },
      { kind: "calls", max: 3 },
    ]);
    expect(capsOf("default", { ...way, channel: "sms" }, calls)).toEqual([{ kind: "messages", max: 10 }]);
    expect(() => countMessage(undefined, 10, testEpochMs)).toThrow(/count/);
    expect(() => countMessage(dailyOf(0), 10, midnight)).toThrow(/count/);
  });
});

describe("a send and a resend", () => {
  const verification = verificationOf();
  const due = testEpochMs + 30 * secondMs;
  const send = (daily: DailyCount, phone = freshPhone, rules = capped) =>
    decideSend({ now: testEpochMs, phone, days: daysOf(daily) }, ok(sendFacts), { claim, policy: rules });
  const resend = (daily: DailyCount, phone = freshPhone) =>
    decideResend({ now: due, verification, phone, days: daysOf(daily) }, sameChannel, { claim, policy: capped });

  test("count the message they owe", () => {
    for (const { writes, result } of [send(dailyOf(7)), resend(dailyOf(7))]) {
      expect(writes.days).toEqual(daysOf(dailyOf(8, 80)));
      expect(writes.message?.countedDay).toBe(day);
      expect(result).toMatchObject({ reached: [{ share: 80, cap: 10 }] });
    }
  });

  test("are refused at the cap as SPEND_LIMIT, and write nothing at all", () => {
    for (const [{ writes, result }, now] of [
      [send(dailyOf(10, 100)), testEpochMs],
      [resend(dailyOf(10, 100)), due],
    ] as const) {
      expect(writes).toEqual({});
      expect(result).toMatchObject({ refusal: { reason: "SPEND_LIMIT", retryAfterMs: midnight - now } });
    }
  });

  test("are refused for the phone's limits first, and then count nothing", () => {
    const full = exhaustedPhone(due).view;
    expect(send(dailyOf(10, 100), full).result).toMatchObject({ refusal: { reason: "PHONE_RATE_LIMITED" } });
    expect(resend(dailyOf(9), full).writes).not.toHaveProperty("days");
  });

  test("take none without a cap", () => {
    const { writes } = send(dailyOf(3), freshPhone, policy);
    expect([writes.days, writes.message?.countedDay]).toEqual([undefined, null]);
  });
});

describe("a message that a provider answered", () => {
  const inHand = messageOf({ countedDay: day });
  const answered = (outcome: SendOutcome, daily: DailyCount | undefined, now = testEpochMs) =>
    decideSettle(
      { now, message: inHand, verification: verificationOf(), phone: freshPhone, days: daily && daysOf(daily) },
      { outcome, provider: "one", providers: 1, claimed: inHand },
      capped,
    );

  test("leaves the count when it is proven never to have left, once, while its day lasts", () => {
    const refused: SendOutcome = { kind: "refused", cause: "recipient", detail: "no" };
    const { writes } = answered(refused, dailyOf(4, 80));
    expect([writes.days, writes.message?.countedDay]).toEqual([daysOf(dailyOf(3, 80)), null]);
    // The store hands the day in only while it is the message's own.
    expect(answered(refused, undefined, midnight).writes).not.toHaveProperty("days");
  });

  test.each<[SendOutcome, number | null]>([
    [{ kind: "accepted" }, null],
    [{ kind: "accepted", delivery: "UNDELIVERED" }, null],
    [{ kind: "ambiguous", detail: "?" }, null],
    [{ kind: "unavailable", detail: "down" }, day],
    [{ kind: "throttled", detail: "slow" }, day],
  ])("%j keeps the count, and leaves day %s to its next call", (outcome, countedDay) => {
    const { writes } = answered(outcome, dailyOf(4));
    expect([writes.days, writes.message?.countedDay]).toEqual([undefined, countedDay]);
  });
});

describe("a further call", () => {
  const inHand = messageOf({ countedDay: day });
  const after = (outcome: SendOutcome, providers = 1) =>
    settle(inHand, { outcome, provider: "one", providers }, testEpochMs);

  test("is counted already if the one before never left", () => {
    const waiting = after({ kind: "unavailable", detail: "down" });
    expect([
      isNextCallCounted(waiting, testEpochMs),
      isNextCallCounted(waiting, midnight - 1),
      isNextCallCounted(waiting, midnight),
    ]).toEqual([true, true, false]);
    const released = unclaim({ ...claimed(waiting, testEpochMs), countedDay: day }, testEpochMs);
    expect(isNextCallCounted(released, testEpochMs)).toBe(true);
  });

  test.each<[string, ReturnType<typeof messageOf>]>([
    ["after an answer that tells nothing", after({ kind: "ambiguous", detail: "?" })],
    ["to another provider after an undelivered report", after({ kind: "accepted", delivery: "UNDELIVERED" }, 2)],
    ["of a message that a crash left in a dead worker's hand", inHand],
    ["of a message from before there was a cap", { ...after({ kind: "unavailable", detail: "" }), countedDay: null }],
  ])("%s needs one of its own", (_, message) => {
    expect(message.dueMs).not.toBeNull();
    expect(isNextCallCounted(message, testEpochMs)).toBe(false);
  });
});
