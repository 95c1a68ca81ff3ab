/**
 * The lists of destinations and the daily cap on a running service: what is refused costs nothing, whatever the spelling,
 * and what was admitted before still verifies.
 */
import { setImmediate as turn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { countRows, inDatabase } from "../support/databases/rows.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { startOtpd } from "../support/processes/process.ts";
import { readSpellings, refusedSpellings, spelled } from "../support/data/spellings.ts";
import { surfaces, type Message, type Outcome, type Rpc } from "../support/clients/surfaces.ts";
import { startWorld, type World } from "../support/service/world.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];

let world: World;
afterEach(() => world.stop());

const call = (rpc: Rpc, message: Message, key = world.key, headers = {}): Promise<Outcome> =>
  rest.call(world.url, rpc, message, { key, headers });
const idOf = ({ value }: Outcome) => String(value?.["request_id"]);

async function put(prefix: string, verdict: "block" | "allow"): Promise<void> {
  const store = await openSqlite({ path: world.databasePath, system: world.system, exclusive: false });
  await store.registry.putDestination({ tenant: "default", prefix, verdict, note: "", createMs: 1 });
  await store.close();
}

describe("the lists of destinations", () => {
  beforeEach(async () => {
    world = await startWorld({ OTP_PHONE_LIMITS: "3@1d" });
  });

  test("a blocked number is blocked in every spelling, and an allowed one has one budget in all of them", async () => {
    await put(spelled, "block");
    for (const phone of readSpellings) expect((await call("SendOtp", { phone })).reason).toBe("DESTINATION_BLOCKED");
    for (const phone of refusedSpellings) expect((await call("SendOtp", { phone })).reason).toBe("PHONE_INVALID");
    expect([world.network.received, await countRows(world.database, "verifications")]).toEqual([[], 0]);
    await put(spelled, "allow");
    await put("+31", "allow");
    for (const phone of [...readSpellings, ...refusedSpellings]) await call("SendOtp", { phone });
    const numbers = new Set(world.network.received.map(({ to }) => to));
    expect([...numbers].filter((number) => number.endsWith("12345678"))).toEqual([spelled]);
    expect(world.network.received.filter(({ to }) => to === spelled)).toHaveLength(3);
  });

  test("what is blocked after its send gets no resend, and still verifies; a replay is answered as before", async () => {
    const phone = newPhone();
    const headers = { "idempotency-key": "once" };
    const first = await call("SendOtp", { phone }, world.key, headers);
    const code = world.network.codeFor(phone);
    await put(phone.slice(0, 9), "block");
    world.system.advance(30_000);
    const request_id = idOf(first);
    expect((await call("ResendOtp", { request_id })).reason).toBe("DESTINATION_BLOCKED");
    expect((await call("SendOtp", { phone }, world.key, headers)).value).toEqual(first.value);
    expect((await call("VerifyOtp", { request_id, code: wrongCode(code) })).reason).toBe("CODE_MISMATCH");
    expect((await call("VerifyOtp", { request_id, code })).value).toMatchObject({ state: "STATE_VERIFIED" });
    expect(world.network.received).toHaveLength(1);
  });

  test("the sandbox asks no list, and no list takes a fictional number for a live key", async () => {
    const { text } = await world.makeKey({ kind: "test" });
    await put("+1", "block");
    expect((await call("SendOtp", { phone: "+14155550100" }, text)).value).toMatchObject({ state: "STATE_PENDING" });
    for (const phone of ["+14155550100", "+15555550100"]) {
      await put(phone, "allow");
      expect((await call("SendOtp", { phone })).reason).toBe("PHONE_INVALID");
    }
    expect(world.network.received).toEqual([]);
  });

  test("a satellite's number is refused before anything is spent, unless it is allowed", async () => {
    const phone = "+881612345678";
    const refused = await call("SendOtp", { phone });
    expect([refused.reason, refused.field, refused.message]).toEqual([
      "PHONE_NOT_MOBILE",
      "phone",
      "phone is of a satellite or international network, which gets no SMS from here.",
    ]);
    await put("+8816", "allow");
    expect((await call("SendOtp", { phone })).value).toMatchObject({ state: "STATE_PENDING" });
    expect(world.network.received.map(({ to, region }) => [to, region])).toEqual([[phone, "001"]]);
  });
});

describe("the daily cap", () => {
  const hourMs = 3_600_000;
  const dayMs = 24 * hourMs;
  const shares = () => world.observed.filter(({ event }) => event === "spendWarning").map((observed) => observed.with);

  beforeEach(async () => {
    world = await startWorld({ OTP_DAILY_MESSAGE_CAP: "5" });
    world.system.advance(dayMs - (world.system.now() % dayMs) + 20 * hourMs);
  });

  test("answers SPEND_LIMIT with the time until the next UTC day, and warns once of 80 and of 100 %", async () => {
    for (let i = 0; i < 5; i++) expect((await call("SendOtp", { phone: newPhone() })).value).toBeDefined();
    const phone = newPhone();
    const refused = await call("SendOtp", { phone });
    expect(refused).toMatchObject({ reason: "SPEND_LIMIT", http: 429, retryAfterSeconds: 4 * 3_600 });
    await world.restart();
    expect((await call("SendOtp", { phone })).reason).toBe("SPEND_LIMIT");
    expect(shares()).toEqual([
      ["default", { share: 80, cap: 5 }],
      ["default", { share: 100, cap: 5 }],
    ]);
    expect(JSON.stringify(shares())).not.toContain("+31");
    world.system.advance(4 * hourMs - 1);
    expect((await call("SendOtp", { phone })).retryAfterSeconds).toBe(1);
    world.system.advance(1);
    expect((await call("SendOtp", { phone })).value).toBeDefined();
    expect(world.network.received).toHaveLength(6);
  });

  test("has no second call made for a message that may have arrived, when the first took the last place", async () => {
    for (let i = 0; i < 4; i++) await call("SendOtp", { phone: newPhone() });
    world.network.script.push({ kind: "ambiguous", detail: "no answer" });
    const answer = call("SendOtp", { phone: newPhone() });
    const failures = () =>
      inDatabase(world.databasePath, (db) => db.prepare("SELECT sum(failures) FROM messages").pluck().get());
    while (failures() !== 1) await turn();
    world.system.advance(1_000);
    const owed = () =>
      inDatabase(world.databasePath, (db) => db.prepare("SELECT 1 FROM messages WHERE due_ms IS NOT NULL").get());
    while (owed() !== undefined) await turn();
    world.system.advance(1_000);
    const request_id = idOf(await answer);
    expect((await call("GetOtp", { request_id })).value).toMatchObject({
      state: "STATE_PENDING",
      delivery: "DELIVERY_EXPIRED",
      delivery_detail: "the daily cap on messages was reached",
    });
    expect(world.network.received).toHaveLength(5);
  });

  test("is told in the log, with the tenant and no number", async () => {
    const otpd = await startOtpd(world.folder, {
      OTP_DAILY_MESSAGE_CAP: "1",
      OTP_DATABASE_URL: `file:${world.folder}/other.db`,
    });
    const [key] = await otpd.waitFor(/otp_live_\w{10}_\w{38}/);
    await rest.call(otpd.url, "SendOtp", { phone: "+31612345678" }, { key });
    await otpd.end();
    const lines = otpd
      .errors()
      .split("\n")
      .filter((line) => line.includes("daily cap"));
    expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
      { level: 40, tenant: "default", share_percent: 100, cap: 1, msg: "the daily cap is reached" },
    ]);
    expect(otpd.errors()).not.toContain("612345678");
  });

  test("does not count the sandbox, nor what no provider took", async () => {
    const { text } = await world.makeKey({ kind: "test" });
    for (let i = 0; i < 6; i++) await call("SendOtp", { phone: "+14155550100" }, text);
    for (let i = 0; i < 6; i++) {
      world.network.script.push({ kind: "refused", cause: "recipient", detail: "no such number" });
      expect((await call("SendOtp", { phone: newPhone() })).reason).toBe("PHONE_UNREACHABLE");
    }
    for (let i = 0; i < 5; i++) expect((await call("SendOtp", { phone: newPhone() })).value).toBeDefined();
    expect((await call("SendOtp", { phone: newPhone() })).reason).toBe("SPEND_LIMIT");
  });
});
