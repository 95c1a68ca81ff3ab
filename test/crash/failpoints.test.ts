/**
 * The process is killed, or a step throws, at every step of a send and of a verify, and the service is started again on
 * the same files. Whatever the place: an acknowledged call is in the database, a call that is repeated has one effect,
 * every SMS carries the same code, attempts are exact, and a code is good for one success.
 *
 * kill −9 says nothing about fsync: what a killed process has written stays in the machine's memory, and synchronous=OFF
 * would pass here. Durability has a test of its own.
 */
import { rmSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import { dueIn, readBook } from "../support/databases/book.ts";
import {
  codeIn,
  createDeployment,
  startCrashable,
  type Crashable,
  type Deployment,
  type Failpoint,
  type FailureMode,
} from "../support/processes/crashable.ts";
import { wrongCode } from "../support/data/phones.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { sampled } from "../support/extent.ts";

const folder = temporaryFolder();
let deployment: Deployment;
let service: Crashable;
/** Phones and idempotency keys, one per case. */
let cases = 0;
let phone = "";
let key = "";

/** Past the lease of a message in hand and the wait of a call under way, far from the end of a code's life. */
const leaseAndWaitMs = 31_000;

beforeAll(async () => {
  deployment = await createDeployment(folder);
  service = await startCrashable(deployment);
});
beforeEach(() => {
  cases += 1;
  phone = `+3161${String(cases).padStart(7, "0")}`;
  key = `case-${cases}`;
  deployment.respond = () => ({ kind: "accepted" });
});
afterAll(async () => {
  await service.killed();
  rmSync(folder, { recursive: true });
});

async function restart(at?: `${Failpoint}:${FailureMode}`): Promise<void> {
  deployment.aheadMs += leaseAndWaitMs;
  service = await startCrashable(deployment, {}, at);
}

const delivered = () => service.until(() => dueIn(deployment.databasePath) === 0);
const codesSent = () => (deployment.inbox.get(phone) ?? []).map(codeIn);
const send = () => service.call("/v1/otp/send", { phone }, key);
const verify = (request_id: string, code: string, idempotencyKey?: string) =>
  service.call("/v1/otp/verify", { request_id, code }, idempotencyKey);
const rowsNow = () => readBook(deployment.databasePath).entries.size;

/** Sends to a phone without any failure, and resolves with the request's id and code. */
async function open(): Promise<{ id: string; code: string }> {
  const sent = await service.call("/v1/otp/send", { phone });
  expect(sent?.status).toBe(200);
  return { id: String(sent?.body["request_id"]), code: String(codesSent()[0]) };
}

/** The code is good for one success, and the only attempt counted is that one. */
async function expectOneSuccess(id: string, code: string): Promise<void> {
  expect(await verify(id, code)).toMatchObject({ status: 200, body: { request_id: id, phone } });
  expect(await verify(id, code)).toMatchObject({ status: 400, body: { reason: "OTP_ALREADY_VERIFIED" } });
  expect(readBook(deployment.databasePath).entries.get(id)).toMatchObject({
    state: "VERIFIED",
    attempts: 1,
    hasSalt: false,
  });
}

describe("a send that is killed", () => {
  test.each(
    sampled<{ at: Failpoint; stored: boolean; sms: number }>(
      [
        { at: "open.before", stored: false, sms: 1 },
        { at: "open.decide", stored: false, sms: 1 },
        { at: "open.decided", stored: false, sms: 1 },
        { at: "open.commit", stored: false, sms: 1 },
        { at: "open.after", stored: true, sms: 1 },
        { at: "call.before", stored: true, sms: 1 },
        { at: "call.accepted", stored: true, sms: 2 },
        { at: "settle.before", stored: true, sms: 2 },
        { at: "settle.decide", stored: true, sms: 2 },
        { at: "settle.decided", stored: true, sms: 2 },
        { at: "settle.commit", stored: true, sms: 2 },
        { at: "settle.after", stored: true, sms: 1 },
        { at: "note.before", stored: true, sms: 1 },
        { at: "note.after", stored: true, sms: 1 },
        { at: "answer.half", stored: true, sms: 1 },
      ],
      3,
    ),
  )("at $at is there in full or not at all, and a repeat completes it", async ({ at, stored, sms }) => {
    const rowsBefore = rowsNow();
    await service.arm(at, "kill");
    expect(await send()).toBeUndefined();
    await service.died();
    expect(rowsNow() - rowsBefore).toBe(stored ? 1 : 0);

    await restart();
    await delivered();
    expect(codesSent()).toHaveLength(stored ? sms : 0);
    const repeated = await send();
    expect(repeated).toMatchObject({ status: 200, replayed: stored, body: { state: "STATE_PENDING" } });
    await delivered();
    expect(rowsNow() - rowsBefore).toBe(1);
    expect(codesSent()).toHaveLength(sms);
    expect(new Set(codesSent()).size).toBe(1);
    await expectOneSuccess(String(repeated?.body["request_id"]), String(codesSent()[0]));
  });
});

test("a redelivery that is killed again and again sends the same code, and no more often than it was killed", async () => {
  await service.arm("call.accepted", "kill");
  await send();
  await service.died();
  await restart("claim.after:kill");
  await service.died();
  await restart("settle.before:kill");
  await service.died();
  await restart();
  await delivered();
  // Once before each kill but the one between claim and call, and once in the end.
  expect(codesSent()).toHaveLength(3);
  expect(new Set(codesSent()).size).toBe(1);
  const repeated = await send();
  const id = String(repeated?.body["request_id"]);
  expect(readBook(deployment.databasePath).calls.get(id)).toBe(4);
  await expectOneSuccess(id, String(codesSent()[0]));
});

describe("a verify that is killed", () => {
  const points: { at: Failpoint; counted: boolean }[] = [
    { at: "update.before", counted: false },
    { at: "update.decide", counted: false },
    { at: "update.decided", counted: false },
    { at: "update.commit", counted: false },
    { at: "update.after", counted: true },
    { at: "answer.half", counted: true },
  ];

  test.each(sampled(points, 3))("at $at with the right code succeeds once", async ({ at, counted }) => {
    const { id, code } = await open();
    await service.arm(at, "kill");
    expect(await verify(id, code, key)).toBeUndefined();
    await service.died();
    expect(readBook(deployment.databasePath).entries.get(id)).toMatchObject(
      counted ? { state: "VERIFIED", attempts: 1, hasSalt: false } : { state: "PENDING", attempts: 0, hasSalt: true },
    );
    await restart();
    expect(await verify(id, code, key)).toMatchObject({ status: 200, replayed: counted });
    expect(await verify(id, code, key)).toMatchObject({ status: 200, replayed: true });
    expect(await verify(id, code)).toMatchObject({ status: 400, body: { reason: "OTP_ALREADY_VERIFIED" } });
    expect(readBook(deployment.databasePath).entries.get(id)).toMatchObject({ state: "VERIFIED", attempts: 1 });
  });

  test.each(sampled(points, 4))("at $at with a wrong code counts one attempt", async ({ at, counted }) => {
    const { id, code } = await open();
    const wrong = wrongCode(code);
    await service.arm(at, "kill");
    expect(await verify(id, wrong, key)).toBeUndefined();
    await service.died();
    expect(readBook(deployment.databasePath).entries.get(id)).toMatchObject({
      state: "PENDING",
      attempts: counted ? 1 : 0,
    });
    await restart();
    const mismatch = { status: 400, body: { reason: "CODE_MISMATCH", attempts_remaining: 4 } };
    expect(await verify(id, wrong, key)).toMatchObject({ ...mismatch, replayed: counted });
    expect(await verify(id, wrong, key)).toMatchObject({ ...mismatch, replayed: true });
    expect(readBook(deployment.databasePath).entries.get(id)).toMatchObject({ state: "PENDING", attempts: 1 });
    expect(await verify(id, code)).toMatchObject({ status: 200 });
  });
});

describe("a resend that is killed", () => {
  test.each(
    sampled<{ at: Failpoint; counted: boolean; sms: number }>(
      [
        { at: "update.commit", counted: false, sms: 2 },
        { at: "update.after", counted: true, sms: 2 },
        { at: "call.accepted", counted: true, sms: 3 },
        { at: "settle.after", counted: true, sms: 2 },
      ],
      3,
    ),
  )("at $at is there in full or not at all, and carries the same code", async ({ at, counted, sms }) => {
    const { id, code } = await open();
    const resend = () => service.call("/v1/otp/resend", { request_id: id }, key);
    await service.advance(30_000);
    await service.arm(at, "kill");
    expect(await resend()).toBeUndefined();
    await service.died();
    expect(readBook(deployment.databasePath).entries.get(id)).toMatchObject({ resends: counted ? 1 : 0 });
    deployment.aheadMs += 30_000;
    await restart();
    await delivered();
    expect(await resend()).toMatchObject({ status: 200, replayed: counted, body: { resends_remaining: 1 } });
    await delivered();
    expect(codesSent()).toEqual(Array(sms).fill(code));
    await expectOneSuccess(id, code);
  });
});

describe("a fallback that is killed", () => {
  /** How often the code is in a message by the next channel in the end, beside its SMS. */
  test.each(
    sampled<{ at: Failpoint; again: number }>(
      [
        { at: "fallback.decide", again: 1 },
        { at: "fallback.decided", again: 1 },
        { at: "fallback.after", again: 1 },
        { at: "call.before", again: 1 },
        { at: "call.accepted", again: 2 },
        { at: "settle.before", again: 2 },
        { at: "settle.commit", again: 2 },
        { at: "settle.after", again: 1 },
      ],
      3,
    ),
  )("at $at goes out by the next channel, with the same code, and counts once", async ({ at, again }) => {
    const sent = await service.call("/v1/otp/send", {
      phone,
      fallback_channels: ["whatsapp"],
      fallback_after_seconds: 20,
    });
    expect(sent?.status).toBe(200);
    const id = String(sent?.body["request_id"]);
    const [code] = codesSent();
    await service.arm(at, "kill");
    await service.advance(20_000);
    await service.died();
    deployment.aheadMs += 20_000;
    await restart();
    await service.until(() => codesSent().length === 1 + again && dueIn(deployment.databasePath) === 0);
    expect(codesSent()).toEqual(Array(1 + again).fill(code));
    const { body } = (await service.call(`/v1/otp/${id}`)) ?? {};
    expect(body).toMatchObject({ state: "STATE_PENDING", resends_remaining: 2 });
    const messages = body?.["messages"] as { channel: string; delivery: string }[];
    expect(messages.map(({ channel, delivery }) => [channel, delivery])).toEqual([
      ["sms", "DELIVERY_ACCEPTED"],
      ["whatsapp", "DELIVERY_ACCEPTED"],
    ]);
    await expectOneSuccess(id, String(code));
  });

  test("between a refusal and the next channel's turn goes on by it", async () => {
    deployment.respond = (to) =>
      deployment.inbox.get(to)?.length === 1
        ? { kind: "refused", cause: "recipient", detail: "no such number" }
        : { kind: "accepted" };
    await service.arm("settle.after", "kill");
    expect(await service.call("/v1/otp/send", { phone, fallback_channels: ["whatsapp"] }, key)).toBeUndefined();
    await service.died();
    await restart();
    await service.until(() => codesSent().length === 2 && dueIn(deployment.databasePath) === 0);
    const repeated = await service.call("/v1/otp/send", { phone, fallback_channels: ["whatsapp"] }, key);
    expect(repeated).toMatchObject({ status: 200, replayed: true, body: { state: "STATE_PENDING" } });
    expect(new Set(codesSent()).size).toBe(1);
    await expectOneSuccess(String(repeated?.body["request_id"]), String(codesSent()[0]));
  });
});

describe("a step that throws", () => {
  const unavailable = { status: 503, body: { reason: "STORE_UNAVAILABLE" } };
  const bug = { status: 500, body: { reason: "INTERNAL" } };
  const sent = { status: 200, body: { state: "STATE_PENDING" } };

  test.each(
    sampled<{ at: Failpoint; answer: object; stored: boolean; sms: number }>(
      [
        { at: "open.before", answer: unavailable, stored: false, sms: 1 },
        { at: "open.decide", answer: bug, stored: false, sms: 1 },
        { at: "open.decided", answer: bug, stored: false, sms: 1 },
        // The store does not know whether it committed, as when a connection is lost: the answer is that nobody knows.
        { at: "open.after", answer: unavailable, stored: true, sms: 1 },
        // What a provider throws tells nothing about the SMS, so it is sent once more.
        { at: "call.before", answer: sent, stored: true, sms: 1 },
        { at: "call.accepted", answer: sent, stored: true, sms: 2 },
        // Tried for until the lease ends; the SMS is not sent again for that.
        { at: "settle.before", answer: sent, stored: true, sms: 1 },
        { at: "settle.after", answer: sent, stored: true, sms: 1 },
        { at: "note.before", answer: unavailable, stored: true, sms: 1 },
        { at: "note.after", answer: unavailable, stored: true, sms: 1 },
      ],
      3,
    ),
  )("at $at in a send leaves one effect", async ({ at, answer, stored, sms }) => {
    const rowsBefore = rowsNow();
    await service.arm(at, "throw");
    expect(await send()).toMatchObject(answer);
    expect(rowsNow() - rowsBefore).toBe(stored ? 1 : 0);
    await service.advance(leaseAndWaitMs);
    deployment.aheadMs += leaseAndWaitMs;
    await delivered();
    const repeated = await send();
    expect(repeated).toMatchObject({ ...sent, replayed: stored });
    await delivered();
    expect(rowsNow() - rowsBefore).toBe(1);
    expect(codesSent()).toHaveLength(sms);
    expect(new Set(codesSent()).size).toBe(1);
    await service.killed();
    await restart();
    await expectOneSuccess(String(repeated?.body["request_id"]), String(codesSent()[0]));
  });

  test.each(
    sampled<{ at: Failpoint; answer: object; counted: boolean }>(
      [
        { at: "update.before", answer: unavailable, counted: false },
        { at: "update.decide", answer: bug, counted: false },
        { at: "update.decided", answer: bug, counted: false },
        { at: "update.after", answer: unavailable, counted: true },
      ],
      3,
    ),
  )("at $at in a verify is no success, and a repeat is one", async ({ at, answer, counted }) => {
    const { id, code } = await open();
    await service.arm(at, "throw");
    expect(await verify(id, code, key)).toMatchObject(answer);
    await service.killed();
    expect(readBook(deployment.databasePath).entries.get(id)).toMatchObject({ attempts: counted ? 1 : 0 });
    await restart();
    expect(await verify(id, code, key)).toMatchObject({ status: 200, replayed: counted });
    expect(await verify(id, code)).toMatchObject({ status: 400, body: { reason: "OTP_ALREADY_VERIFIED" } });
  });
});

describe("a verify that overtakes the provider's answer", () => {
  test.each(
    sampled<{ outcome: SendOutcome }>(
      [
        { outcome: { kind: "refused", cause: "content", detail: "no" } },
        { outcome: { kind: "ambiguous", detail: "lost" } },
        { outcome: { kind: "unavailable", detail: "busy" } },
      ],
      3,
    ),
  )("stays a success when that is $outcome.kind, and nothing more is sent", async ({ outcome }) => {
    const arrived = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<SendOutcome>();
    deployment.respond = () => {
      arrived.resolve();
      return answered.promise;
    };
    const before = new Set(readBook(deployment.databasePath).entries.keys());
    const sending = send();
    await arrived.promise;
    const id = [...readBook(deployment.databasePath).entries.keys()].find((known) => !before.has(known)) ?? "";
    const code = String(codesSent()[0]);
    expect(await verify(id, code)).toMatchObject({ status: 200 });
    answered.resolve(outcome);
    await delivered();
    await sending;
    await service.killed();
    await restart();
    await delivered();
    expect(codesSent()).toEqual([code]);
    expect(readBook(deployment.databasePath).entries.get(id)).toMatchObject({ state: "VERIFIED", hasSalt: false });
    expect(await verify(id, code)).toMatchObject({ body: { reason: "OTP_ALREADY_VERIFIED" } });
  });
});

test("the database is sound after all of it", () => {
  expect(readBook(deployment.databasePath).integrity).toBe("ok");
});
