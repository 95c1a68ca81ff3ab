import { describe, expect, test } from "vitest";
import { channelName, channels, channelsOffered, channelsOn, findChannel } from "../../src/otp/channel.ts";
import { verificationEvents } from "../../src/otp/event.ts";
import { reasons } from "../../src/otp/reason.ts";
import { messageOf, verificationOf } from "../support/data/examples.ts";
import { testEpochMs } from "../support/service/system.ts";

test.each([
  ["", "sms"],
  ["sms", "sms"],
  ["SMS", "sms"],
  ["Sms", "sms"],
  ["sms ", undefined],
  ["pigeon", undefined],
  ["voice", undefined],
  ["WhatsApp", undefined],
])("'%s' is asked for: %s", (asked, found) => expect(findChannel(channelName(asked))).toBe(found));

test("rows name channels by position: the list only grows at its end", () => {
  expect(channels.slice(0, 3)).toEqual(["sms", "voice", "whatsapp"]);
  expect(channels).toEqual(expect.arrayContaining([...channelsOn]));
});

test("a caller is told which channels are on", () => {
  expect(reasons.CHANNEL_UNSUPPORTED.sentence).toBe(channelsOffered(channelsOn));
  expect(channelsOffered(["sms"])).toBe("channel is not offered here; the only one is sms.");
  expect(channelsOffered(["sms", "voice"])).toBe("channel is not offered here; those that are on are sms, voice.");
});

describe("an event", () => {
  const before = messageOf({ channel: "voice" });
  const after = messageOf({ channel: "voice", delivery: "ACCEPTED", dueMs: null, provider: "one" });

  test("about a message names that message's channel, one about a verification the one it was asked for by", () => {
    const asked = verificationOf({ channel: "whatsapp" });
    const [accepted, expired] = verificationEvents(
      asked,
      { ...asked, state: "EXPIRED", endMs: testEpochMs },
      { before, after },
      testEpochMs,
    );
    expect(accepted).toMatchObject({ type: "verification.accepted", facts: { channel: "voice" } });
    expect(expired).toMatchObject({ type: "verification.expired", facts: { channel: "whatsapp" } });
  });
});
