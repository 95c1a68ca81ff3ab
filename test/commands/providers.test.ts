/**
 * `otpd providers try` and what `otpd doctor` says of declared providers, each as an operator runs it.
 */
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createKeyRing } from "../../src/otp/keys/key-ring.ts";
import { commandLine } from "../../src/otp/operators/audit.ts";
import { parsePhoneNumber } from "../../src/otp/phone-number.ts";
import type { Policy } from "../../src/otp/verification/policy.ts";
import { actorTryLimit, spendTry, tryLimit } from "../../src/service/operators/provider-tries.ts";
import { addSums, sumValues } from "../../src/store/rows/sums.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { acme } from "../support/data/http-providers.ts";
import { bindable } from "../../src/store/statement.ts";
import { inDatabase } from "../support/databases/rows.ts";
import { startFarEnd, type FarEnd } from "../support/fakes/far-end.ts";
import { configOf, keyText } from "../support/service/environment.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { runOtpd } from "../support/processes/process.ts";
import { runIn } from "../support/service/command-line.ts";

let farEnd: FarEnd;
let folder: string;
let env: Record<string, string>;
beforeAll(async () => {
  farEnd = await startFarEnd({ status: 200 });
});
afterAll(() => farEnd.stop());
beforeEach(async () => {
  folder = temporaryFolder();
  farEnd.asked.splice(0);
  farEnd.reply = { status: 200, body: { result: "queued", message_id: "m-1" } };
  const [provider] = acme.providers;
  const declared = { ...provider, url: `${farEnd.url}/send` };
  writeFileSync(join(folder, "providers.json"), JSON.stringify({ providers: [declared] }));
  const path = join(folder, "otp.db");
  await (await openSqlite({ path, system: createManualSystem(1, Date.now()), exclusive: false })).close();
  env = {
    OTP_DATABASE_URL: `file:${path}`,
    OTP_MASTER_KEY: keyText,
    OTP_HTTP_PROVIDERS_FILE: join(folder, "providers.json"),
    OTP_HTTP_ACME_KEY: "t0ps3cret",
    OTP_HTTP_ACME_REPORT_KEY: "r3port",
    OTP_ALLOWED_COUNTRIES: "NL",
  };
});
afterEach(() => rmSync(folder, { recursive: true }));

const phone = "+31612345678";
const tryOut = (args: string[] = ["acme", phone], more: Record<string, string> = {}) =>
  runOtpd(folder, ["providers", "try", ...args], { ...env, ...more });

/** The lines of the log, without their times. */
function logged(errors: string): Record<string, unknown>[] {
  const lines = errors.split("\n").filter((line) => line.startsWith("{"));
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("providers list", () => {
  test("has the order of each channel with what was taken in 24 hours, and those that are not configured any more", async () => {
    const settings = { ...env, OTP_PROVIDERS: "acme" };
    const listed = async (...args: string[]) => runIn(folder, ["providers", "list", ...args], settings);
    const path = join(folder, "otp.db");
    const hour = Math.floor(Date.now() / 3_600_000);
    inDatabase(path, (db) => {
      const add = db.prepare(bindable(addSums).text);
      const of = { tenant: "default", country: "NL", channel: "sms" } as const;
      const sums = { messages: 3, delivered: 2, cost: 246_000 };
      add.run(...sumValues({ ...of, hour, provider: "acme", currency: "EUR", sums }));
      const others = { messages: 1, delivered: 1 };
      for (const at of [hour, hour - 30]) {
        add.run(...sumValues({ ...of, hour: at, provider: "gone", currency: "", sums: others }));
      }
    });
    const { code, output } = await listed("--json");
    expect(code).toBe(0);
    expect(JSON.parse(output)).toEqual([
      {
        channel: "sms",
        order: 1,
        provider: "acme",
        messages: 3,
        share: 0.75,
        delivered: 2,
        cost: "0.246",
        currency: "EUR",
      },
      {
        channel: "sms",
        order: 0,
        provider: "gone",
        messages: 1,
        share: 0.25,
        delivered: 1,
        cost: null,
        currency: null,
      },
    ]);
    const table = (await listed()).output;
    expect(table).toMatch(/^sms +1 +acme +3 +75 % +67 % +0\.246 EUR$/m);
    expect(table).toMatch(/^sms +- +gone +1 +25 % +100 % +-$/m);
  });
});

describe("providers try", () => {
  test("sends one fixed text, says what came of it, and leaves a line in the log without the number", async () => {
    const { code, output, errors } = await tryOut();
    expect({ code, output }).toEqual({ code: 0, output: "acme took the message, and calls it m-1.\n" });
    expect(farEnd.asked).toHaveLength(1);
    const { msg, to } = Object.fromEntries(new URLSearchParams(farEnd.asked[0]?.body));
    expect({ msg, to }).toEqual({ msg: "This is a test of otpd. You need not do anything.", to: phone.slice(1) });
    expect(logged(errors)).toMatchObject([{ msg: "provider tried", provider: "acme", outcome: "accepted" }]);
    expect(output + errors).not.toMatch(/31612345678|t0ps3cret|gw\.example/);
    const audit = inDatabase(join(folder, "otp.db"), (db) => db.prepare("SELECT * FROM audit").all());
    expect(audit).toMatchObject([{ actor: "cli", action: "provider.try", tenant: "default", subject: "acme" }]);
    expect(JSON.stringify(audit)).not.toContain("31612345678");
  });

  test.each([
    [
      { status: 400, body: { error: "bad_number" } },
      "acme refused the message for its recipient (HTTP 400: bad_number): nothing was sent.",
    ],
    [{ status: 500 }, "acme gave no answer that tells (HTTP 500): the message may have been sent, or not."],
  ])("of an answer %j it says so, and fails", async (reply, said) => {
    farEnd.reply = reply;
    const { code, output } = await tryOut();
    expect({ code, output }).toEqual({ code: 1, output: `${said}\n` });
    const { code: again, output: json } = await tryOut(["acme", phone, "--json"]);
    expect(again).toBe(1);
    expect(JSON.parse(json)).toMatchObject({ provider: "acme", provider_message_id: null });
  });

  test("calls nobody until there is a cap on calls", async () => {
    const [provider] = acme.providers;
    const voice = { ...provider, channel: "voice", url: `${farEnd.url}/send` };
    writeFileSync(join(folder, "providers.json"), JSON.stringify({ providers: [voice] }));
    const { code, output, errors } = await tryOut();
    expect({ code, output }).toEqual({ code: 1, output: "" });
    expect(errors).toBe("Nobody is called until OTP_VOICE_DAILY_CAP says how many calls a day may be made.\n");
    expect(farEnd.asked).toHaveLength(0);
    expect((await tryOut(undefined, { OTP_VOICE_DAILY_CAP: "1" })).code).toBe(0);
    expect((await tryOut(undefined, { OTP_VOICE_DAILY_CAP: "1" })).errors).toContain(
      "a daily cap of the tenant default",
    );
    expect(farEnd.asked).toHaveLength(1);
  });

  test("a provider that is there and lacks a secret, or is not there, is told; nothing is sent", async () => {
    expect((await tryOut(undefined, { OTP_HTTP_ACME_KEY: "" })).errors).toBe(
      "acme cannot be tried without OTP_HTTP_ACME_KEY.\n",
    );
    expect((await tryOut(["acne", phone])).errors).toBe(
      "There is no provider acne: there are console, messagebird, bird, webhook, acme.\n",
    );
    expect((await tryOut(["constructor", phone])).errors).toContain("There is no provider constructor");
    expect(farEnd.asked).toEqual([]);
  });

  test("a number that nothing may go to gets nothing", async () => {
    for (const [number, said] of [
      ["+4915112345678", /country/],
      ["+31201234567", /mobile/i],
      ["0612345678", /phone/i],
    ] as const) {
      const { code, errors } = await tryOut(["acme", number]);
      expect({ code, errors }).toEqual({ code: 1, errors: expect.stringMatching(said) as string });
    }
    expect(farEnd.asked).toEqual([]);
  });

  test.each([[["acme"]], [["acme", phone, "more"]], [[]]])("%j is not understood", async (args) => {
    expect(await tryOut(args)).toMatchObject({ code: 2, output: "" });
  });
});

const phoneOf = (text: string) => {
  const parsed = parsePhoneNumber(text);
  if (!parsed.ok) throw new Error("this is a number");
  return parsed.value.e164;
};
const entry = { by: commandLine, provider: "acme", e164: phoneOf(phone) };
const toNetherlands = { region: "NL", channel: "sms", price: () => undefined, entry } as const;
const policyOf = (dailyMessagesMax: number): Policy => ({ ...configOf({}).policy, dailyMessagesMax });

test("at the daily cap of the tenant default nothing is tried, and each try counts under it", async () => {
  const system = createManualSystem();
  const store = await openSqlite({ path: join(folder, "tries.db"), system, exclusive: false });
  const options = { store, keys: createKeyRing([Buffer.alloc(32, 1)]), policy: policyOf(2), ...toNetherlands };
  expect([await spendTry(options), await spendTry(options)]).toEqual([
    { allowed: true, remaining: 9 },
    { allowed: true, remaining: 8 },
  ]);
  expect(await spendTry(options)).toEqual({ allowed: false, by: "daily-cap", retryAfterMs: 12 * 3_600_000 });
  system.advance(12 * 3_600_000);
  expect(await spendTry(options)).toEqual({ allowed: true, remaining: 9 });
  await store.close();
});

test("there are ten tries at once and ten a day, whatever the key was before", async () => {
  const system = createManualSystem();
  const store = await openSqlite({ path: join(folder, "tries.db"), system, exclusive: false });
  const policy = policyOf(1_000);
  const [older, newer] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
  const spend = async (ring = createKeyRing([older])) =>
    (await spendTry({ store, keys: ring, policy, ...toNetherlands })).allowed;
  for (let i = 0; i < tryLimit.burst; i++) expect(await spend()).toBe(true);
  expect(await spend()).toBe(false);
  expect(await spend(createKeyRing([newer, older]))).toBe(false);
  system.advance(tryLimit.intervalMs);
  expect([await spend(), await spend()]).toEqual([true, false]);
  await store.close();
});

test("of ten tries a day five are one key's", async () => {
  const system = createManualSystem();
  const store = await openSqlite({ path: join(folder, "tries.db"), system, exclusive: false });
  const options = { store, keys: createKeyRing([Buffer.alloc(32, 1)]), policy: policyOf(1_000), ...toNetherlands };
  const tryBy = (actor: string) =>
    spendTry({ ...options, entry: { ...entry, by: { actor, actorTenant: "", address: "" } } });
  for (let left = actorTryLimit.burst; left > 0; left--) {
    expect(await tryBy("key:a")).toEqual({ allowed: true, remaining: left - 1 });
  }
  expect(await tryBy("key:a")).toEqual({ allowed: false, by: "tries", retryAfterMs: actorTryLimit.intervalMs });
  for (let left = actorTryLimit.burst; left > 0; left--) {
    expect(await tryBy("user:b")).toEqual({ allowed: true, remaining: left - 1 });
  }
  expect(await tryBy("user:c")).toEqual({ allowed: false, by: "tries", retryAfterMs: tryLimit.intervalMs });
  const { length } = await store.registry.findAudit({ ...everyEntry, max: 100 });
  expect(length).toBe(tryLimit.burst);
  await store.close();
});

const newest = Number.MAX_SAFE_INTEGER;
const everyEntry = {
  tenant: "",
  actor: "",
  action: "provider.try",
  subject: "",
  actorTenant: "",
  fromMs: 0,
  toMs: newest,
} as const;

describe("doctor", () => {
  test("shows what a declared provider is asked, its secrets masked, and sends nothing", async () => {
    const { code, output } = await runIn(folder, ["doctor"], { ...env, OTP_PROVIDERS: "acme" });
    expect(code).toBe(0);
    expect(output).toContain(
      `ok   A message to acme is POST ${farEnd.url}/send | content-type: application/x-www-form-urlencoded | X-Api-Key: *** | to=31612345678&msg=123456+is+your+code&ref=`,
    );
    expect(output).not.toContain("t0ps3cret");
    expect(output).not.toContain("r3port");
    expect(farEnd.asked).toEqual([]);
  });

  test("warns of a file with its secret that others can read", async () => {
    const path = join(folder, "key");
    writeFileSync(path, "k", { mode: 0o644 });
    chmodSync(folder, 0o755);
    const { output } = await runIn(folder, ["doctor"], {
      ...env,
      OTP_PROVIDERS: "acme",
      OTP_HTTP_ACME_KEY: "",
      OTP_HTTP_ACME_KEY_FILE: path,
    });
    expect(output).toContain(
      `warn OTP_HTTP_ACME_KEY_FILE can be read by everybody on this machine: chmod 600 ${path}.`,
    );
  });
});
