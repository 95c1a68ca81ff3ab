import { describe, expect, test } from "vitest";
import { parseDurationMs } from "../../../src/config/shapes.ts";
import type { Channel } from "../../../src/otp/channel.ts";
import { decideSend, type SendFacts } from "../../../src/otp/decisions/sending.ts";
import { decideVerify } from "../../../src/otp/decisions/verifying.ts";
import { channelsAfter, parseFallback, type Fallback } from "../../../src/otp/message/fallback.ts";
import { decideFallback, type FallbackView } from "../../../src/otp/decisions/falling-back.ts";
import type { Days } from "../../../src/otp/verification/daily-cap.ts";
import { leaseMs, type Message, type SendOutcome } from "../../../src/otp/message/message.ts";
import { dayOf, sendLifeMinMs, type Policy } from "../../../src/otp/verification/policy.ts";
import { giveBackAll, spendAll } from "../../../src/otp/limits/rate-limit.ts";
import { ok } from "../../../src/otp/reason.ts";
import { decideResend } from "../../../src/otp/decisions/resending.ts";
import { decideReport, decideSettle } from "../../../src/otp/decisions/settlement.ts";
import type { PriceOf } from "../../../src/otp/decisions/spending.ts";
import { channelsUsed, end, type Verification } from "../../../src/otp/verification/verification.ts";
import type { PhoneView } from "../../../src/otp/decisions/writes.ts";
import {
  endedAs,
  exhaustedPhone,
  freshPhone,
  keys,
  messageOf,
  policy,
  rightCode,
  sameChannel,
  secondMs,
  sendFacts,
  verificationOf,
} from "../../support/data/examples.ts";
import { testEpochMs as now } from "../../support/service/system.ts";

const all: readonly Channel[] = ["sms", "voice", "whatsapp"];
const afterMs = 30 * secondMs;
const plan = (changes: Partial<Fallback> = {}): Fallback => ({
  channels: ["voice", "whatsapp"],
  afterMs,
  dueMs: now + afterMs,
  owed: 0,
  unsent: [],
  ...changes,
});
const spent: Fallback = plan({ channels: [], dueMs: null });
const last = (changes: Partial<Fallback> = {}) => plan({ channels: ["voice"], ...changes });
const falling = (changes: Partial<Verification> = {}) => verificationOf({ fallback: plan(), ...changes });

const accepted = { kind: "accepted" } as const;
const refused: SendOutcome = { kind: "refused", cause: "recipient", detail: "no" };

/** A phone that was sent so many messages at the start. */
function phoneAfter(sends: number): PhoneView {
  let tats: readonly number[] = freshPhone.tats;
  for (let i = 0; i < sends; i++) tats = spendAll(policy.phoneLimits, tats, now).tatsMs ?? tats;
  return { ...freshPhone, tats };
}

const acceptedMessage = messageOf({ delivery: "ACCEPTED", dueMs: null, maybeSent: true });

function decided(changes: Partial<FallbackView> = {}, on = all, more: Partial<Policy> = {}) {
  const at = now + afterMs;
  const view = { now: at, verification: falling(), message: acceptedMessage, phone: phoneAfter(1), ...changes };
  return decideFallback(view, { policy: { ...policy, ...more }, channelsOn: on });
}

test.each<[text: string, found: object | undefined]>([
  ["whatsapp>sms@30s", { channels: ["whatsapp", "sms"], afterMs: 30_000 }],
  ["SMS > voice > WhatsApp @ 2m", { channels: ["sms", "voice", "whatsapp"], afterMs: 120_000 }],
  ["voice>sms@15", { channels: ["voice", "sms"], afterMs: 15_000 }],
  ["whatsapp>sms", undefined],
  ["whatsapp>sms@", undefined],
  ["whatsapp>sms@14s", undefined],
  ["whatsapp>sms@121s", undefined],
  ["whatsapp>sms@30s@30s", undefined],
  ["whatsapp@30s", undefined],
  ["whatsapp>@30s", undefined],
  ["whatsapp>pigeon@30s", undefined],
  ["sms>sms@30s", undefined],
  ["", undefined],
])("the order '%s' is read as %j", (text, found) => {
  expect(parseFallback(text, parseDurationMs)).toEqual(found);
});

test.each<[channel: Channel, others: Channel[]]>([
  ["whatsapp", ["sms"]],
  ["sms", []],
  ["voice", []],
])("after %s the order whatsapp>sms goes on with %j", (channel, others) => {
  expect(channelsAfter(channel, { channels: ["whatsapp", "sms"], afterMs })).toEqual(others);
});

describe("a send", () => {
  const opened = (changes: Partial<SendFacts>, more: Partial<Policy> = {}) => {
    const facts = ok({ ...sendFacts, ...changes });
    const terms = { claim: undefined, policy: { ...policy, ...more } };
    const { result } = decideSend({ now, phone: freshPhone }, facts, terms);
    if (result.kind !== "opened") throw new Error(result.kind);
    return result;
  };

  test("by one channel keeps no plan", () => {
    expect(opened({}).verification.fallback).toBeNull();
  });

  test("keeps its plan, with the time of its next message", () => {
    const { verification } = opened({ fallback: { channels: ["voice", "whatsapp"], afterMs } });
    expect(verification.fallback).toEqual(plan());
  });

  test("waits no longer than its code has use for the next message", () => {
    const short = { ttlMs: 180 * secondMs };
    const { verification } = opened({ fallback: { channels: ["voice", "whatsapp"], afterMs: 120 * secondMs } }, short);
    // 70 s are left then: a minute, and the time of two providers' calls.
    expect(verification.fallback?.dueMs).toBe(now + 110 * secondMs);
    const at = now + 60 * secondMs;
    const due = { ...verification, fallback: plan({ afterMs: 60 * secondMs, dueMs: at }) };
    expect(decided({ now: at, verification: due }).writes).toMatchObject({
      message: { channel: "voice" },
      verification: { fallback: { channels: ["whatsapp"], dueMs: now + 110 * secondMs } },
    });
    // The shortest wait holds all the same.
    const late = now + 105 * secondMs;
    const lateDue = { ...due, fallback: plan({ afterMs: 60 * secondMs, dueMs: late }) };
    expect(decided({ now: late, verification: lateDue }).writes.verification?.fallback?.dueMs).toBe(
      late + 15 * secondMs,
    );
  });

  test("skips the channels that do not suit its number, the first too", () => {
    const landline = { ...sendFacts.phone, kind: "landline" as const };
    const { verification, message } = opened({
      phone: landline,
      fallback: { channels: ["whatsapp", "voice"], afterMs },
    });
    expect([verification.channel, message.channel, verification.fallback]).toEqual(["voice", "voice", null]);
  });
});

describe("a fallback that is due", () => {
  test("owes the same code by the next channel, spends what a message costs and begins the gap anew", () => {
    const { writes, result } = decided();
    const at = now + afterMs;
    expect(writes.message).toMatchObject({ copy: 1, channel: "voice", delivery: "SENDING", dueMs: at + leaseMs });
    expect(writes.verification).toMatchObject({
      state: "PENDING",
      resends: 0,
      delivery: "SENDING",
      nextResendMs: at + (policy.resendGapsMs[0] ?? 0),
      fallback: plan({ channels: ["whatsapp"], dueMs: at + afterMs, owed: 1 }),
    });
    expect(writes.tats).toEqual(spendAll(policy.phoneLimits, phoneAfter(1).tats, at).tatsMs);
    expect(result?.message).toEqual(writes.message);
    expect(writes.earlier).toBeUndefined();
  });

  test("by the last channel plans no further one", () => {
    const { writes } = decided({ verification: falling({ fallback: last() }) });
    expect(writes.verification?.fallback).toEqual(plan({ channels: [], dueMs: null, owed: 1 }));
  });

  test("skips a channel that is not on any more", () => {
    expect(decided({}, ["sms", "whatsapp"]).writes.message).toMatchObject({ copy: 1, channel: "whatsapp" });
  });

  test.each<[what: string, changes: Partial<FallbackView>, on?: readonly Channel[], more?: Partial<Policy>]>([
    ["no channel that is left is on", {}, ["sms"]],
    ["less than a minute of its life is left", { now: verificationOf().expireMs - sendLifeMinMs }],
    ["an entry blocks the number by now", { verdict: "block" }],
    ["the number has no message left", { phone: exhaustedPhone(now + afterMs).view }],
    [
      "the daily cap is reached",
      { days: new Map([["messages", { day: dayOf(now), count: 7, warned: 100, warnedCap: 7 }]]) },
      all,
      { dailyMessagesMax: 7 },
    ],
  ])("owes nothing, and never will, when %s", (_, changes, on, more) => {
    const { writes, result } = decided(changes, on, more);
    expect(result).toBeUndefined();
    expect(writes.message).toBeUndefined();
    expect(writes.tats).toBeUndefined();
    expect(writes.verification).toEqual(falling({ fallback: spent }));
  });

  const dear = (_: Verification, channel: Channel) => (channel === "voice" ? 900 : 70);

  test.each<[what: string, terms: { policy?: Partial<Policy>; priceOf?: PriceOf }, days: Days]>([
    [
      "calls",
      { policy: { dailyVoiceMax: 5 } },
      new Map([["calls", { day: dayOf(now), count: 5, warned: 0, warnedCap: 0 }]]),
    ],
    [
      "money, which is enough for a cheaper one",
      { policy: { dailySpend: { max: 1_000, currency: "EUR" } }, priceOf: dear },
      new Map([["spend", { day: dayOf(now), count: 800, warned: 80, warnedCap: 1_000 }]]),
    ],
    [
      "money, as its price is not known",
      {
        policy: { dailySpend: { max: 1_000, currency: "EUR" } },
        priceOf: (_, channel) => (channel === "voice" ? undefined : 70),
      },
      new Map([["spend", { day: dayOf(now), count: 0, warned: 0, warnedCap: 0 }]]),
    ],
  ])(
    "goes by the next channel where the first has no room under the cap on %s",
    (_, { policy: more, priceOf }, days) => {
      const at = now + afterMs;
      const view = { now: at, verification: falling(), message: acceptedMessage, phone: phoneAfter(1), days };
      const terms = { policy: { ...policy, ...more }, channelsOn: all, priceOf };
      const { writes, result } = decideFallback(view, terms);
      expect(result?.message).toMatchObject({ channel: "whatsapp", copy: 1 });
      expect(writes.days?.has("calls")).toBe(false);
      expect(writes.verification?.fallback).toEqual(plan({ channels: [], dueMs: null, owed: 1 }));
      const alone = decideFallback({ ...view, verification: falling({ fallback: last() }) }, terms);
      expect([alone.result, alone.writes]).toEqual([undefined, { verification: falling({ fallback: spent }) }]);
    },
  );

  test.each<[what: string, verification: Verification]>([
    ["its time has not come", falling({ fallback: plan({ dueMs: now + afterMs + 1 }) })],
    ["nothing is planned", falling({ fallback: spent })],
    ["the verification has no plan", verificationOf()],
  ])("owes nothing, and changes nothing, while %s", (_, verification) => {
    expect(decided({ verification })).toEqual({ writes: {}, result: undefined });
  });

  test("owes nothing once the verification has ended", () => {
    const { writes, result } = decided({ verification: endedAs("CANCELED", { fallback: plan() }) });
    expect([result, writes.message, writes.verification?.fallback]).toEqual([undefined, undefined, spent]);
  });

  test.each<[what: string, changes: Partial<Message>]>([
    ["is under way", { dueMs: now + afterMs + 1 }],
    ["is under way, reported already", { delivery: "UNDELIVERED", dueMs: now + afterMs + 1 }],
  ])("waits a second while a call of the message before %s", (_, changes) => {
    const { writes, result } = decided({ message: messageOf(changes) });
    const later = plan({ dueMs: now + afterMs + secondMs });
    expect({ writes, result }).toEqual({ writes: { verification: falling({ fallback: later }) }, result: undefined });
  });

  test("gives up a message that waits for a retry and never left, which pays for the next", () => {
    const waiting = messageOf({ delivery: "QUEUED", calls: 1, failures: 1, dueMs: now + afterMs + 1 });
    const { writes } = decided({ message: waiting });
    const at = now + afterMs;
    expect(writes.earlier).toMatchObject({ copy: 0, delivery: "EXPIRED", dueMs: null });
    expect(writes.verification?.fallback).toMatchObject({ owed: 1, unsent: [0] });
    const back = giveBackAll(policy.phoneLimits, phoneAfter(1).tats, at, 1);
    expect(writes.tats).toEqual(spendAll(policy.phoneLimits, back, at).tatsMs);
  });

  test("gives up a message that waits for a retry and may have left, which has cost what it cost", () => {
    const waiting = messageOf({ delivery: "QUEUED", failures: 1, maybeSent: true, dueMs: now + afterMs + 1 });
    const { writes } = decided({ message: waiting });
    expect(writes.earlier).toMatchObject({ delivery: "EXPIRED", dueMs: null });
    expect(writes.verification?.fallback).toMatchObject({ owed: 1, unsent: [] });
    expect(writes.tats).toEqual(spendAll(policy.phoneLimits, phoneAfter(1).tats, now + afterMs).tatsMs);
  });

  test("gives up a message whose worker is gone with its lease: it may have left", () => {
    const { writes } = decided({ message: messageOf({ dueMs: now + afterMs }) });
    expect(writes.earlier).toMatchObject({ delivery: "EXPIRED", dueMs: null, maybeSent: true });
    expect(writes.verification?.fallback).toMatchObject({ unsent: [] });
  });

  test("leaves a message alone that only waits for its provider's report", () => {
    const { deadlineMs } = messageOf();
    const waiting = messageOf({ calls: 2, failures: 2, maybeSent: true, dueMs: deadlineMs });
    const { writes } = decided({ message: waiting });
    expect(writes.earlier).toBeUndefined();
    expect(writes.message).toMatchObject({ copy: 1 });
  });

  test.each(["REJECTED", "EXPIRED"] as const)(
    "that is refused fails a verification of which nothing has left, as %s as its message is",
    (delivery) => {
      const verification = falling({ delivery: "QUEUED", fallback: last({ unsent: [0] }) });
      const message = messageOf({ delivery, dueMs: null });
      const { writes } = decided({ verification, message, verdict: "block" });
      expect(writes.verification).toMatchObject({ state: "FAILED", salt: null, delivery });
    },
  );

  test("that is refused leaves queued what still waits for its next call", () => {
    const verification = falling({ delivery: "QUEUED", fallback: last() });
    const message = messageOf({ delivery: "QUEUED", dueMs: now + 2 * afterMs });
    const { writes } = decided({ verification, message, verdict: "block" });
    expect(writes.verification).toMatchObject({ state: "PENDING", delivery: "QUEUED" });
  });
});

describe("a message of a verification that falls back", () => {
  const settled = (verification: Verification, outcome: SendOutcome, message = messageOf()) =>
    decideSettle(
      { now: now + secondMs, message, verification, phone: phoneAfter(2) },
      { outcome, provider: "one", providers: 1, claimed: message },
      policy,
    ).writes;

  test("that is proven unsent has the next one owed at once, gives its budget back and fails nothing", () => {
    const writes = settled(falling({ delivery: "SENDING" }), refused);
    expect(writes.verification).toMatchObject({
      state: "PENDING",
      delivery: "QUEUED",
      fallback: plan({ dueMs: now + secondMs, unsent: [0] }),
    });
    expect(writes.tats).toEqual(giveBackAll(policy.phoneLimits, phoneAfter(2).tats, now + secondMs, 1));
  });

  test.each<[what: string, unsent: number[], state: string]>([
    ["fails it, where nothing else has left", [0], "FAILED"],
    ["leaves it pending, where another may have left", [], "PENDING"],
  ])("that is the last, and proven unsent, %s", (_, unsent, state) => {
    const verification = falling({ fallback: { ...spent, owed: 1, unsent } });
    const writes = settled(verification, refused, messageOf({ copy: 1, channel: "voice" }));
    expect(writes.verification).toMatchObject({ state, fallback: { unsent: [...unsent, 1] } });
  });

  test("that is accepted leaves the time of the next as it is", () => {
    expect(settled(falling(), accepted).verification?.fallback).toEqual(plan());
  });

  test("that its provider takes and loses at once has the next one owed at once", () => {
    const writes = settled(falling(), { kind: "accepted", delivery: "UNDELIVERED" });
    expect(writes.verification?.fallback).toEqual(plan({ dueMs: now + secondMs }));
  });

  test("that is the resend after a fallback counts as a resend, and is taken back alone", () => {
    const verification = falling({ resends: 1, fallback: { ...spent, owed: 1 } });
    const writes = settled(verification, refused, messageOf({ copy: 2 }));
    expect(writes.verification).toMatchObject({ state: "PENDING", resends: 0, fallback: { owed: 1, unsent: [] } });
  });

  const reported = (verification: Verification, message: Message, providers: readonly string[]) =>
    decideReport(
      { now: now + secondMs, message, verification, phone: phoneAfter(1) },
      {
        provider: "one",
        providersOf: () => providers,
        delivery: "UNDELIVERED",
        detail: undefined,
        providerMessageId: undefined,
      },
    ).writes;

  test("that is reported undelivered has the next one owed at once, when no provider is left", () => {
    const writes = reported(falling(), acceptedMessage, ["one"]);
    expect(writes.message).toMatchObject({ delivery: "UNDELIVERED", dueMs: null });
    expect(writes.verification?.fallback).toEqual(plan({ dueMs: now + secondMs }));
  });

  test("goes to the next provider of its channel first", () => {
    const writes = reported(falling(), acceptedMessage, ["one", "two"]);
    expect(writes.message).toMatchObject({ delivery: "QUEUED", providerIndex: 1 });
    expect(writes.verification?.fallback).toEqual(plan());
  });

  test("goes to no other provider once the next channel has its place", () => {
    const verification = falling({ fallback: last({ owed: 1 }) });
    const writes = reported(verification, acceptedMessage, ["one", "two"]);
    expect(writes.message).toMatchObject({ delivery: "UNDELIVERED", dueMs: null });
    expect(writes.verification?.fallback).toEqual(last({ owed: 1 }));
  });
});

test("a resend ends the plan, and its copy comes after those of fallbacks", () => {
  const verification = falling({ fallback: last({ owed: 1 }) });
  const view = { now: now + afterMs, verification, phone: phoneAfter(1) };
  const { writes } = decideResend(view, sameChannel, { claim: undefined, policy });
  expect(writes.verification).toMatchObject({ resends: 1, fallback: { ...spent, owed: 1 } });
  expect(writes.message).toMatchObject({ copy: 2, channel: "sms" });
});

test.each<[what: string, fallback: Fallback | null, count: number]>([
  ["one by one channel its message", null, 1],
  ["one that fell back both messages", { ...spent, owed: 1 }, 2],
  ["one that fell back for what never left the one that is out", { ...spent, owed: 1, unsent: [0] }, 1],
])("a success gives back what is spent: %s", (_, fallback, count) => {
  const verification = verificationOf({ fallback });
  const code = rightCode(verification);
  const { writes } = decideVerify(
    { now, verification, phone: phoneAfter(3) },
    { code, purpose: "login", bind: "" },
    { claim: undefined, keys, policy },
  );
  expect(writes.tats).toEqual(giveBackAll(policy.phoneLimits, phoneAfter(3).tats, now, count));
  expect(writes.verification?.fallback?.dueMs ?? null).toBeNull();
});

test("the end of a verification is the end of its plan", () => {
  expect(end(falling(), "CANCELED", now).fallback).toEqual(spent);
});

test("the channels used are those by which something may have left", () => {
  const { writes } = decided();
  const fallen = writes.verification ?? falling();
  expect(channelsUsed(fallen)).toEqual(["sms", "voice"]);
  expect(channelsUsed({ ...fallen, fallback: { ...spent, owed: 1, unsent: [0] } })).toEqual(["voice"]);
});
