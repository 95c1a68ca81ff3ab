/**
 * When the service cannot do what it was asked: the reasons that say so, on every surface, and that all is well again
 * afterwards. What a caller is not told is logged with the call's id.
 */
import { once } from "node:events";
import { createConnection } from "node:net";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import { expectRefusal } from "../support/data/contract.ts";
import { inDatabase } from "../support/databases/rows.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { connectByFetch, surfaces, type Outcome } from "../support/clients/surfaces.ts";
import { startWorld, type World } from "../support/service/world.ts";

const everywhere = [...surfaces, connectByFetch];

describe("in one world", () => {
  let world: World;
  beforeAll(async () => {
    world = await startWorld();
  });
  afterAll(() => world.stop());

  const rename = (from: string, to: string) =>
    inDatabase(world.databasePath, (db) => db.exec(`ALTER TABLE ${from} RENAME TO ${to}`));

  test.each(everywhere)("a database that cannot be written is STORE_UNAVAILABLE over $name", async (surface) => {
    const send = () => surface.call(world.url, "SendOtp", { phone: newPhone() }, { key: world.key });
    const smsBefore = world.network.received.length;
    rename("messages", "messages_away");
    try {
      expectRefusal(await send(), "STORE_UNAVAILABLE", { retryAfterSeconds: 1 });
    } finally {
      rename("messages_away", "messages");
    }
    expect(world.network.received).toHaveLength(smsBefore);
    expect((await send()).value).toMatchObject({ state: "STATE_PENDING" });
  });

  test.each(everywhere)("a database that cannot tell the key is STORE_UNAVAILABLE over $name", async (surface) => {
    const get = () => surface.call(world.url, "GetOtp", { request_id: "x" }, { key: world.key });
    rename("api_keys", "api_keys_away");
    try {
      expectRefusal(await get(), "STORE_UNAVAILABLE", { retryAfterSeconds: 1 });
    } finally {
      rename("api_keys_away", "api_keys");
    }
    expectRefusal(await get(), "REQUEST_NOT_FOUND");
  });

  test.each(everywhere)("a fault of our own is INTERNAL, hidden and logged, over $name", async (surface) => {
    const phone = newPhone();
    const { value } = await surface.call(world.url, "SendOtp", { phone }, { key: world.key });
    const request_id = String(value?.["request_id"]);
    const set = (state: number) =>
      inDatabase(world.databasePath, (db) =>
        db.prepare("UPDATE verifications SET state = ? WHERE id = ?").run(state, Buffer.from(request_id, "base64url")),
      );
    const code = world.network.codeFor(phone);
    set(99);
    const outcome = await surface.call(world.url, "VerifyOtp", { request_id, code }, { key: world.key });
    expectRefusal(outcome, "INTERNAL", { mayBeDone: true });
    expect(outcome.message).not.toMatch(/99|newer version/);
    const fault = world.observed.findLast(({ event }) => event === "fault");
    expect(fault?.with).toEqual(["VerifyOtp", expect.any(Error), outcome.headers.get("x-call-id")]);
    set(0);
    const again = await surface.call(world.url, "VerifyOtp", { request_id, code }, { key: world.key });
    expect(again.value).toMatchObject({ state: "STATE_VERIFIED" });
  });

  test.each(everywhere)("a deadline that passes is DEADLINE over $name, and the SMS is sent once", async (surface) => {
    const provider = Promise.withResolvers<SendOutcome>();
    const called = Promise.withResolvers<void>();
    world.network.script.push(() => {
      called.resolve();
      return provider.promise;
    });
    const phone = newPhone();
    // Connect's own clients would give up by themselves and never hear the server's answer, so the header goes alone.
    // Long enough that the call has begun by then, on the slowest machine too.
    const headers = { "connect-timeout-ms": "1000", "grpc-timeout": "1000m" };
    const outcome = await surface.call(world.url, "SendOtp", { phone }, { key: world.key, headers });
    expectRefusal(outcome, "DEADLINE", { mayBeDone: true });
    // The deadline ends the call and not the act: on a slow disk the provider has its turn after it.
    await called.promise;
    provider.resolve({ kind: "accepted" });
    expect(world.network.received.filter(({ to }) => to === phone)).toHaveLength(1);
  });
});

describe("a call that may have taken effect", () => {
  test.each<[string, Record<string, string>, boolean]>([
    ["is not to be retried", {}, true],
    ["may be retried under an Idempotency-Key", { "idempotency-key": "mine" }, false],
  ])("%s: its SMS would go out twice", async (_what, key, mayBeDone) => {
    const world = await startWorld();
    try {
      const grpc = everywhere.find(({ name }) => name === "gRPC");
      const phone = newPhone();
      const sent = await grpc?.call(world.url, "SendOtp", { phone }, { key: world.key });
      const message = { request_id: String(sent?.value?.["request_id"]) };
      world.system.advance(30_000);
      const [called, provider] = [Promise.withResolvers<void>(), Promise.withResolvers<SendOutcome>()];
      world.network.script.push(() => {
        called.resolve();
        return provider.promise;
      });
      const headers = { "grpc-timeout": "1000m", ...key };
      const late = await grpc?.call(world.url, "ResendOtp", message, { key: world.key, headers });
      expectRefusal(late as Outcome, "DEADLINE", { mayBeDone });
      await called.promise;
      provider.resolve({ kind: "accepted" });
      expect(world.network.received.filter(({ to }) => to === phone)).toHaveLength(2);
    } finally {
      await world.stop();
    }
  });
});

describe("limits", () => {
  test.each(everywhere)(
    "a phone past its limit is PHONE_RATE_LIMITED over $name until the very moment",
    async (surface) => {
      const world = await startWorld({ OTP_PHONE_LIMITS: "2@10m" });
      try {
        const phone = newPhone();
        const send = (more = {}) => surface.call(world.url, "SendOtp", { phone, ...more }, { key: world.key });
        await send();
        const { value } = await send();
        expectRefusal(await send(), "PHONE_RATE_LIMITED", { field: "phone", retryAfterSeconds: 600 });
        world.system.advance(540_000);
        const resend = await surface.call(
          world.url,
          "ResendOtp",
          { request_id: String(value?.["request_id"]) },
          { key: world.key },
        );
        expectRefusal(resend, "PHONE_RATE_LIMITED", { field: "phone", retryAfterSeconds: 60 });
        expect((await send({ known_user: true })).value).toMatchObject({ state: "STATE_PENDING" });
        world.system.advance(59_999);
        expectRefusal(await send(), "PHONE_RATE_LIMITED", { field: "phone", retryAfterSeconds: 1 });
        world.system.advance(1);
        expect((await send()).value).toMatchObject({ state: "STATE_PENDING" });
        expect(world.network.received).toHaveLength(4);
      } finally {
        await world.stop();
      }
    },
  );

  test("under the strict policy a number with too many open guesses is DESTINATION_BLOCKED everywhere", async () => {
    const world = await startWorld({ OTP_GUESS_POLICY: "strict" });
    try {
      const phone = newPhone();
      const [rest] = surfaces;
      for (let i = 0; i < 20; i++) {
        expect(await rest?.call(world.url, "SendOtp", { phone }, { key: world.key })).toHaveProperty("value");
      }
      for (const surface of everywhere) {
        const outcome = await surface.call(world.url, "SendOtp", { phone }, { key: world.key });
        expectRefusal(outcome, "DESTINATION_BLOCKED", { field: "phone" });
      }
    } finally {
      await world.stop();
    }
  });

  test("after 20 wrong codes the next code has 8 digits", async () => {
    const world = await startWorld();
    try {
      const phone = newPhone();
      const [rest] = surfaces;
      for (let i = 0; i < 4; i++) {
        const sent = await rest?.call(world.url, "SendOtp", { phone }, { key: world.key });
        const request_id = String(sent?.value?.["request_id"]);
        for (let guess = 1; guess <= 5; guess++) {
          const code = wrongCode(world.network.codeFor(phone), guess);
          await rest?.call(world.url, "VerifyOtp", { request_id, code }, { key: world.key });
        }
      }
      const sent = await rest?.call(world.url, "SendOtp", { phone }, { key: world.key });
      expect(sent?.value).toMatchObject({ code_length: 8 });
      expect(world.network.codeFor(phone)).toMatch(/^\d{8}$/);
    } finally {
      await world.stop();
    }
  });
});

/** Resolves once nothing listens on the port any more. A server that stops listens for as long as connections come in. */
async function refusesConnections(port: number): Promise<void> {
  for (let isRefused = false; !isRefused;) {
    const socket = createConnection(port, "127.0.0.1");
    isRefused = await once(socket, "connect").then(
      () => false,
      () => true,
    );
    socket.destroy();
    await passSteps(10);
  }
}

/** A stop waits by steps of the event loop, and so does this: on a busy machine some of them take as long as all others. */
async function passSteps(count: number): Promise<void> {
  for (let step = 0; step < count; step += 1) {
    await sleep(5);
    await nextTurn();
  }
}

test("a server that stops answers what is under way, and refuses what comes after as SHUTTING_DOWN", async ({
  onTestFinished,
}) => {
  const world = await startWorld();
  onTestFinished(() => void vi.useRealTimers());
  const provider = Promise.withResolvers<SendOutcome>();
  const called = Promise.withResolvers<void>();
  world.network.script.push(() => {
    called.resolve();
    return provider.promise;
  });
  const phone = newPhone();
  const request = (path: string, body: string) =>
    `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${world.key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const open = async () => {
    const socket = createConnection(Number(new URL(world.url).port), "127.0.0.1");
    const heard: string[] = [];
    socket.on("data", (chunk: Buffer) => heard.push(chunk.toString("latin1")));
    socket.write("GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n");
    await once(socket, "data");
    return { socket, closed: once(socket, "close"), answer: () => heard.slice(1).join("") };
  };
  const [first, second, third] = [await open(), await open(), await open()];
  first.socket.write(request("/v1/otp/send", JSON.stringify({ phone })));
  await called.promise;
  // Idle connections stay open for a third of a second, which does not pass before the calls on them are made.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const stopped = world.stop();
  await refusesConnections(Number(new URL(world.url).port));
  // What was sent before has been read after a few more, and idle connections stay open for 60.
  await passSteps(10);
  // On connections that were there before.
  second.socket.write(request("/v1/otp/send", JSON.stringify({ phone })));
  third.socket.write(request("/otp.v1.OtpService/SendOtp", JSON.stringify({ phone })));
  await Promise.all([second.closed, third.closed]);
  provider.resolve({ kind: "accepted" });
  await first.closed;
  vi.runOnlyPendingTimers();
  vi.useRealTimers();
  await stopped;
  expect(first.answer()).toMatch(/^HTTP\/1\.1 200 [^]*connection: close/i);
  expect(second.answer()).toMatch(/^HTTP\/1\.1 503 [^]*retry-after: 1\r\n[^]*"reason":"SHUTTING_DOWN"/i);
  expect(third.answer()).toMatch(/^HTTP\/1\.1 503 [^]*retry-after: 1\r\n[^]*"reason":"SHUTTING_DOWN"/i);
  expect(world.network.received).toHaveLength(1);
});
