/**
 * One list of scenarios, over every surface: the life cycles of a verification, each from send to its end. The real
 * server on a real port with real SQLite, and each surface's own client.
 */
import type { JsonObject } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectRefusal } from "../support/data/contract.ts";
import { rowOf, stateNumbers } from "../support/databases/rows.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import {
  callUntilReached,
  surfaces,
  type Message,
  type Outcome,
  type Rpc,
  type Surface,
} from "../support/clients/surfaces.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

const idPattern = /^[A-Za-z0-9_-]{22}$/;

function timeIn(ms: number, { system } = world): string {
  return new Date(system.now() + ms).toISOString().replace(".000Z", "Z");
}

describe.each(surfaces)("over $name", (surface) => {
  const call = (rpc: Rpc, message: Message): Promise<Outcome> =>
    callUntilReached(() => surface.call(world.url, rpc, message, { key: world.key }));

  async function send(more: Message = {}): Promise<{ phone: string; id: string; code: string; sent: JsonObject }> {
    const phone = newPhone();
    const { value: sent = {} } = await call("SendOtp", { phone, ...more });
    return { phone, id: String(sent["request_id"]), code: world.network.codeFor(phone), sent };
  }

  test("a send tells all there is to know, to the second", async () => {
    const { sent } = await send();
    expect(sent).toEqual({
      request_id: expect.stringMatching(idPattern) as string,
      state: "STATE_PENDING",
      delivery: "DELIVERY_ACCEPTED",
      expire_time: timeIn(600_000),
      expires_in_seconds: 600,
      next_resend_time: timeIn(30_000),
      resend_in_seconds: 30,
      resends_remaining: 2,
      code_length: 6,
    });
  });

  test("the SMS carries the code, the brand and the minutes left", async () => {
    const { phone, code } = await send({ locale: "en" });
    expect(world.network.received.findLast(({ to }) => to === phone)?.text).toBe(
      `${code} is your otpd verification code. It expires in 10 minutes. Never share it.`,
    );
  });

  test("a code is sent, mistyped, typed right, and cannot be used again", async () => {
    const { id, phone, code } = await send();
    expectRefusal(await call("VerifyOtp", { request_id: id, code: wrongCode(code) }), "CODE_MISMATCH", {
      field: "code",
      attemptsRemaining: 4,
    });
    expect((await call("VerifyOtp", { request_id: id, code })).value).toEqual({
      request_id: id,
      state: "STATE_VERIFIED",
      phone,
      verify_time: timeIn(0),
      receipt: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]{86}$/) as string,
    });
    expectRefusal(await call("VerifyOtp", { request_id: id, code }), "OTP_ALREADY_VERIFIED");
    expect(await rowOf(world.database, id)).toEqual({ attempts: 2, state: stateNumbers.VERIFIED, hasSalt: false });
  });

  test("a code typed with spaces and hyphens is the same code", async () => {
    const { id, code } = await send();
    const spaced = ` ${code.slice(0, 3)}-${code.slice(3)} `;
    expect((await call("VerifyOtp", { request_id: id, code: spaced })).value).toMatchObject({
      state: "STATE_VERIFIED",
    });
  });

  test("five wrong codes count down to the lock, which the right code does not open", async () => {
    const { id, code } = await send();
    for (const left of [4, 3, 2, 1, 0]) {
      expectRefusal(await call("VerifyOtp", { request_id: id, code: wrongCode(code, 1 + left) }), "CODE_MISMATCH", {
        field: "code",
        attemptsRemaining: left,
      });
    }
    expectRefusal(await call("VerifyOtp", { request_id: id, code }), "OTP_LOCKED");
    expect(await rowOf(world.database, id)).toEqual({ attempts: 5, state: stateNumbers.LOCKED, hasSalt: false });
    expect((await call("GetOtp", { request_id: id })).value).toMatchObject({
      state: "STATE_LOCKED",
      reason: "REASON_OTP_LOCKED",
      attempts_remaining: 0,
    });
  });

  test("malformed codes spend nothing, however many", async () => {
    const { id, code } = await send();
    for (const typed of ["12345", "1234567", "１２３４５６", "12345a", "-", `${code}\u0000`, "9".repeat(33)]) {
      expectRefusal(await call("VerifyOtp", { request_id: id, code: typed }), "CODE_MALFORMED", { field: "code" });
    }
    expect((await rowOf(world.database, id)).attempts).toBe(0);
    expect((await call("VerifyOtp", { request_id: id, code })).value).toMatchObject({ state: "STATE_VERIFIED" });
  });

  test("a resend texts the same code, and leaves lifetime and attempts as they were", async () => {
    const { id, phone, code, sent } = await send();
    await call("VerifyOtp", { request_id: id, code: wrongCode(code) });
    world.system.advance(30_000);
    expect((await call("ResendOtp", { request_id: id })).value).toEqual({
      ...sent,
      expires_in_seconds: 570,
      next_resend_time: timeIn(60_000),
      resend_in_seconds: 60,
      resends_remaining: 1,
    });
    expect(world.network.received.filter(({ to }) => to === phone).map(({ text }) => text.slice(0, 6))).toEqual([
      code,
      code,
    ]);
    expect((await rowOf(world.database, id)).attempts).toBe(1);
    world.system.advance(60_000);
    const { value: last } = await call("ResendOtp", { request_id: id });
    expect(last).toMatchObject({ resend_in_seconds: 0, resends_remaining: 0, expire_time: sent["expire_time"] });
    expect(last).not.toHaveProperty("next_resend_time");
    expectRefusal(await call("ResendOtp", { request_id: id }), "RESENDS_EXHAUSTED");
    expect((await call("VerifyOtp", { request_id: id, code })).value).toMatchObject({ state: "STATE_VERIFIED" });
  });

  test("a canceled code does not verify, and canceling again answers the same", async () => {
    const { id, code } = await send();
    const canceled = { request_id: id, state: "STATE_CANCELED", cancel_time: timeIn(0) };
    expect((await call("CancelOtp", { request_id: id })).value).toEqual(canceled);
    world.system.advance(5_000);
    expect((await call("CancelOtp", { request_id: id })).value).toEqual(canceled);
    expectRefusal(await call("VerifyOtp", { request_id: id, code }), "OTP_CANCELED");
    expectRefusal(await call("ResendOtp", { request_id: id }), "OTP_CANCELED");
    expect(await rowOf(world.database, id)).toEqual({ attempts: 0, state: stateNumbers.CANCELED, hasSalt: false });
  });

  test("a get tells all about a pending one, and what it came to afterwards", async () => {
    const { id, phone, code, sent } = await send({ purpose: "login", bind: { amount: "10" } });
    const pending: JsonObject = {
      ...sent,
      reason: "REASON_UNSPECIFIED",
      phone,
      channel: "sms",
      purpose: "login",
      create_time: timeIn(0),
      attempts_remaining: 5,
      provider: "test",
      delivery_detail: "",
      messages: [{ channel: "sms", delivery: "DELIVERY_ACCEPTED", provider: "test", detail: "" }],
    };
    expect((await call("GetOtp", { request_id: id })).value).toEqual(pending);
    const verify = { request_id: id, code, purpose: "login", bind: { amount: "10" } };
    expect((await call("VerifyOtp", verify)).value).toMatchObject({ state: "STATE_VERIFIED" });
    const { next_resend_time: _, ...lasting } = pending;
    expect((await call("GetOtp", { request_id: id })).value).toEqual({
      ...lasting,
      state: "STATE_VERIFIED",
      reason: "REASON_OTP_ALREADY_VERIFIED",
      expires_in_seconds: 0,
      end_time: timeIn(0),
      resend_in_seconds: 0,
      resends_remaining: 0,
      attempts_remaining: 0,
    });
  });

  test("two sends to one phone are two verifications, and neither's code verifies the other", async () => {
    const first = await send();
    await call("SendOtp", { phone: first.phone });
    const second = world.network.codeFor(first.phone);
    expectRefusal(await call("VerifyOtp", { request_id: first.id, code: second }), "CODE_MISMATCH", {
      field: "code",
      attemptsRemaining: 4,
    });
    expect((await call("VerifyOtp", { request_id: first.id, code: first.code })).value).toMatchObject({
      state: "STATE_VERIFIED",
    });
  });

  test("the lifetime ends exactly where it is told to", async () => {
    const early = await send();
    world.system.advance(599_999);
    expect((await call("VerifyOtp", { request_id: early.id, code: early.code })).value).toMatchObject({
      state: "STATE_VERIFIED",
    });
    for (const lateMs of [0, 1]) {
      const late = await send();
      world.system.advance(600_000 + lateMs);
      expectRefusal(await call("VerifyOtp", { request_id: late.id, code: late.code }), "OTP_EXPIRED");
      expect(await rowOf(world.database, late.id)).toEqual({
        attempts: 0,
        state: stateNumbers.EXPIRED,
        hasSalt: false,
      });
      expect((await call("GetOtp", { request_id: late.id })).value).toMatchObject({
        state: "STATE_EXPIRED",
        reason: "REASON_OTP_EXPIRED",
        end_time: late.sent["expire_time"],
      });
    }
  });

  test("a resend is due exactly where it is told to be, and too late from a minute before the end", async () => {
    const { id } = await send();
    world.system.advance(29_999);
    expectRefusal(await call("ResendOtp", { request_id: id }), "RESEND_TOO_SOON", { retryAfterSeconds: 1 });
    world.system.advance(1);
    expect((await call("ResendOtp", { request_id: id })).value).toMatchObject({ resends_remaining: 1 });
    world.system.advance(510_000);
    expect((await call("ResendOtp", { request_id: id })).value).toMatchObject({ expires_in_seconds: 60 });
    const other = await send();
    world.system.advance(540_001);
    expect((await call("GetOtp", { request_id: other.id })).value).toMatchObject({
      state: "STATE_PENDING",
      resend_in_seconds: 0,
      resends_remaining: 0,
    });
    expectRefusal(await call("ResendOtp", { request_id: other.id }), "RESENDS_EXHAUSTED");
    expect((await call("VerifyOtp", { request_id: other.id, code: other.code })).value).toMatchObject({
      state: "STATE_VERIFIED",
    });
  });
});

test("over two surfaces, one verification is one verification", async () => {
  const phone = newPhone();
  const [rest, , , grpc] = surfaces as [Surface, Surface, Surface, Surface, ...Surface[]];
  const call = (surface: Surface, rpc: Rpc, message: Message) =>
    callUntilReached(() => surface.call(world.url, rpc, message, { key: world.key }));
  const { value } = await call(rest, "SendOtp", { phone });
  const verify = { request_id: String(value?.["request_id"]), code: world.network.codeFor(phone) };
  expect((await call(grpc, "VerifyOtp", verify)).value).toMatchObject({ phone });
});

describe("with the limits of a number that hold by themselves", () => {
  let limited: World;
  beforeAll(async () => {
    limited = await startWorld({ OTP_PHONE_LIMITS: "5@10m,6@4h" });
  });
  afterAll(() => limited.stop());

  test.each(surfaces)("over $name, a resend is promised for when its number has room for it", async (surface) => {
    const call = (rpc: Rpc, message: Message) =>
      callUntilReached(() => surface.call(limited.url, rpc, message, { key: limited.key }));
    const phone = newPhone();
    const told: JsonObject[] = [];
    for (const waitMs of [0, 75_000, 75_000, 75_000, 75_000]) {
      limited.system.advance(waitMs);
      told.push((await call("SendOtp", { phone })).value ?? {});
    }
    expect(told.map(({ resends_remaining: left }) => left)).toEqual([2, 2, 2, 2, 1]);
    // Five at once and one more in 10 minutes: the first was 5 minutes ago.
    const promise = { resend_in_seconds: 300, resends_remaining: 1, next_resend_time: timeIn(300_000, limited) };
    expect(told.at(-1)).toMatchObject(promise);
    const message = { request_id: String(told.at(-1)?.["request_id"]) };
    expect((await call("GetOtp", message)).value).toMatchObject(promise);
    limited.system.advance(299_999);
    expectRefusal(await call("ResendOtp", message), "PHONE_RATE_LIMITED", { field: "phone", retryAfterSeconds: 1 });
    expect((await call("GetOtp", message)).value).toMatchObject({ resend_in_seconds: 1, resends_remaining: 1 });
    limited.system.advance(1);
    const none = { resend_in_seconds: 0, resends_remaining: 0 };
    expect((await call("ResendOtp", message)).value).toMatchObject(none);
    expect((await call("GetOtp", message)).value).toMatchObject(none);
    // Six at once and one more in 4 hours: the first was 11 minutes ago.
    limited.system.advance(60_000);
    expectRefusal(await call("ResendOtp", message), "PHONE_RATE_LIMITED", {
      field: "phone",
      retryAfterSeconds: 13_740,
    });
  });
});
