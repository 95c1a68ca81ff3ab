/**
 * Fallback, by whichever surface a caller comes: a code that does not arrive, or is not verified in time, goes out by the
 * next channel, once, and all that is told of the verification says so.
 */
import { decodeJwt } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectRefusal, type ContractReason } from "../support/data/contract.ts";
import { newPhone } from "../support/data/phones.ts";
import { createSteppedSystem } from "../support/service/system.ts";
import { surfaces, type Message, type Rpc } from "../support/clients/surfaces.ts";
import { createPhoneNetwork, startWorld, type PhoneNetwork, type World } from "../support/service/world.ts";

let world: World;
const voice = createPhoneNetwork("caller");
const whatsapp = createPhoneNetwork("chat");
const refusal = { kind: "refused", cause: "recipient", detail: "no such user" } as const;

beforeAll(async () => {
  const order = { OTP_FALLBACK: "whatsapp>sms@30s", OTP_WHATSAPP_PROVIDERS: "console" };
  world = await startWorld(order, createSteppedSystem(), { voice: [voice], whatsapp: [whatsapp] });
});
afterAll(() => world.stop());

const landlines = Array.from({ length: 60 }, (_, i) => `+312012345${String(i).padStart(2, "0")}`);
const newLandline = () => landlines.pop() ?? "";

const gotBy = ({ received }: PhoneNetwork, phone: string) => received.filter(({ to }) => to === phone);

describe.each(surfaces)("over $name", (surface) => {
  const call = (rpc: Rpc, message: Message, headers: Record<string, string> = {}, key = world.key) =>
    surface.call(world.url, rpc, message, { key, headers });
  const open = async (message: Message) => {
    const sent = await call("SendOtp", message);
    return { sent, request_id: String(sent.value?.["request_id"]) };
  };
  const arrived = async (network: PhoneNetwork, phone: string) => {
    await expect.poll(() => gotBy(network, phone).length).toBeGreaterThan(0);
  };
  const owed = async (request_id: string) => {
    const { value } = await call("GetOtp", { request_id });
    const messages = (value?.["messages"] ?? []) as { channel: string }[];
    return messages.map(({ channel }) => channel);
  };
  /** Lets so much time pass, 15 s or more, until what is due then is owed: a code that was sent for that alone is called. */
  async function pass(ms: number): Promise<void> {
    const phone = newPhone();
    await open({ phone, fallback_channels: ["voice"], fallback_after_seconds: 15 });
    world.system.advance(ms);
    await arrived(voice, phone);
  }

  test("a code that nobody verifies goes out by the next channel in its time, and once", async () => {
    const phone = newPhone();
    const { request_id } = await open({ phone, fallback_channels: ["Voice"], fallback_after_seconds: 20 });
    await pass(19_000);
    expect(await owed(request_id)).toEqual(["sms"]);
    world.system.advance(1_000);
    await arrived(voice, phone);
    await pass(60_000);
    expect(await owed(request_id)).toEqual(["sms", "voice"]);
    expect(gotBy(voice, phone)).toHaveLength(1);
    const [code] = gotBy(voice, phone).map((message) => message.code);
    expect(gotBy(world.network, phone).map((message) => message.code)).toEqual([code]);
    expect((await call("GetOtp", { request_id })).value).toMatchObject({
      state: "STATE_PENDING",
      channel: "sms",
      provider: "caller",
      resends_remaining: 2,
      messages: [
        { channel: "sms", provider: "test", delivery: "DELIVERY_ACCEPTED" },
        { channel: "voice", provider: "caller", delivery: "DELIVERY_ACCEPTED" },
      ],
    });
    const { value = {} } = await call("VerifyOtp", { request_id, code: code ?? "" });
    expect(decodeJwt(String(value["receipt"]))).toMatchObject({ channels: ["sms", "voice"] });
  });

  test("a code that was verified goes nowhere else", async () => {
    const phone = newPhone();
    const { request_id } = await open({ phone, fallback_channels: ["voice"] });
    const [sms] = gotBy(world.network, phone);
    expect((await call("VerifyOtp", { request_id, code: sms?.code ?? "" })).value).toMatchObject({
      state: "STATE_VERIFIED",
    });
    await pass(120_000);
    expect(await owed(request_id)).not.toContain("voice");
  });

  test("what every provider of a channel refuses goes by the next at once, and the send is not refused", async () => {
    const phone = newPhone();
    world.network.script.push(refusal);
    const { sent, request_id } = await open({ phone, fallback_channels: ["voice", "whatsapp"] });
    expect(sent.value).toMatchObject({ state: "STATE_PENDING", delivery: "DELIVERY_QUEUED" });
    const messages = async () => (await call("GetOtp", { request_id })).value?.["messages"];
    await expect.poll(messages).toMatchObject([
      { channel: "sms", delivery: "DELIVERY_REJECTED", detail: "no such user" },
      { channel: "voice", provider: "caller", delivery: "DELIVERY_ACCEPTED" },
    ]);
  });

  test("it has failed only once every channel has refused it", async () => {
    const phone = newPhone();
    for (const network of [world.network, voice, whatsapp]) network.script.push(refusal);
    const { request_id } = await open({ phone, fallback_channels: ["voice", "whatsapp"] });
    await arrived(whatsapp, phone);
    const stateOf = async () => (await call("GetOtp", { request_id })).value?.["state"];
    await expect.poll(stateOf).toBe("STATE_FAILED");
    expect([voice, whatsapp].map((network) => gotBy(network, phone).length)).toEqual([1, 1]);
  });

  test("a resend ends it", async () => {
    const phone = newPhone();
    const { request_id } = await open({ phone, fallback_channels: ["voice"], fallback_after_seconds: 60 });
    await pass(30_000);
    expect((await call("ResendOtp", { request_id })).value).toMatchObject({ resends_remaining: 1 });
    await pass(120_000);
    expect(await owed(request_id)).not.toContain("voice");
  });

  test("the operator's order holds for what does not say otherwise, from the channel of the send on", async () => {
    const [plain, chat, none] = [newPhone(), newPhone(), newPhone()];
    await open({ phone: plain });
    await open({ phone: chat, channel: "whatsapp" });
    await open({ phone: none, channel: "whatsapp", no_fallback: true });
    await pass(30_000);
    await arrived(world.network, chat);
    await pass(60_000);
    const counts = [plain, chat, none].map((phone) =>
      [world.network, voice, whatsapp].map((network) => gotBy(network, phone).length),
    );
    expect(counts).toEqual([
      [1, 0, 0],
      [1, 0, 1],
      [0, 0, 1],
    ]);
  });

  test("a landline that is to be texted first is called", async () => {
    const phone = newLandline();
    const { request_id } = await open({ phone, fallback_channels: ["whatsapp", "voice"] });
    expect(gotBy(voice, phone)).toHaveLength(1);
    expect((await call("GetOtp", { request_id })).value).toMatchObject({ channel: "voice" });
    await pass(60_000);
    expect([world.network, whatsapp].map((network) => gotBy(network, phone).length)).toEqual([0, 0]);
    const refused = await call("SendOtp", { phone: newLandline(), fallback_channels: ["whatsapp"] });
    expectRefusal(refused, "PHONE_NOT_MOBILE", { field: "phone" });
  });

  test.each<[what: string, more: Message, reason: ContractReason, field: string]>([
    ["a channel that is none", { fallback_channels: ["pigeon"] }, "CHANNEL_UNSUPPORTED", "fallback_channels"],
    ["a channel twice", { fallback_channels: ["voice", "VOICE"] }, "INVALID_REQUEST", "fallback_channels"],
    ["the send's own channel", { fallback_channels: ["voice", "sms"] }, "INVALID_REQUEST", "fallback_channels"],
    ["an empty name", { fallback_channels: [""] }, "INVALID_REQUEST", "fallback_channels"],
    ["too short a wait", { fallback_after_seconds: 14 }, "INVALID_REQUEST", "fallback_after_seconds"],
    ["too long a wait", { fallback_after_seconds: 121 }, "INVALID_REQUEST", "fallback_after_seconds"],
    ["a wait below zero", { fallback_after_seconds: -1 }, "INVALID_REQUEST", "fallback_after_seconds"],
    ["channels and none", { fallback_channels: ["voice"], no_fallback: true }, "INVALID_REQUEST", "no_fallback"],
  ])("%s is refused, and nothing is sent", async (_what, more, reason, field) => {
    const phone = newPhone();
    expectRefusal(await call("SendOtp", { phone, ...more }), reason, { field });
    expect(gotBy(world.network, phone)).toHaveLength(0);
  });

  test("a repeat that asks for another fallback is another request", async () => {
    const phone = newPhone();
    const headers = { "idempotency-key": `fallback-${surface.name.replaceAll(" ", "-")}` };
    const first = await call("SendOtp", { phone, fallback_channels: ["voice"] }, headers);
    expect((await call("SendOtp", { phone, fallback_channels: ["VOICE"] }, headers)).value).toEqual(first.value);
    for (const more of [{}, { no_fallback: true }, { fallback_channels: ["voice"], fallback_after_seconds: 40 }]) {
      expectRefusal(await call("SendOtp", { phone, ...more }, headers), "IDEMPOTENCY_KEY_REUSED");
    }
  });
});

describe("a publishable key", () => {
  const [rest] = surfaces;
  const send = async (message: Message, key: string) => {
    const outcome = await rest?.call(world.url, "SendOtp", message, { key });
    if (outcome === undefined) throw new Error("no surface");
    return outcome;
  };
  const app = { kind: "pub", isApp: true, scopes: ["send"] } as const;

  test("goes on by the channels that it names, and by no others", async () => {
    const { text: key } = await world.makeKey({ ...app, channels: ["whatsapp", "voice"] });
    const [named, byOrder] = [newPhone(), newPhone()];
    const refused = await send({ phone: named, channel: "whatsapp", fallback_channels: ["sms"] }, key);
    expectRefusal(refused, "CHANNEL_UNSUPPORTED", { field: "fallback_channels" });
    expect(refused.message).toBe(
      "A channel of fallback_channels is not offered here; those that are on are voice, whatsapp.",
    );
    await send({ phone: named, channel: "whatsapp", fallback_channels: ["voice"], fallback_after_seconds: 30 }, key);
    // The operator's order goes on by SMS.
    const { value = {} } = await send({ phone: byOrder, channel: "whatsapp" }, key);
    world.system.advance(30_000);
    await expect.poll(() => gotBy(voice, named).length).toBe(1);
    const seen = await rest?.call(world.url, "GetOtp", { request_id: value["request_id"] ?? "" }, { key: world.key });
    expect(seen?.value?.["messages"]).toHaveLength(1);
  });
});

test("with a test key the number for it loses its first message, and the next one arrives", async () => {
  const [rest] = surfaces;
  const { text: key } = await world.makeKey({ kind: "test" });
  const call = async (rpc: Rpc, message: Message) => (await rest?.call(world.url, rpc, message, { key }))?.value;
  const sent = await call("SendOtp", { phone: "+14155550108", fallback_channels: ["voice"] });
  const request_id = String(sent?.["request_id"]);
  const messages = async () => (await call("GetOtp", { request_id }))?.["messages"];
  await expect.poll(messages).toMatchObject([
    { channel: "sms", delivery: "DELIVERY_UNDELIVERED" },
    { channel: "voice", delivery: "DELIVERY_DELIVERED" },
  ]);
  expect(await call("VerifyOtp", { request_id, code: "123456" })).toMatchObject({ state: "STATE_VERIFIED" });
});
