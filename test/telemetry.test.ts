/**
 * What a log has to say, read from the standard error of the real command.
 */
import * as fc from "fast-check";
import { rmSync } from "node:fs";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { keyKinds, parseKey } from "../src/otp/keys/api-key.ts";
import { createTelemetry, type AnsweredCall, type LogLevel } from "../src/telemetry.ts";
import { webhookSecret } from "./support/service/environment.ts";
import { startFarEnd } from "./support/fakes/far-end.ts";
import { firstKey, runOtpd, startOtpd, type Otpd } from "./support/processes/process.ts";
import { temporaryFolder } from "./support/service/world.ts";

let folder: string;
beforeEach(() => (folder = temporaryFolder()));
afterEach(() => rmSync(folder, { recursive: true }));

/** The lines with this message, of a server that has ended. */
function linesOf(otpd: Otpd, msg: string): Record<string, unknown>[] {
  const lines = otpd.errors().trim().split("\n");
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>).filter((line) => line["msg"] === msg);
}

test("a provider that is down is told of by its failed calls, and once when it is left alone", async () => {
  const farEnd = await startFarEnd({ status: 404 });
  const otpd = await startOtpd(folder, {
    OTP_PROVIDERS: "webhook",
    OTP_WEBHOOK_URL: farEnd.url,
    OTP_WEBHOOK_SECRET: webhookSecret,
    OTP_ALLOWED_COUNTRIES: "US",
    // Callers are told what came of the message, however slow the machine is.
    OTP_SEND_WAIT_MS: "10000",
  });
  const key = await firstKey(otpd);
  const send = async (i: number) => {
    const answer = await fetch(`${otpd.url}/v1/otp/send`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ phone: `+1415555267${i}` }),
    });
    expect(answer.status).toBe(503);
  };
  for (const first of [0, 1, 2, 3, 4]) await send(first);
  await Promise.all([5, 6, 7, 8, 9].map(send));
  await otpd.end();
  await farEnd.stop();
  // Each message is tried twice. The fifth number's first call was one too many.
  expect(farEnd.asked).toHaveLength(9);
  expect(linesOf(otpd, "provider call").map(({ outcome }) => outcome)).toEqual(Array(9).fill("unavailable"));
  for (const line of linesOf(otpd, "provider call")) {
    const of = { tenant: "default", http_status: 404 };
    expect(line).toMatchObject({ ...of, request_ref: expect.stringMatching(/^[A-Za-z0-9_-]{12}$/) });
  }
  const turns = linesOf(otpd, "the provider failed too often and is left alone until a trial succeeds");
  expect(turns).toMatchObject([{ level: 40, provider: "webhook" }]);
});

test("all lines about a verification are found by the first 12 characters of its request_id, and have no more of it", async () => {
  const farEnd = await startFarEnd({ status: 200, body: '{"id":"m-1"}' });
  const otpd = await startOtpd(folder, {
    OTP_LOG_LEVEL: "debug",
    OTP_ADMIN: "loopback",
    OTP_PROVIDERS: "webhook",
    OTP_WEBHOOK_URL: farEnd.url,
    OTP_WEBHOOK_SECRET: webhookSecret,
    OTP_ALLOWED_COUNTRIES: "US",
    OTP_SEND_WAIT_MS: "10000",
  });
  const key = await firstKey(otpd);
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const post = async (path: string, body: object) =>
    (await fetch(`${otpd.url}/v1/otp/${path}`, { method: "POST", headers, body: JSON.stringify(body) })).json();
  const { request_id: id } = (await post("send", { phone: "+14155552671" })) as { request_id: string };
  await post("verify", { request_id: id, code: "not a code" });
  await post("verify", { request_id: "what a stranger\nwrites", code: "123456" });
  await post("verify", { request_id: "31612345678AAAAAAAAAAA", code: "123456" });
  await fetch(`${otpd.url}/v1/otp/${id}`, { headers });
  const made = await runOtpd(folder, ["keys", "create", "--admin", "--json"]);
  const admin = {
    authorization: `Bearer ${(JSON.parse(made.output) as { key: string }).key}`,
    "content-type": "application/json",
  };
  const adminUrl = /(http:\S+)\/console#token/.exec(otpd.output())?.[1] ?? "";
  for (const requestRef of [id, id.slice(0, 12), "what an operator\nwrites"]) {
    const body = JSON.stringify({ requestRef });
    const path = `${adminUrl}/otp.admin.v1.AdminService/CancelVerification`;
    await fetch(path, { method: "POST", headers: admin, body });
  }
  await otpd.end();
  await farEnd.stop();
  const ref = id.slice(0, 12);
  const calls = linesOf(otpd, "call").map(({ rpc, request_ref }) => [rpc, request_ref]);
  expect(calls).toEqual([
    ["SendOtp", ref],
    ["VerifyOtp", ref],
    ["VerifyOtp", undefined],
    ["VerifyOtp", undefined],
    ["GetOtp", ref],
    ["CancelVerification", ref],
    ["CancelVerification", ref],
    ["CancelVerification", undefined],
  ]);
  expect(linesOf(otpd, "provider call")).toMatchObject([
    { provider: "webhook", tenant: "default", request_ref: ref, provider_message_id: "m-1", http_status: 200 },
  ]);
  const [{ call_id: sendId } = {}] = linesOf(otpd, "call");
  expect(sendId).toMatch(/^[A-Za-z0-9_-]{12}$/);
  expect(linesOf(otpd, "provider call").map(({ call_id }) => call_id)).toEqual([sendId]);
  expect(otpd.errors()).not.toContain(id);
  expect(otpd.errors()).not.toContain("stranger");
});

test("who still calls with a revoked key is told by the key's id, and who guesses at one is not", async () => {
  const otpd = await startOtpd(folder);
  const key = await firstKey(otpd);
  const read = parseKey(`Bearer ${key}`, keyKinds);
  if (!read.ok) throw new Error("the first key is none");
  const { id } = read.value;
  await runOtpd(folder, ["keys", "revoke", id]);
  const call = (by: string) => fetch(`${otpd.url}/v1/otp/x`, { headers: { authorization: `Bearer ${by}` } });
  expect(await (await call(key)).json()).toMatchObject({ reason: "API_KEY_REVOKED" });
  expect((await call(`${key.slice(0, -1)}_`)).status).toBe(401);
  await otpd.end();
  expect(linesOf(otpd, "call").map(({ reason, key_id, tenant }) => [reason, key_id, tenant])).toEqual([
    ["API_KEY_REVOKED", id, undefined],
    ["API_KEY_INVALID", undefined, undefined],
  ]);
});

test("a call's line, which is written by hand, is the one that pino writes", () => {
  vi.useFakeTimers({ toFake: ["Date"], now: 1_795_341_600_123 });
  const text = fc.string({ unit: "grapheme", maxLength: 120 });
  const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
  const calls = fc.record(
    {
      id: text,
      rpc: text,
      surface: text,
      caller: fc.record({ tenant: text, id: text }),
      refusal: fc.record({ reason: text, keyId: text }, { requiredKeys: ["reason"] }),
      isCanceled: fc.boolean(),
      requestRef: text,
    },
    { requiredKeys: ["id", "rpc", "surface"] },
  );
  try {
    fc.assert(
      fc.property(calls, fc.nat(), fc.nat(), maybe(text), (call: AnsweredCall, status, durationMs, version = "") => {
        expect(writtenBy("info", version, call, status, durationMs)).toBe(pinos(version, call, status, durationMs));
      }),
    );
    const told = (level: LogLevel) =>
      writtenBy(level, "1", { id: "i", rpc: "SendOtp", surface: "rest" }, 200, 1) !== "";
    expect((["trace", "debug", "info", "warn", "silent"] as const).map(told)).toEqual([true, true, true, false, false]);
  } finally {
    vi.useRealTimers();
  }
});

/** What telemetry writes of a call. */
function writtenBy(level: LogLevel, version: string, call: AnsweredCall, status: number, durationMs: number): string {
  let written = "";
  const lines = { write: (line: string) => void (written += line), written: () => Promise.resolve() };
  createTelemetry(level, version, lines).call(call, status, durationMs);
  return written;
}

/** What pino writes of it. */
function pinos(version: string, call: AnsweredCall, status: number, durationMs: number): string {
  let written = "";
  const log = pino(
    { base: { service: "otpd", version }, timestamp: pino.stdTimeFunctions.isoTime },
    { write: (line) => void (written += line) },
  );
  const fields = {
    call_id: call.id,
    rpc: call.rpc,
    surface: call.surface,
    status,
    reason: call.refusal?.reason,
    canceled: call.isCanceled === true ? true : undefined,
    duration_ms: durationMs,
    tenant: call.caller?.tenant,
    key_id: call.caller?.id ?? call.refusal?.keyId,
    request_ref: call.requestRef,
  };
  log.info(fields, "call");
  return written;
}
