/**
 * The text that a send comes to, from the request to the provider: its language, its last line, the operator's own
 * words, and that a resend says the same.
 */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { surfaces, type Message, type Rpc } from "../support/clients/surfaces.ts";
import { startWorld, temporaryFolder, type World } from "../support/service/world.ts";

const phone = "+31612345678";
const dutch = (code: string, minutes = 10) =>
  `${code} is je verificatiecode voor otpd. De code verloopt over ${minutes} minuten. Deel hem met niemand.`;
const appHash = "FA+9qCX9VSu";

describe.each(surfaces.filter(({ name }) => name === "REST" || name === "gRPC"))("over $name", (surface) => {
  let world: World;
  beforeAll(async () => {
    world = await startWorld();
  });
  afterAll(() => world.stop());

  const call = (rpc: Rpc, message: Message, headers: Record<string, string> = {}) =>
    surface.call(world.url, rpc, message, { key: world.key, headers });
  const texts = () => world.network.received.map(({ text }) => text);

  test("web_origin ends the SMS with the host and the code, and so does a resend after a restart", async () => {
    const sent = await call("SendOtp", { phone, web_origin: "https://Shop.Example:8443" });
    const code = world.network.codeFor(phone);
    expect(texts().at(-1)).toBe(`${dutch(code)}\n\n@shop.example #${code}`);
    world.system.advance(30_000);
    await world.restart();
    expect(await call("ResendOtp", { request_id: String(sent.value?.["request_id"]) })).not.toHaveProperty("reason");
    expect(texts().at(-1)).toBe(`${dutch(code, 9)}\n\n@shop.example #${code}`);
  });

  test("android_app_hash ends the SMS, and so it does a resend", async () => {
    const sent = await call("SendOtp", { phone, android_app_hash: appHash });
    const code = world.network.codeFor(phone);
    expect(texts().at(-1)).toBe(`${dutch(code)}\n${appHash}`);
    world.system.advance(30_000);
    await call("ResendOtp", { request_id: String(sent.value?.["request_id"]) });
    expect(texts().at(-1)).toBe(`${dutch(code, 9)}\n${appHash}`);
  });

  test("a code from an SMS with a last line verifies", async () => {
    const sent = await call("SendOtp", { phone, web_origin: "http://localhost:3000" });
    const code = /^@localhost #(\d+)$/m.exec(texts().at(-1) ?? "")?.[1];
    const request_id = String(sent.value?.["request_id"]);
    expect((await call("VerifyOtp", { request_id, code: String(code) })).value).toMatchObject({
      state: "STATE_VERIFIED",
    });
  });

  test.each<[string, Message, string]>([
    ["both last lines", { web_origin: "https://shop.example", android_app_hash: appHash }, "android_app_hash"],
    ["an origin with a path", { web_origin: "https://shop.example/login" }, "web_origin"],
    ["an insecure origin", { web_origin: "http://shop.example" }, "web_origin"],
    ["an origin with a line of its own", { web_origin: "https://a.example #1\n@b.example" }, "web_origin"],
    ["a hash of 12 characters", { android_app_hash: "FA+9qCX9VSu=" }, "android_app_hash"],
    ["a hash with a line break", { android_app_hash: "FA+9qCX9VS\n" }, "android_app_hash"],
  ])("%s is INVALID_REQUEST, and nothing is sent", async (_, more, field) => {
    const before = texts().length;
    expect(await call("SendOtp", { phone, ...more })).toMatchObject({
      reason: "INVALID_REQUEST",
      code: "INVALID_ARGUMENT",
      field,
    });
    expect(texts()).toHaveLength(before);
  });

  test.each<[string, Message, Message, Message[]]>([
    [
      "web_origin",
      { web_origin: "https://shop.example" },
      { web_origin: "https://SHOP.example:443" },
      [{ web_origin: "https://other.example" }, { android_app_hash: appHash }, {}],
    ],
    [
      "android_app_hash",
      { android_app_hash: appHash },
      { android_app_hash: appHash, web_origin: "" },
      [{ android_app_hash: "FA+9qCX9VSv" }, { web_origin: "https://shop.example" }, {}],
    ],
  ])("%s is part of what an Idempotency-Key stands for, its spelling is not", async (field, given, same, others) => {
    const headers = { "idempotency-key": `by-${field}` };
    const first = await call("SendOtp", { phone, ...given }, headers);
    const before = texts().length;
    const again = await call("SendOtp", { phone, ...same }, headers);
    expect(again.value?.["request_id"]).toBe(first.value?.["request_id"]);
    for (const other of others) {
      expect(await call("SendOtp", { phone, ...other }, headers)).toMatchObject({ reason: "IDEMPOTENCY_KEY_REUSED" });
    }
    expect(texts()).toHaveLength(before);
  });

  test.each([
    ["the locale's", "+4915123456789", "es-MX", /^\d+ es tu clave/],
    ["that of the phone's country, for a locale without a text", "+5511961234567", "da", /^\d+ é o seu PIN/],
    ["that of the phone's country", "+4915123456789", "", /^\d+ ist Ihr/],
    ["English for a country without a text", "+4520123456", "", /^\d+ is your/],
  ])("the language is %s, and a resend keeps it", async (_, to, locale, words) => {
    const sent = await call("SendOtp", { phone: to, locale });
    expect(texts().at(-1)).toMatch(words);
    world.system.advance(30_000);
    await call("ResendOtp", { request_id: String(sent.value?.["request_id"]) });
    expect(
      texts()
        .slice(-2)
        .map((text) => words.test(text)),
    ).toEqual([true, true]);
  });
});

describe("with an operator's texts", () => {
  const folder = temporaryFolder();
  let world: World;
  beforeAll(async () => {
    const file = join(folder, "texts.json");
    writeFileSync(
      file,
      JSON.stringify({
        countries: { IT: "it" },
        texts: [
          { locale: "it", text: "{code} per {brand}" },
          { locale: "it", text: "{code} per {purpose} in {brand}", purposes: { login: "accedere" } },
          {
            locale: "en",
            country: "IN",
            text: "{code} is your code for {brand}.",
            dlt_template_id: "1107161234567890123",
            dlt_entity_id: "1101234567890123456",
          },
        ],
      }),
    );
    world = await startWorld({ OTP_TEMPLATES_FILE: file, OTP_BRAND: "Acme" });
  });
  afterAll(async () => {
    await world.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const [rest] = surfaces;
  async function smsOf(message: Message) {
    const outcome = await rest?.call(world.url, "SendOtp", message, { key: world.key });
    expect(outcome).toHaveProperty("value");
    const { text = "", dltTemplateId, dltEntityId } = world.network.received.at(-1) ?? {};
    return { text: text.replace(/^\d{6} /, "CODE "), dltTemplateId, dltEntityId };
  }

  test("the ids of a registered text go to the provider with it, and with no other", async () => {
    expect(await smsOf({ phone: "+919812345678" })).toEqual({
      text: "CODE is your code for Acme.",
      dltTemplateId: "1107161234567890123",
      dltEntityId: "1101234567890123456",
    });
    expect(await smsOf({ phone: "+447911223344" })).toMatchObject({ dltTemplateId: undefined, dltEntityId: undefined });
    expect(world.network.received.at(-1)).not.toHaveProperty("dltTemplateId");
  });

  test("a purpose is told in the operator's words, never in the caller's", async () => {
    const to = "+393123456789";
    expect(await smsOf({ phone: to, purpose: "login" })).toMatchObject({ text: "CODE per accedere in Acme" });
    expect(await smsOf({ phone: to, purpose: "see evil.example" })).toMatchObject({ text: "CODE per Acme" });
    expect(await smsOf({ phone: to })).toMatchObject({ text: "CODE per Acme" });
  });
});
