/**
 * Tenants behind one server: each has its own texts, rules and keys, and what the command line writes about one counts
 * from the next call on.
 */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { decodeJwt } from "jose";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { runHere } from "../support/service/command-line.ts";
import { inDatabase } from "../support/databases/rows.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { surfaces, type Message, type Outcome, type Rpc } from "../support/clients/surfaces.ts";
import { startWorld, temporaryFolder, type World } from "../support/service/world.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];

let world: World;
let folder: string;
let acme: string;
let bolt: string;
beforeAll(async () => {
  folder = temporaryFolder();
  world = await startWorld({ OTP_BRAND: "Operator" });
  vi.stubEnv("OTP_DATABASE_URL", `file:${world.databasePath}`);
  const texts = join(folder, "texts.json");
  const own = { texts: [{ locale: "nl", text: "{code} voor {brand}" }], countries: { FR: "nl" } };
  writeFileSync(texts, JSON.stringify(own));
  await otpd("tenants", "create", "acme", "--brand", "Acme", "--texts", texts);
  await otpd("tenants", "create", "bolt", "--brand", "Bolt");
  acme = (await world.makeKey({ tenant: "acme" })).text;
  bolt = (await world.makeKey({ tenant: "bolt" })).text;
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await world.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Runs a command that succeeds, beside the server. */
async function otpd(...args: string[]): Promise<string> {
  const { code, output, errors } = await runHere(args);
  expect({ code, errors }).toEqual({ code: 0, errors: "" });
  return output;
}

const call = (key: string, rpc: Rpc, message: Message): Promise<Outcome> => rest.call(world.url, rpc, message, { key });

async function send(key: string, phone: string, more: Message = {}) {
  const { value, reason } = await call(key, "SendOtp", { phone, ...more });
  return { reason, request_id: String(value?.["request_id"]), value };
}
const latestText = () => world.network.received.at(-1)?.text.replace(/^\d+ /, "CODE ");

describe("the SMS of a tenant", () => {
  test.each<[string, () => string, string, string, string]>([
    ["its own text with its own brand", () => acme, "+31612345678", "", "CODE voor Acme"],
    ["its own language for a country", () => acme, "+33612345678", "", "CODE voor Acme"],
    ["the language that a send asks for", () => acme, "+33612345678", "nl-BE", "CODE voor Acme"],
    ["the text that comes with the service where it has none", () => acme, "+4915123456789", "", "CODE ist Ihr"],
    ["English where nothing fits", () => acme, "+4520123456", "da", "CODE is your"],
    ["none of another tenant's texts", () => bolt, "+31612345678", "nl", "CODE is je verificatiecode voor Bolt."],
    [
      "the operator's brand where it has none",
      () => world.key,
      "+31612345678",
      "",
      "CODE is je verificatiecode voor O",
    ],
  ])("has %s", async (_, key, phone, locale, words) => {
    await send(key(), phone, { locale });
    expect(latestText()).toContain(words);
  });

  test("says the same when it is sent again", async () => {
    const { request_id } = await send(acme, newPhone());
    world.system.advance(30_000);
    await call(acme, "ResendOtp", { request_id });
    expect(latestText()).toBe("CODE voor Acme");
  });
});

describe("one phone with two tenants", () => {
  afterEach(async () => {
    await otpd("tenants", "set", "acme", "--unset", "phone-limits,code-length,max-attempts,countries,ttl-seconds");
  });

  test("has two codes, and each verifies with its own tenant alone", async () => {
    const phone = newPhone();
    const one = await send(acme, phone);
    const code = world.network.codeFor(phone);
    const two = await send(bolt, phone);
    expect(world.network.codeFor(phone)).not.toBe(code);
    const verify = (key: string, request_id: string, typed: string) =>
      call(key, "VerifyOtp", { request_id, code: typed });
    expect(await verify(bolt, two.request_id, code)).toMatchObject({ reason: "CODE_MISMATCH" });
    expect(await verify(bolt, one.request_id, code)).toMatchObject({ reason: "REQUEST_NOT_FOUND" });
    expect((await verify(acme, one.request_id, code)).value).toMatchObject({ phone });
  });

  test("has limits of its own with each, of each one's own number and size", async () => {
    await otpd("tenants", "set", "acme", "--phone-limits", "3@1h,2@1d,9@1h,9@1h");
    await otpd("tenants", "set", "bolt", "--phone-limits", "3@1h");
    const phone = newPhone();
    const sends = async (key: string) => {
      const reasons: (string | undefined)[] = [];
      for (let i = 0; i < 4; i++) reasons.push((await send(key, phone)).reason);
      return reasons;
    };
    const no = "PHONE_RATE_LIMITED";
    expect(await sends(acme)).toEqual([undefined, undefined, no, no]);
    expect(await sends(bolt)).toEqual([undefined, undefined, undefined, no]);
    expect(await sends(world.key)).toEqual([undefined, undefined, undefined, undefined]);
    await otpd("tenants", "set", "bolt", "--unset", "phone-limits");
  });

  test("has the length, the lifetime and the attempts of each one's own", async () => {
    await otpd("tenants", "set", "acme", "--code-length", "9", "--ttl-seconds", "180", "--max-attempts", "1");
    const phone = newPhone();
    const one = await send(acme, phone);
    const two = await send(bolt, phone);
    expect(one.value).toMatchObject({ code_length: 9, expires_in_seconds: 180 });
    expect(two.value).toMatchObject({ code_length: 6, expires_in_seconds: 600 });
    const verify = { request_id: one.request_id, code: "123456789" };
    expect(await call(acme, "VerifyOtp", verify)).toMatchObject({ reason: "CODE_MISMATCH", attemptsRemaining: 0 });
    expect(await call(acme, "VerifyOtp", verify)).toMatchObject({ reason: "OTP_LOCKED" });
  });

  test("has longer codes only with the tenant that saw the wrong ones", async () => {
    const phone = newPhone();
    for (let i = 0; i < 4; i++) {
      const { request_id } = await send(acme, phone);
      const code = world.network.codeFor(phone);
      for (let guess = 1; guess <= 5; guess++) {
        await call(acme, "VerifyOtp", { request_id, code: wrongCode(code, guess) });
      }
    }
    expect((await send(acme, phone)).value).toMatchObject({ code_length: 8 });
    expect((await send(bolt, phone)).value).toMatchObject({ code_length: 6 });
  });

  test("is served where each may send", async () => {
    await otpd("tenants", "set", "acme", "--countries", "BE");
    const phone = newPhone();
    expect((await send(acme, phone)).reason).toBe("COUNTRY_NOT_ALLOWED");
    expect((await send(bolt, phone)).reason).toBeUndefined();
  });
});

describe("a tenant's origins", () => {
  test("are the only ones that an SMS may be bound to, once there are any", async () => {
    const from = (web_origin: string) => call(bolt, "SendOtp", { phone: newPhone(), web_origin });
    expect(await from("https://else.example")).not.toHaveProperty("reason");
    await otpd("tenants", "set", "bolt", "--origin", "https://bolt.example", "--origin", "http://localhost:5173");
    const before = world.network.received.length;
    expect(await from("https://else.example")).toMatchObject({
      reason: "ORIGIN_NOT_ALLOWED",
      code: "PERMISSION_DENIED",
      field: "web_origin",
    });
    expect(await from("http://localhost:3000")).toMatchObject({ reason: "ORIGIN_NOT_ALLOWED" });
    expect(world.network.received).toHaveLength(before);
    expect(await from("https://BOLT.example:443")).not.toHaveProperty("reason");
    expect(latestText()).toMatch(/@bolt\.example #\d+$/);
    expect(await from("")).not.toHaveProperty("reason");
    await otpd("tenants", "set", "bolt", "--unset", "origin");
  });
});

test("a publishable key works from those of its origins that are its tenant's", async () => {
  const make = ["keys", "create", "--publishable", "--tenant", "bolt", "--origin"];
  const shop = "https://shop.example";
  const { key } = JSON.parse(await otpd(...make, shop, "--json")) as { key: string };
  const options = { key, headers: { origin: shop } };
  const get = () => rest.call(world.url, "GetOtp", { request_id: "AAAAAAAAAAAAAAAAAAAAAA" }, options);
  expect(await get()).toMatchObject({ reason: "REQUEST_NOT_FOUND" });
  await otpd("tenants", "set", "bolt", "--origin", "https://bolt.example", "--origin", "http://127.0.0.1:5173");
  expect(await get()).toMatchObject({ reason: "ORIGIN_NOT_ALLOWED" });
  expect(await runHere([...make, shop])).toEqual({
    code: 1,
    output: "",
    errors: "https://shop.example is not one of the origins of bolt: otpd tenants show bolt lists them.\n",
  });
  await otpd(...make, "http://127.0.0.1:5173");
  await otpd("tenants", "set", "bolt", "--unset", "origin");
  expect(await get()).toMatchObject({ reason: "REQUEST_NOT_FOUND" });
});

describe("a tenant's receipts", () => {
  test("are for its audience, which is its name unless it has another; its sandbox's too", async () => {
    await otpd("tenants", "create", "proven");
    const live = (await world.makeKey({ tenant: "proven" })).text;
    const tested = (await world.makeKey({ tenant: "proven", kind: "test" })).text;
    const audienceOf = async (key: string, phone: string, code: () => string) => {
      const { request_id } = await send(key, phone);
      const { value } = await call(key, "VerifyOtp", { request_id, code: code() });
      return decodeJwt(String(value?.["receipt"])).aud;
    };
    const phone = newPhone();
    const audiences = async () => [
      await audienceOf(live, phone, () => world.network.codeFor(phone)),
      await audienceOf(tested, "+14155550100", () => "123456"),
    ];
    expect(await audiences()).toEqual(["proven", "proven"]);
    await otpd("tenants", "set", "proven", "--audience", "https://shop.example");
    expect(await audiences()).toEqual(["https://shop.example", "https://shop.example"]);
  });
});

describe("a tenant's sandbox", () => {
  test("has the tenant's rules, and is disabled with it", async () => {
    await otpd("tenants", "create", "tried", "--code-length", "7", "--origin", "https://tried.example");
    const { text: key } = await world.makeKey({ tenant: "tried", kind: "test" });
    const phone = "+14155550100";
    const { value, request_id } = await send(key, phone);
    expect(value).toMatchObject({ code_length: 7 });
    expect((await send(key, phone, { web_origin: "https://else.example" })).reason).toBe("ORIGIN_NOT_ALLOWED");
    await otpd("tenants", "set", "tried", "--code-length", "8");
    expect((await send(key, phone)).value).toMatchObject({ code_length: 8 });
    await otpd("tenants", "disable", "tried");
    expect(await call(key, "GetOtp", { request_id })).toMatchObject({ reason: "API_KEY_REVOKED" });
  });
});

describe("a disabled tenant", () => {
  test("has its keys refused from the next call on, on every surface, and every other tenant's taken", async () => {
    const phone = newPhone();
    const { request_id } = await send(acme, phone);
    const code = world.network.codeFor(phone);
    expect(await otpd("tenants", "disable", "acme")).toMatch(/^Disabled acme: /);
    for (const surface of surfaces) {
      const outcome = await surface.call(world.url, "VerifyOtp", { request_id, code }, { key: acme });
      expect(outcome).toMatchObject({ reason: "API_KEY_REVOKED", code: "UNAUTHENTICATED" });
    }
    expect((await send(bolt, phone)).reason).toBeUndefined();
    await world.restart();
    expect((await send(acme, phone)).reason).toBe("API_KEY_REVOKED");
    expect(await otpd("tenants", "enable", "acme")).toMatch(/^Enabled acme: /);
    expect((await call(acme, "VerifyOtp", { request_id, code })).value).toMatchObject({ phone });
  });

  test("tells so only to who holds a key's secret", async () => {
    await otpd("tenants", "disable", "acme");
    const { id } = await world.makeKey({ tenant: "acme" });
    const forged = (await world.makeKey()).text.replace(/(?<=^otp_live_).{10}/, id);
    expect((await send(forged, newPhone())).reason).toBe("API_KEY_INVALID");
    await otpd("tenants", "enable", "acme");
  });

  test("has nothing sent that was still to be sent", async () => {
    world.network.script.push({ kind: "unavailable", detail: "down" });
    const phone = newPhone();
    const sending = send(acme, phone);
    // Until its second try it waits in the outbox.
    await expect.poll(dueMessages).toBe(1);
    const before = world.network.received.length;
    await otpd("tenants", "disable", "acme");
    world.system.advance(500);
    expect((await sending).reason).toBe("DELIVERY_FAILED");
    expect(world.network.received).toHaveLength(before);
    expect(dueMessages()).toBe(0);
    await otpd("tenants", "enable", "acme");
  });
});

/** Messages that wait to be sent, in nobody's hand. */
function dueMessages(): number {
  const queued = "SELECT count(*) AS n FROM messages WHERE due_ms IS NOT NULL AND delivery = 0";
  return inDatabase(world.databasePath, (db) => db.prepare<[], { n: number }>(queued).get()?.n ?? 0);
}

describe("settings that cannot be read", () => {
  test("take nobody down: the operator's hold for them, and the log says so", async () => {
    const settings = '{"brand":"1","code_length":"7","texts":"{","colour":"red"}';
    inDatabase(world.databasePath, (db) =>
      db
        .prepare(
          "INSERT INTO tenants (id, create_ms, settings, revision) SELECT ?, 0, ?, max(revision) + 1 FROM tenants",
        )
        .run("broken", settings),
    );
    const { text: key } = await world.makeKey({ tenant: "broken" });
    expect((await send(key, "+31612345678")).value).toMatchObject({ code_length: 7 });
    expect(latestText()).toContain("verificatiecode voor Operator");
    await send(key, "+31612345678");
    const warned = world.observed.flatMap(({ event, with: args }) => (event === "warning" ? args : []));
    expect(warned).toEqual([
      "tenant broken: colour is not a known setting; the operator's holds",
      expect.stringMatching(/^tenant broken: brand must be one line .*; the operator's holds$/),
      "tenant broken: texts is not JSON (line 1 column 2); the operator's holds",
    ]);
  });
});

test("default may have settings too, and they win over the environment", async () => {
  await otpd("tenants", "set", "default", "--brand", "House");
  await send(world.key, "+31612345678");
  expect(latestText()).toContain("voor House.");
  await otpd("tenants", "set", "default", "--unset", "brand");
  await send(world.key, "+31612345678");
  expect(latestText()).toContain("voor Operator.");
});
