import { describe, expect, test } from "vitest";
import {
  channelName,
  channelRefused,
  channels,
  channelsFor,
  findChannel,
  type Channel,
} from "../../src/otp/channel.ts";
import { verificationEvents } from "../../src/otp/decisions/event.ts";
import {
  channelsUsed,
  emptyLog,
  entriesMax,
  withEntry,
  withNote,
  type Log,
  type LogEntry,
} from "../../src/otp/verification/verification.ts";
import { objectionTo, readNumber, type E164 } from "../../src/otp/phone-number.ts";
import { decideResend } from "../../src/otp/decisions/resending.ts";
import {
  freshPhone,
  messageOf,
  phone,
  policy,
  sameChannel,
  secondMs,
  verificationOf,
} from "../support/data/examples.ts";
import { testEpochMs } from "../support/service/system.ts";

const all: readonly Channel[] = channels;

test.each<[asked: string, offered: readonly Channel[], found: Channel | undefined]>([
  ["", ["sms"], "sms"],
  ["sms", ["sms"], "sms"],
  ["SMS", all, "sms"],
  ["Sms", all, "sms"],
  ["sms ", all, undefined],
  ["pigeon", all, undefined],
  ["voice", ["sms"], undefined],
  ["Voice", ["sms", "voice"], "voice"],
  ["WhatsApp", ["sms", "voice"], undefined],
  ["WhatsApp", all, "whatsapp"],
  ["", ["voice"], undefined],
])("'%s' is asked for where %j are offered: %s", (asked, offered, found) =>
  expect(findChannel(channelName(asked), offered)).toBe(found),
);

test("rows name channels by position: the list only grows at its end", () => {
  expect(all.slice(0, 3)).toEqual(["sms", "voice", "whatsapp"]);
});

test("a key that names channels may use those of them that are on, and any other all that are", () => {
  expect(channelsFor(["sms", "voice"], ["voice", "whatsapp"])).toEqual(["voice"]);
  expect(channelsFor(["sms", "voice"], undefined)).toEqual(["sms", "voice"]);
});

test("a caller is told which channels it may use", () => {
  const told = (...offered: Channel[]) => channelRefused(offered);
  expect(told("sms")).toEqual({
    reason: "CHANNEL_UNSUPPORTED",
    field: "channel",
    message: "channel is not offered here; the only one is sms.",
  });
  const voice = { names: ["voice"], uncapped: ["voice"] } as const;
  expect(channelRefused(["sms"], voice).message).toBe(
    "channel is not offered here: voice is on but its daily cap is 0; the only one is sms.",
  );
  expect(channelRefused(["sms"], { ...voice, names: ["whatsapp"] }).message).not.toContain("cap");
  expect(told("sms", "voice").message).toBe("channel is not offered here; those that are on are sms, voice.");
  expect(told().message).toBe("channel is not offered to this API key.");
});

describe("a number", () => {
  test.each<[input: string, what: string, by: readonly Channel[]]>([
    ["+31612345678", "a mobile", ["sms", "voice", "whatsapp"]],
    ["+14155552671", "a number that may be a mobile", ["sms", "voice", "whatsapp"]],
    ["+31201234567", "a landline", ["voice"]],
    ["+31900123456", "a premium rate number", []],
    ["+449012345678", "a British premium rate number", []],
    ["+448431234567", "a shared cost number", []],
    ["+447012345678", "a personal number, which may cost anything", []],
    ["+18005550123", "a toll free number", []],
    ["+5631234567", "a number of no plan", []],
    ["+881612345678", "a satellite phone", []],
    ["+88213300655", "a number of an international network", []],
    ["+97912345678", "an international premium rate number", []],
  ])("%s, %s, gets messages by %j", (input, _, by) => {
    expect(all.filter((channel) => objectionTo(readNumber(input as E164), channel) === undefined)).toEqual(by);
  });

  test("is told why it gets none, by the channel that was asked for", () => {
    const said = (channel: Channel, input = "+31900123456") => objectionTo(readNumber(input as E164), channel)?.message;
    expect([said("sms"), said("voice"), said("whatsapp")]).toEqual([
      "phone is not a mobile number, so it gets no SMS.",
      "phone is neither a mobile number nor a landline, so it is not called.",
      "phone is not a mobile number, so it gets no WhatsApp message.",
    ]);
    expect(said("voice", "+881612345678")).toBe(
      "phone is of a satellite or international network, which gets no call from here.",
    );
  });
});

describe("a resend", () => {
  const verification = verificationOf({});
  const now = verification.nextResendMs;
  const view = { now, verification, phone: freshPhone };
  const terms = { claim: undefined, policy };

  test("goes by the channel that it names, and the verification stays that of its send", () => {
    const { writes } = decideResend(view, { ...sameChannel, channel: "voice" }, terms);
    expect(writes).toMatchObject({
      message: { copy: 1, channel: "voice" },
      verification: { channel: "sms", resends: 1 },
    });
    expect(writes.verification?.log.entries.at(-1)).toMatchObject({ kind: "resend", outcome: "voice", copy: 1 });
  });

  test("that names none goes as the send went", () => {
    const asked = { ...view, verification: { ...verification, channel: "whatsapp" as const } };
    expect(decideResend(asked, sameChannel, terms).writes.message?.channel).toBe("whatsapp");
  });

  test("is refused by a channel that the caller may not use, named or not, before its time is looked at", () => {
    const early = { ...view, now: now - 1 };
    const offered = ["sms"] as const;
    const byName = decideResend(early, { ...sameChannel, offered, channel: "voice" }, terms);
    expect(byName).toMatchObject({
      writes: {},
      result: { refusal: { reason: "CHANNEL_UNSUPPORTED", field: "channel" } },
    });
    const asked = { ...early, verification: { ...verification, channel: "voice" as const } };
    expect(decideResend(asked, { ...sameChannel, offered }, terms)).toMatchObject({
      writes: {},
      result: { refusal: { reason: "CHANNEL_UNSUPPORTED" } },
    });
  });

  test("is refused by a channel that does not suit the number, unless the operator allows that", () => {
    const landline = { ...phone, kind: "landline" as const };
    const called = { ...view, verification: { ...verification, channel: "voice" as const } };
    const facts = { ...sameChannel, channel: "sms", numberOf: () => landline };
    expect(decideResend(called, facts, terms)).toMatchObject({
      writes: {},
      result: { refusal: { reason: "PHONE_NOT_MOBILE", field: "phone" } },
    });
    expect(decideResend({ ...called, verdict: "allow" as const }, facts, terms).writes.message?.channel).toBe("sms");
  });

  test("waits for the gap of the request, whichever channel comes next", () => {
    const once = decideResend(view, { ...sameChannel, channel: "voice" }, terms).writes.verification ?? verification;
    const soon = { ...view, now: once.nextResendMs - 1, verification: once };
    const by = (channel: string) => decideResend(soon, { ...sameChannel, channel }, terms).result;
    for (const channel of all)
      expect(by(channel)).toMatchObject({ refusal: { reason: "RESEND_TOO_SOON", retryAfterMs: 1 } });
    const twice = { ...once, resends: policy.resendGapsMs.length, nextResendMs: soon.now };
    const third = decideResend({ ...soon, verification: twice }, { ...sameChannel, channel: "whatsapp" }, terms).result;
    expect(third).toMatchObject({ refusal: { reason: "RESENDS_EXHAUSTED" } });
  });
});

describe("the channels that were used", () => {
  const resent = (copy: number, channel: Channel, resends = copy) => {
    const { log } = withNote(verificationOf({ resends: copy }), { kind: "resend", outcome: channel }, testEpochMs);
    return { log, resends };
  };

  test("are that of the send and those of the resends, each once", () => {
    expect(channelsUsed(verificationOf({ channel: "voice" }))).toEqual(["voice"]);
    expect(channelsUsed(verificationOf({ ...resent(1, "voice") }))).toEqual(["sms", "voice"]);
    expect(channelsUsed(verificationOf({ ...resent(1, "sms") }))).toEqual(["sms"]);
  });

  test("do not count a resend that was taken back", () => {
    expect(channelsUsed(verificationOf({ ...resent(1, "voice", 0) }))).toEqual(["sms"]);
  });

  test("are known though much has happened since", () => {
    const { log } = resent(1, "voice");
    const guess: LogEntry = { kind: "guess", outcome: "wrong", copy: 1, provider: null, offsetMs: 1 };
    const before = Array.from({ length: entriesMax / 2 }, () => guess).reduce(withEntry, emptyLog);
    const [entry = guess] = log.entries;
    const full = Array.from({ length: 3 * entriesMax }, () => guess).reduce(withEntry, withEntry(before, entry));
    expect(full.entries).toHaveLength(entriesMax);
    expect(channelsUsed(verificationOf({ log: full, resends: 1 }))).toEqual(["sms", "voice"]);
  });

  test("are known though resends without end never left, before and after", () => {
    const noted = (log: Log, outcome: Channel, copy: number) =>
      withEntry(log, { kind: "resend", outcome, copy, provider: null, offsetMs: 1 });
    const guess: LogEntry = { kind: "guess", outcome: "wrong", copy: 0, provider: null, offsetMs: 1 };
    const begun = Array.from({ length: entriesMax / 2 - 1 }, () => guess).reduce(withEntry, emptyLog);
    // One by WhatsApp never left, a call did, and then none by WhatsApp: each has the copy of the one before.
    const spoken = noted(noted(begun, "whatsapp", 1), "voice", 1);
    const full = Array.from({ length: 3 * entriesMax }).reduce<Log>((log) => noted(log, "whatsapp", 2), spoken);
    expect(full.entries).toHaveLength(entriesMax);
    expect(channelsUsed(verificationOf({ log: full, resends: 1 }))).toEqual(["sms", "voice"]);
  });
});

describe("an event", () => {
  const before = messageOf({ channel: "voice" });
  const after = messageOf({ channel: "voice", delivery: "ACCEPTED", dueMs: null, provider: "one" });

  test("about a message names that message's channel, one about a verification the one it was asked for by", () => {
    const asked = verificationOf({ channel: "whatsapp" });
    const [accepted, expired] = verificationEvents(
      asked,
      { ...asked, state: "EXPIRED", endMs: testEpochMs + secondMs },
      [{ before, after }],
      testEpochMs,
    );
    expect(accepted).toMatchObject({
      type: "verification.accepted",
      facts: { channel: "voice", channels: ["whatsapp"] },
    });
    expect(expired).toMatchObject({
      type: "verification.expired",
      facts: { channel: "whatsapp", channels: ["whatsapp"] },
    });
  });
});
