/** A message in a worker's hand: how long it is, and what comes of a call that nobody hears of, or hears of late. */
import { describe, expect, test } from "vitest";
import {
  claim,
  giveUp,
  isDone,
  isProvenUnsent,
  leaseMs,
  newMessage,
  report,
  settle,
  unclaim,
  type Message,
  type SendOutcome,
} from "../../../src/otp/message/message.ts";
import { messageOf, minuteMs, secondMs } from "../../support/data/examples.ts";
import { testEpochMs as now } from "../../support/service/system.ts";

const accepted: SendOutcome = { kind: "accepted", providerMessageId: "id-1" };
const unavailable: SendOutcome = { kind: "unavailable", detail: "no route" };
const ambiguous: SendOutcome = { kind: "ambiguous", detail: "timeout" };

const said = { detail: "1", isFromHolder: true, providers: 2 } as const;

describe("a claim", () => {
  const queued = settle(messageOf(), { outcome: unavailable, provider: "one", providers: 1 }, now);

  test("lasts 30 s and counts a call", () => {
    expect(
      newMessage({ verificationId: "id", copy: 0, channel: "sms", now, deadlineMs: now + minuteMs, countedDay: null }),
    ).toMatchObject({ calls: 1, dueMs: now + leaseMs });
    expect(claim(queued, now + 500)).toMatchObject({ delivery: "SENDING", calls: 2, dueMs: now + 500 + 30 * secondMs });
  });

  test("after a call that a crash cut short takes the message for perhaps sent", () => {
    expect(claim(queued, now).maybeSent).toBe(false);
    expect(claim(messageOf(), now + leaseMs).maybeSent).toBe(true);
  });

  test("that is given back leaves what its provider has said since", () => {
    expect(unclaim(report(claim(queued, now), { ...said, delivery: "ACCEPTED" }, now), now)).toMatchObject({
      delivery: "ACCEPTED",
      calls: 1,
      dueMs: null,
    });
  });

  test("that is given back leaves no trace", () => {
    expect(unclaim(claim(queued, now), now)).toEqual({ ...queued, dueMs: now });
    expect(claim(unclaim(messageOf(), now), now)).toEqual(messageOf());
  });
});

describe("a message too late to send", () => {
  const fateOf = (message: Message) => [message.delivery, isProvenUnsent(message) ? "proven unsent" : "perhaps sent"];

  test("is proven unsent if every call was", () => {
    const queued = settle(messageOf(), { outcome: unavailable, provider: "one", providers: 1 }, now);
    expect(fateOf(giveUp(queued))).toEqual(["EXPIRED", "proven unsent"]);
    expect(fateOf(giveUp(unclaim(messageOf(), now)))).toEqual(["EXPIRED", "proven unsent"]);
  });

  test("is undelivered if the provider that took it said so, and no later call may have sent it", () => {
    const taken = settle(messageOf(), { outcome: accepted, provider: "one", providers: 2 }, now);
    const returned = report(taken, { ...said, delivery: "UNDELIVERED" }, now);
    expect(giveUp(returned)).toMatchObject({ delivery: "UNDELIVERED", dueMs: null });
    const waiting = unclaim(claim(returned, now), now);
    expect(giveUp(waiting)).toMatchObject({ delivery: "UNDELIVERED", dueMs: null });
    expect(fateOf(giveUp(claim(returned, now)))).toEqual(["EXPIRED", "perhaps sent"]);
    expect(fateOf(giveUp(claim(claim(returned, now), now)))).toEqual(["EXPIRED", "perhaps sent"]);
  });

  test("may have been sent if a call was ambiguous or cut short", () => {
    expect(fateOf(giveUp(messageOf()))).toEqual(["EXPIRED", "perhaps sent"]);
    expect(fateOf(giveUp(settle(messageOf(), { outcome: ambiguous, provider: "one", providers: 1 }, now)))).toEqual([
      "EXPIRED",
      "perhaps sent",
    ]);
  });
});

describe("a deadline", () => {
  const claimedLate = (leftMs: number) =>
    newMessage({ verificationId: "id", copy: 0, channel: "sms", now, deadlineMs: now + leftMs, countedDay: null });

  test.each([1, leaseMs - 1, leaseMs, leaseMs + 1])(
    "%i ms away leaves a call under way in hand, and a report to its end",
    (leftMs) => {
      for (const message of [claimedLate(leftMs), claim(unclaim(claimedLate(leftMs), now), now)]) {
        expect(isDone(message)).toBe(false);
        const undelivered = report(message, { ...said, delivery: "UNDELIVERED" }, now);
        expect(undelivered).toMatchObject({ delivery: "UNDELIVERED", dueMs: message.dueMs });
        const ended = settle(undelivered, { outcome: accepted, provider: "one", providers: 2 }, now);
        expect(ended).toMatchObject({ delivery: "QUEUED", providerIndex: 1, dueMs: now });
      }
    },
  );

  test("does not take back what a report has said", () => {
    const waiting = settle(claimedLate(100), { outcome: ambiguous, provider: "one", providers: 1 }, now);
    const taken = report(waiting, { ...said, delivery: "ACCEPTED" }, now);
    expect(taken).toMatchObject({ delivery: "ACCEPTED", dueMs: null });
    const cutShort = report(messageOf(), { ...said, delivery: "ACCEPTED" }, now);
    expect(giveUp(cutShort)).toMatchObject({ delivery: "ACCEPTED", dueMs: null });
  });
});
