/**
 * Channels, by whichever surface a caller comes: those that are on are taken, each by its own providers in their order, and
 * all that is told of a verification names those that were used.
 */
import { decodeJwt } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Channel } from "../../src/otp/channel.ts";
import { expectRefusal } from "../support/data/contract.ts";
import { parseExposition } from "../support/readers/exposition.ts";
import { newPhone } from "../support/data/phones.ts";
import { surfaces, type Message, type Rpc } from "../support/clients/surfaces.ts";
import { createPhoneNetwork, startWorld, type PhoneNetwork, type World } from "../support/service/world.ts";

let world: World;
let [caller, second, chat]: PhoneNetwork[] = [];
const networks = () => {
  if (caller === undefined || second === undefined || chat === undefined) throw new Error("no networks yet");
  return { sms: world.network, voice: caller, second, whatsapp: chat };
};
beforeAll(async () => {
  [caller, second, chat] = ["caller", "second", "chat"].map(createPhoneNetwork);
  const { voice, whatsapp } = { voice: [caller, second], whatsapp: [chat] } as {
    voice: PhoneNetwork[];
    whatsapp: PhoneNetwork[];
  };
  world = await startWorld({ OTP_RESEND_GAPS: "1s,1s,1s" }, undefined, { voice, whatsapp });
});
afterAll(() => world.stop());

const landlines = Array.from({ length: 60 }, (_, i) => `+312012345${String(i).padStart(2, "0")}`);
const newLandline = () => landlines.pop() ?? "";

describe.each(surfaces)("over $name", (surface) => {
  const call = (rpc: Rpc, message: Message, headers: Record<string, string> = {}, key = world.key) =>
    surface.call(world.url, rpc, message, { key, headers });
  const idOf = async (message: Message, key = world.key) =>
    String((await call("SendOtp", message, {}, key)).value?.["request_id"]);
  const codeOf = (network: PhoneNetwork, phone: string) => network.received.findLast(({ to }) => to === phone)?.code;

  test.each<Channel>(["sms", "voice", "whatsapp"])(
    "a send by %s goes to that channel's provider, and verifies",
    async (channel) => {
      const phone = newPhone();
      const request_id = await idOf({ phone, channel: channel.toUpperCase() });
      const at = Object.entries(networks()).filter(([, { received }]) => received.some(({ to }) => to === phone));
      expect(at.map(([name]) => name)).toEqual([channel]);
      const { value = {} } = await call("VerifyOtp", { request_id, code: codeOf(networks()[channel], phone) ?? "" });
      expect(decodeJwt(String(value["receipt"]))).toMatchObject({ sub: request_id, phone, channels: [channel] });
    },
  );

  test("the same code is called instead, and GetOtp shows each message", async () => {
    const phone = newPhone();
    networks().sms.script.push({ kind: "accepted", delivery: "UNDELIVERED" });
    const request_id = await idOf({ phone });
    world.system.advance(1_000);
    expect((await call("ResendOtp", { request_id, channel: "Voice" })).value).toMatchObject({ resends_remaining: 2 });
    expect(codeOf(networks().voice, phone)).toBe(codeOf(networks().sms, phone));
    const { value } = await call("GetOtp", { request_id });
    expect(value).toMatchObject({
      channel: "sms",
      provider: "caller",
      delivery: "DELIVERY_ACCEPTED",
      messages: [
        { channel: "sms", provider: "test", delivery: "DELIVERY_UNDELIVERED", detail: "" },
        { channel: "voice", provider: "caller", delivery: "DELIVERY_ACCEPTED", detail: "" },
      ],
    });
  });

  test("the providers of a channel are tried in their own order, and their words stay with their message", async () => {
    const phone = newPhone();
    networks().voice.script.push({ kind: "refused", cause: "balance", detail: "no credit" });
    const request_id = await idOf({ phone, channel: "voice" });
    expect(codeOf(networks().second, phone)).toBe(codeOf(networks().voice, phone));
    expect((await call("GetOtp", { request_id })).value).toMatchObject({
      provider: "second",
      messages: [{ channel: "voice", provider: "second", delivery: "DELIVERY_ACCEPTED" }],
    });
  });

  test("a repeated resend is known by its channel", async () => {
    const phone = newPhone();
    const request_id = await idOf({ phone });
    world.system.advance(1_000);
    const headers = { "idempotency-key": `resend-${surface.name.replaceAll(" ", "-")}` };
    const first = await call("ResendOtp", { request_id, channel: "voice" }, headers);
    const again = await call("ResendOtp", { request_id, channel: "VOICE" }, headers);
    expect(again.value).toEqual(first.value);
    expect(networks().voice.received.filter(({ to }) => to === phone)).toHaveLength(1);
    for (const channel of ["", "whatsapp"]) {
      expectRefusal(await call("ResendOtp", { request_id, channel }, headers), "IDEMPOTENCY_KEY_REUSED");
    }
  });

  test("a channel that is none is refused with those that are on, and nothing is spent", async () => {
    const phone = newPhone();
    const refused = await call("SendOtp", { phone, channel: "pigeon" });
    expectRefusal(refused, "CHANNEL_UNSUPPORTED", { field: "channel" });
    expect(refused.message).toContain("those that are on are sms, voice, whatsapp");
    const request_id = await idOf({ phone });
    expectRefusal(await call("ResendOtp", { request_id, channel: "pigeon" }), "CHANNEL_UNSUPPORTED", {
      field: "channel",
    });
    expect((await call("GetOtp", { request_id })).value).toMatchObject({ resends_remaining: 3 });
  });

  test("a landline is called, and neither texted nor texted later", async () => {
    const phone = newLandline();
    expectRefusal(await call("SendOtp", { phone }), "PHONE_NOT_MOBILE", { field: "phone" });
    expectRefusal(await call("SendOtp", { phone, channel: "whatsapp" }), "PHONE_NOT_MOBILE", { field: "phone" });
    const request_id = await idOf({ phone, channel: "voice" });
    world.system.advance(1_000);
    expectRefusal(await call("ResendOtp", { request_id, channel: "sms" }), "PHONE_NOT_MOBILE", { field: "phone" });
    expect((await call("ResendOtp", { request_id })).value).toMatchObject({ state: "STATE_PENDING" });
    expect(networks().voice.received.filter(({ to }) => to === phone)).toHaveLength(2);
  });

  test.each(["+31900123456", "+449012345678", "+447012345678"])(
    "%s, which costs the caller, is not called",
    async (phone) => {
      expectRefusal(await call("SendOtp", { phone, channel: "voice" }), "PHONE_NOT_MOBILE", { field: "phone" });
    },
  );
});

describe("a publishable key", () => {
  const [rest] = surfaces;
  const call = (rpc: Rpc, message: Message, key: string) =>
    rest === undefined ? Promise.reject(new Error("no surface")) : rest.call(world.url, rpc, message, { key });

  test("uses the channels that it names, SMS unless it names any, for resends too", async () => {
    const app = { kind: "pub", isApp: true, scopes: ["send", "verify", "resend", "read"] } as const;
    const { text: plain } = await world.makeKey(app);
    const { text: both } = await world.makeKey({ ...app, channels: ["sms", "voice"] });
    const refused = await call("SendOtp", { phone: newPhone(), channel: "voice" }, plain);
    expectRefusal(refused, "CHANNEL_UNSUPPORTED", { field: "channel" });
    expect(refused.message).toContain("the only one is sms");
    const sent = await call("SendOtp", { phone: newPhone(), channel: "voice" }, both);
    const request_id = String(sent.value?.["request_id"]);
    world.system.advance(1_000);
    for (const channel of ["", "voice", "whatsapp"]) {
      expectRefusal(await call("ResendOtp", { request_id, channel }, plain), "CHANNEL_UNSUPPORTED", {
        field: "channel",
      });
    }
    expectRefusal(await call("ResendOtp", { request_id, channel: "whatsapp" }, both), "CHANNEL_UNSUPPORTED", {
      field: "channel",
    });
    expect((await call("ResendOtp", { request_id, channel: "sms" }, both)).value).toMatchObject({
      resends_remaining: 2,
    });
  });

  test("is not shown the messages", async () => {
    const { text: page } = await world.makeKey({ kind: "pub", isApp: true });
    const sent = await call("SendOtp", { phone: newPhone() }, world.key);
    const { value } = await call("GetOtp", { request_id: String(sent.value?.["request_id"]) }, page);
    expect(value).toMatchObject({ provider: "", delivery_detail: "", messages: [] });
  });
});

test("a provider that fails in one channel is still called in another: each has a breaker of its own", async () => {
  const shared = createPhoneNetwork("both");
  const own = await startWorld({ OTP_SEND_WAIT_MS: "500" }, undefined, { voice: [shared], whatsapp: [shared] });
  try {
    const [rest] = surfaces;
    const send = (channel: Channel) => rest?.call(own.url, "SendOtp", { phone: newPhone(), channel }, { key: own.key });
    shared.script.push(
      ...Array.from({ length: 5 }, () => ({ kind: "refused", cause: "balance", detail: "-" }) as const),
    );
    for (let i = 0; i < 5; i++) await send("voice");
    const called = shared.received.length;
    await send("voice");
    expect(shared.received).toHaveLength(called);
    expect((await send("whatsapp"))?.value).toMatchObject({ delivery: "DELIVERY_ACCEPTED" });
    expect(shared.received).toHaveLength(called + 1);
    const { value } = parseExposition(await (await fetch(`${own.url}/metrics`)).text());
    expect(value("otp_provider_breaker_open", { provider: "both", channel: "voice" })).toBe(1);
    expect(value("otp_provider_breaker_open", { provider: "both", channel: "whatsapp" })).toBe(0);
    expect(value("otp_provider_calls_total", { provider: "both", outcome: "refused", channel: "voice" })).toBe(5);
  } finally {
    await own.stop();
  }
});

test("limits and guesses count a phone over all channels", async () => {
  const own = await startWorld({ OTP_PHONE_LIMITS: "3@1h", OTP_RESEND_GAPS: "1s", OTP_MAX_ATTEMPTS: "10" }, undefined, {
    voice: [createPhoneNetwork("caller")],
    whatsapp: [createPhoneNetwork("chat")],
  });
  try {
    const [rest] = surfaces;
    const call = async (rpc: Rpc, message: Message) => {
      const outcome = await rest?.call(own.url, rpc, message, { key: own.key });
      if (outcome === undefined) throw new Error("no surface");
      return outcome;
    };
    const phone = newPhone();
    for (const channel of ["sms", "voice", "whatsapp"]) {
      expect((await call("SendOtp", { phone, channel })).value).toMatchObject({ state: "STATE_PENDING" });
    }
    for (const channel of ["sms", "voice", "whatsapp"]) {
      expectRefusal(await call("SendOtp", { phone, channel }), "PHONE_RATE_LIMITED", {
        field: "phone",
        retryAfterSeconds: 3_600,
      });
    }
    // Two live requests have ten guesses each.
    const other = newPhone();
    await call("SendOtp", { phone: other, channel: "voice" });
    await call("SendOtp", { phone: other, channel: "whatsapp" });
    expect((await call("SendOtp", { phone: other })).value).toMatchObject({ code_length: 8 });
  } finally {
    await own.stop();
  }
});

test("calls have a daily cap of their own, which a call that never left gives back", async () => {
  const line = createPhoneNetwork("line");
  const own = await startWorld({ OTP_VOICE_DAILY_CAP: "2", OTP_RESEND_GAPS: "1s" }, undefined, { voice: [line] });
  try {
    const [rest] = surfaces;
    const call = async (rpc: Rpc, message: Message) => {
      const outcome = await rest?.call(own.url, rpc, message, { key: own.key });
      if (outcome === undefined) throw new Error("no surface");
      return outcome;
    };
    const send = (channel: Channel) => call("SendOtp", { phone: newPhone(), channel });
    const { value } = await send("sms");
    expect((await send("voice")).value).toMatchObject({ state: "STATE_PENDING" });
    line.script.push({ kind: "refused", cause: "recipient", detail: "nobody" });
    expect((await send("voice")).reason).toBe("PHONE_UNREACHABLE");
    expect((await send("voice")).value).toMatchObject({ state: "STATE_PENDING" });
    const refused = await send("voice");
    expect([refused.reason, refused.message]).toEqual([
      "SPEND_LIMIT",
      "The daily cap on calls is reached. Other channels may have room.",
    ]);
    own.system.advance(1_000);
    const request_id = String(value?.["request_id"]);
    expect((await call("ResendOtp", { request_id, channel: "voice" })).reason).toBe("SPEND_LIMIT");
    expect((await call("ResendOtp", { request_id })).value).toMatchObject({ state: "STATE_PENDING" });
    expect(line.received).toHaveLength(3);
  } finally {
    await own.stop();
  }
});
