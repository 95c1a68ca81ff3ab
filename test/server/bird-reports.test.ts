/**
 * Bird's reports on their way in: from a signed post to /webhooks/bird to what GetOtp tells.
 */
import { createHmac } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startService, type RunningService } from "../../src/main.ts";
import { scopes } from "../../src/otp/keys/api-key.ts";
import { issueKey } from "../../src/service/callers/api-keys.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { keyText, webhookSecret } from "../support/service/environment.ts";
import { createBirdProvider } from "../../src/delivery/providers/bird.ts";
import { startFarEnd, type FarEnd } from "../support/fakes/far-end.ts";
import { newPhone } from "../support/data/phones.ts";
import { surfaces } from "../support/clients/surfaces.ts";
import { createManualSystem } from "../support/service/system.ts";
import { configOf, createTestTelemetry, temporaryFolder, type Observation } from "../support/service/world.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];
let folder: string;
let farEnd: FarEnd;
let service: RunningService;
let key: string;
const observed: Observation[] = [];
const system = createManualSystem();
const url = () => `http://127.0.0.1:${service.port}`;

beforeAll(async () => {
  folder = temporaryFolder();
  const path = join(folder, "otp.db");
  farEnd = await startFarEnd({ status: 202, body: { id: "sms_1" } });
  const config = configOf({
    OTP_PORT: "0",
    OTP_DATABASE_URL: `file:${path}`,
    OTP_MASTER_KEY: keyText,
    // An answer tells what came of the message, however slow the machine is.
    OTP_SEND_WAIT_MS: "10000",
  });
  const bird = createBirdProvider({
    apiKey: "bk_eu1_secret",
    originator: "Acme",
    originators: new Map(),
    template: "bird_otp",
    whatsappSender: undefined,
    webhookSecret,
    baseUrl: new URL(farEnd.url),
    now: () => system.now(),
  });
  service = await startService(config, {
    system,
    telemetry: createTestTelemetry(observed),
    print: () => {},
    providers: [bird],
  });
  const store = await openSqlite({ path, system, exclusive: false });
  const options = { kind: "live", tenant: "default", name: "test", scopes, expireMs: null } as const;
  key = (await issueKey(store, system, options)).text.reveal();
  await store.close();
});
afterAll(async () => {
  await service.stop();
  await farEnd.stop();
  rmSync(folder, { recursive: true });
});

const form = "application/x-www-form-urlencoded";

interface Odd {
  readonly query?: string;
  readonly type?: string;
  /** What stands before the signature. */
  readonly before?: string;
  readonly note?: string;
}

/** Posts an event as Bird does; resolves with the status. */
async function post(event: object, secret = webhookSecret, odd: Odd = {}): Promise<number> {
  const { query = "", type = "application/json", before = "" } = odd;
  const body = JSON.stringify({ timestamp: "2026-01-01T12:00:00Z", ...event });
  const at = Math.floor(Date.now() / 1_000);
  const bytes = Buffer.from(secret.slice("whsec_".length), "base64");
  const mac = createHmac("sha256", bytes).update(`msg_1.${at}.${body}`).digest("base64");
  const headers = {
    "content-type": type,
    "webhook-id": "msg_1",
    "webhook-timestamp": `${at}`,
    "webhook-signature": `${before}v1,${mac}`,
  };
  return (await fetch(`${url()}/webhooks/bird${query}`, { method: "POST", headers, body })).status;
}

/** Sends through Bird; resolves with the request, and the metadata that Bird was given. */
async function send() {
  const { value } = await rest.call(url(), "SendOtp", { phone: newPhone() }, { key });
  const { metadata } = JSON.parse(farEnd.asked.at(-1)?.body ?? "") as { metadata: { reference: string } };
  return { sent: value, request_id: String(value?.["request_id"]), metadata };
}

async function seen(request_id: string) {
  return (await rest.call(url(), "GetOtp", { request_id }, { key })).value;
}

describe("a report of Bird's", () => {
  test("moves delivery on by the metadata that the message had, and never back", async () => {
    const { sent, request_id, metadata } = await send();
    expect(sent).toMatchObject({ delivery: "DELIVERY_ACCEPTED" });
    expect(await post({ type: "sms.delivered", data: { sms_id: "sms_1", metadata } })).toBe(200);
    expect(await seen(request_id)).toMatchObject({ delivery: "DELIVERY_DELIVERED", provider: "bird" });
    for (const type of ["sms.sent", "sms.delivered", "sms.failed"]) {
      expect(await post({ type, data: { sms_id: "sms_1", metadata } })).toBe(200);
    }
    expect(await seen(request_id)).toMatchObject({ delivery: "DELIVERY_DELIVERED" });
  });

  test("that a message failed is told with its reason", async () => {
    const { request_id, metadata } = await send();
    const data = { sms_id: "sms_1", metadata, error: { code: "unknown_subscriber" } };
    expect(await post({ type: "sms.failed", data })).toBe(200);
    expect(await seen(request_id)).toMatchObject({
      delivery: "DELIVERY_UNDELIVERED",
      delivery_detail: "unknown_subscriber",
    });
  });

  test("of a message nobody knows, or of a kind nobody knows, is taken and changes nothing", async () => {
    const { request_id, metadata } = await send();
    const before = await seen(request_id);
    const strange = { reference: `${"A".repeat(22)}.0` };
    expect(await post({ type: "sms.failed", data: { sms_id: "sms_1", metadata: strange } })).toBe(200);
    expect(await post({ type: "sms.failed", data: { sms_id: "sms_1", metadata: null } })).toBe(200);
    expect(await post({ type: "sms.teleported", data: { sms_id: "sms_1", metadata } })).toBe(200);
    expect(await seen(request_id)).toEqual(before);
  });

  test("leaves a trace where it matches nothing, with no more of its reference than three characters", async () => {
    const { metadata } = await send();
    const count = async (outcome: string) => {
      const text = await (await fetch(`${url()}/metrics`)).text();
      return Number(
        new RegExp(`^otp_provider_reports_total\\{.*outcome="${outcome}".*\\} (\\d+)$`, "m").exec(text)?.[1],
      );
    };
    const outcomes = ["matched", "unmatched", "ignored", "refused"];
    const before = await Promise.all(outcomes.map(count));
    observed.length = 0;
    await post({ type: "sms.delivered", data: { sms_id: "sms_1", metadata } });
    await post({ type: "sms.failed", data: { sms_id: "sms_1", metadata: { reference: "+31612345678" } } });
    await post({ type: "sms.teleported", data: { sms_id: "sms_1", metadata } });
    await fetch(`${url()}/webhooks/bird`);
    system.advance(1_000);
    const after = await Promise.all(outcomes.map(count));
    expect(after.map((each, i) => each - (before[i] ?? 0))).toEqual([1, 1, 1, 1]);
    expect(observed.filter(({ event }) => event === "unmatchedReport")).toEqual([
      { event: "unmatchedReport", with: ["bird", "+31612345678"] },
    ]);
  });

  test("that is forged is refused, and changes nothing", async () => {
    const { request_id, metadata } = await send();
    const before = await seen(request_id);
    const stranger = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
    expect(await post({ type: "sms.failed", data: { sms_id: "sms_1", metadata } }, stranger)).toBe(401);
    expect((await fetch(`${url()}/webhooks/bird`)).status).toBe(401);
    expect(await seen(request_id)).toEqual(before);
  });

  // To check one took up to 6 ms, and anybody can post them.
  test.each<[string, (count: number) => Odd]>([
    ["a header of many signatures", (count) => ({ before: "v1,A ".repeat(count) })],
    ["a long target", (count) => ({ query: `?${"aaaa".repeat(count)}` })],
    ["a form of many fields", (count) => ({ type: form, note: "a&".repeat(count) })],
    ["a form with many escapes that are no UTF-8", (count) => ({ type: form, note: "%FF&".repeat(count / 2) })],
    ["a query with many of them", (count) => ({ query: `?${"%FF&".repeat(count / 2)}` })],
  ])("that has %s, as no provider's has, is not looked at", async (_, oddOf) => {
    for (const [count, status] of [
      [20, 200],
      [600, 401],
    ] as const) {
      const { note, ...odd } = oddOf(count);
      expect(await post({ type: "sms.teleported", data: { note } }, webhookSecret, odd)).toBe(status);
    }
  });
});
