/**
 * What the channels that a send names to go on by take from its address: whoever has a page's key could have three messages sent for
 * one.
 */
import { afterEach, expect, test } from "vitest";
import { publishableScopes } from "../../src/otp/keys/api-key.ts";
import { surfaces, type Message } from "../support/clients/surfaces.ts";
import { expectRefusal } from "../support/data/contract.ts";
import { newPhone } from "../support/data/phones.ts";
import { sampled } from "../support/extent.ts";
import { createSteppedSystem } from "../support/service/system.ts";
import { createPhoneNetwork, startWorld, type World } from "../support/service/world.ts";

const shop = "https://shop.example";
const named = { fallback_channels: ["voice", "whatsapp"] };

let world: World;
afterEach(() => world.stop());

/** Starts a service of three channels, and gives what sends with a page's key or a backend's, and tells the answer. */
async function start(surface: (typeof surfaces)[number], env: Record<string, string> = {}) {
  const channels = { voice: [createPhoneNetwork("caller")], whatsapp: [createPhoneNetwork("chat")] };
  world = await startWorld(env, createSteppedSystem(), channels);
  const { text: page } = await world.makeKey({
    kind: "pub",
    scopes: ["send", ...publishableScopes],
    origins: [shop],
    channels: ["sms", "voice", "whatsapp"],
  });
  const send = (message: Message, key = page) =>
    surface.call(
      world.url,
      "SendOtp",
      { phone: newPhone(), ...message },
      { key, headers: key === page ? { origin: shop } : {} },
    );
  const served = async (count: number, message: Message, key = page) => {
    let answered = 0;
    for (let i = 0; i < count; i += 1) if ((await send(message, key)).reason === undefined) answered += 1;
    return answered;
  };
  return { send, served };
}

test.each(sampled(surfaces, 2))("a page's send counts for as many of an address's ten, over $name", async (surface) => {
  const { send, served } = await start(surface);
  expect(await served(3, named)).toBe(3);
  expectRefusal(await send(named), "IP_RATE_LIMITED", { retryAfterSeconds: 120 });
  expect(await served(2, {})).toBe(1);
});

test.each(sampled(surfaces, 2))("as many are given back where it is refused, over $name", async (surface) => {
  const { send, served } = await start(surface);
  for (let i = 0; i < 20; i += 1) expect((await send({ ...named, phone: "+310" })).reason).toBe("PHONE_INVALID");
  expect(await served(4, named)).toBe(3);
});

test.each(sampled(surfaces, 2))(
  "a backend's counts once for the address that it names, over $name",
  async (surface) => {
    const { served } = await start(surface);
    expect(await served(12, { ...named, client_ip: "192.0.2.7" }, world.key)).toBe(10);
  },
);

test.each(sampled(surfaces, 2))("under a limit with less room it takes all there is, over $name", async (surface) => {
  const { served } = await start(surface, { OTP_IP_SEND_LIMIT: "2@1h" });
  expect(await served(3, named)).toBe(1);
});
