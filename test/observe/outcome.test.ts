/**
 * What calls came to: whose fault a refusal was, and what becomes of one whose client left or was late.
 */
import { connect, type Socket } from "node:net";
import { text as readText } from "node:stream/consumers";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { OtpService } from "../../gen/otp/v1/otp_service_pb.ts";
import { callOutcomeOf, callOutcomes, ownMsOf, type FinishedCall } from "../../src/observe/outcome.ts";
import type { KeyKind } from "../../src/otp/keys/api-key.ts";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import { codeOf, reasons, type Reason } from "../../src/otp/reason.ts";
import { newPhone } from "../support/data/phones.ts";
import { scrape } from "../support/readers/exposition.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
// Within a second only so many scrapes are fresh.
beforeEach(() => world.system.advance(1_000));
afterAll(() => world.stop());

const caller = { kind: "live" } as const;

test("a call failed where the answer is UNAVAILABLE, DEADLINE_EXCEEDED or INTERNAL, and nowhere else", () => {
  const failed = (Object.keys(reasons) as Reason[]).filter(
    (reason) => callOutcomeOf({ refusal: { reason }, caller }) === "failed",
  );
  expect(failed.toSorted()).toEqual(["DEADLINE", "DELIVERY_FAILED", "INTERNAL", "SHUTTING_DOWN", "STORE_UNAVAILABLE"]);
  expect(new Set(failed.map(codeOf))).toEqual(new Set(["UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL"]));
  expect(callOutcomeOf({ caller })).toBe("ok");
  expect(callOutcomeOf({ refusal: { reason: "CHALLENGE_FAILED", isOurFault: true }, caller })).toBe("failed");
  // Keys that cannot be looked up, one of them valid lately.
  const away = { refusal: { reason: "STORE_UNAVAILABLE" } } as const;
  expect([callOutcomeOf({ ...away, isKnown: true }), callOutcomeOf(away)]).toEqual(["failed", "refused"]);
});

test("what anybody breaks off is neither our fault nor that of callers who leave", () => {
  const late = { refusal: { reason: "DEADLINE" }, isClientLate: true } as const;
  const left = { refusal: { reason: "DEADLINE" }, isCanceled: true } as const;
  const by = (kind: KeyKind | undefined) =>
    [late, left].map((each) => callOutcomeOf({ ...each, ...(kind === undefined ? {} : { caller: { kind } }) }));
  expect([by("pub"), by("pubtest"), by(undefined)]).toEqual(Array.from({ length: 3 }, () => ["refused", "refused"]));
  expect([by("live"), by("test")]).toEqual(Array.from({ length: 2 }, () => ["failed", "canceled"]));
  const undelivered = { refusal: { reason: "DELIVERY_FAILED" } } as const;
  for (const kind of ["pub", "pubtest", "test"] as const)
    expect(callOutcomeOf({ ...undelivered, caller: { kind } })).toBe("refused");
  expect(callOutcomeOf({ ...undelivered, caller: { kind: "live" } })).toBe("failed");
  const noRoom = { refusal: { reason: "STORE_UNAVAILABLE" }, caller: { kind: "pub" } } as const;
  expect([false, true].map((reached) => callOutcomeOf({ ...noRoom, reached }))).toEqual(["refused", "failed"]);
  // Our own deadline, and our own fault.
  for (const reason of ["DEADLINE", "INTERNAL"] as const) {
    expect(callOutcomeOf({ refusal: { reason }, caller: { kind: "pub" } })).toBe("failed");
  }
});

test("calls of which anybody can have any number hide no failure, and no slow call", () => {
  const of = (kind: KeyKind, call: Partial<FinishedCall> = {}) => {
    const done = { rpc: "SendOtp", reached: true, caller: { kind }, ...call };
    return [callOutcomeOf(done), ownMsOf(done, 5)];
  };
  const [counts, free] = [
    ["ok", 5],
    ["free", undefined],
  ];
  expect([of("pub"), of("pub", { rpc: "VerifyOtp" }), of("live"), of("test")]).toEqual([
    counts,
    counts,
    counts,
    counts,
  ]);
  expect([of("pubtest"), of("pub", { isReplayed: true }), of("pub", { rpc: "GetOtp" })]).toEqual([free, free, free]);
  expect(of("pub", { rpc: "CancelOtp" })).toEqual(free);
  for (const call of [{ isReplayed: true }, { rpc: "GetOtp" }]) expect(of("live", call)).toEqual(counts);
  // Those that fail count on neither side either, and what is refused has nothing of how long calls take.
  const away = { refusal: { reason: "STORE_UNAVAILABLE" } } as const;
  const absent = { refusal: { reason: "REQUEST_NOT_FOUND" } } as const;
  const rows = [of("pub", { rpc: "GetOtp", ...away }), of("pub", away), of("pub", absent), of("live", absent)];
  expect(rows).toEqual([free, ["failed", 5], ["refused", undefined], ["refused", 5]]);
});

test("repeats, test sends and looks of a page are told apart from calls that count", async () => {
  const counts = async () => {
    world.system.advance(1_000);
    const { value } = await scrape(world.url);
    return ["SendOtp", "GetOtp"].map((rpc) =>
      ["ok", "free"].map((outcome) => value("otp_calls_total", { rpc, outcome }) ?? 0),
    );
  };
  const earlier = await counts();
  const spec = { scopes: ["send", "read"], origins: ["https://shop.example"] } as const;
  const { text: pageKey } = await world.makeKey({ kind: "pub", ...spec });
  const { text: testKey } = await world.makeKey({ kind: "pubtest", ...spec });
  const ask = async (key: string, path: string, body: object, headers = {}) => {
    const answer = await fetch(`${world.url}${path}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        origin: "https://shop.example",
        ...headers,
        "content-type": "application/json",
      },
      body: JSON.stringify(body),
    });
    expect(answer.status).toBe(200);
    return (await answer.json()) as { request_id: string };
  };
  const once = { "idempotency-key": "once-and-for-all" };
  const phone = newPhone();
  const { request_id: requestId } = await ask(pageKey, "/v1/otp/send", { phone }, once);
  await ask(pageKey, "/v1/otp/send", { phone }, once);
  await ask(testKey, "/v1/otp/send", { phone: "+14155550100" });
  await ask(pageKey, "/otp.v1.OtpService/GetOtp", { request_id: requestId });
  await expect
    .poll(async () => (await counts()).map((row, i) => row.map((count, j) => count - Number(earlier[i]?.[j]))))
    .toEqual([
      [1, 2],
      [0, 1],
    ]);
});

test("a page's own deadlines and half-closed connections spend no error budget, and are no callers who leave", async () => {
  const { text } = await world.makeKey({ kind: "pub", origins: ["https://shop.example"] });
  const counts = async () => {
    const { value } = await scrape(world.url);
    return callOutcomes.map((outcome) => value("otp_calls_total", { rpc: "VerifyOtp", outcome }) ?? 0);
  };
  const earlier = await counts();
  const headers = { authorization: `Bearer ${text}`, origin: "https://shop.example" };
  const body = JSON.stringify({ request_id: "A".repeat(22), code: "123456" });
  const late = await fetch(`${world.url}/otp.v1.OtpService/VerifyOtp`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json", "connect-timeout-ms": "0" },
    body,
  });
  expect(await late.json()).toMatchObject({ code: "deadline_exceeded" });
  const { hostname, host, port } = new URL(world.url);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  socket.end(
    `POST /v1/otp/verify HTTP/1.1\r\nHost: ${host}\r\nAuthorization: ${headers.authorization}\r\nOrigin: ${headers.origin}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  expect(await readText(socket)).toContain("REQUEST_NOT_FOUND");
  const grown = (await counts()).map((count, i) => count - Number(earlier[i]));
  expect(Object.fromEntries(callOutcomes.map((outcome, i) => [outcome, grown[i]]))).toEqual({
    ok: 0,
    free: 0,
    refused: 2,
    failed: 0,
    canceled: 0,
  });
});

/** A send on a connection of its own, whose answer is not read yet. */
function beginSend(): Socket {
  const { hostname, host, port } = new URL(world.url);
  const body = JSON.stringify({ phone: newPhone() });
  const socket = connect({ host: hostname, port: Number(port) });
  socket.write(
    `POST /v1/otp/send HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${world.key}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  return socket;
}

const leaving: [string, (signal: AbortSignal) => Promise<unknown>][] = [
  [
    "REST",
    // One that only ends its side is canceled later, once it has been waited for (server/half-closed.test.ts).
    (signal) => {
      const socket = beginSend();
      return new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          socket.resetAndDestroy();
          reject(new Error("aborted"));
        });
      });
    },
  ],
  [
    "gRPC",
    (signal) =>
      createClient(OtpService, createGrpcTransport({ baseUrl: world.url })).sendOtp(
        { phone: newPhone() },
        { headers: { authorization: `Bearer ${world.key}` }, signal },
      ),
  ],
];

test.each(leaving)("a call over %s whose client leaves is canceled, and nobody's refusal", async (_, leave) => {
  const [called, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<SendOutcome>()];
  world.network.script.push(() => {
    called.resolve();
    return answered.promise;
  });
  const counts = async () => {
    const { value } = await scrape(world.url);
    return {
      canceled: value("otp_calls_total", { rpc: "SendOtp", outcome: "canceled" }),
      failed: value("otp_calls_total", { rpc: "SendOtp", outcome: "failed" }),
      late: value("otp_refusals_total", { rpc: "SendOtp", reason: "DEADLINE" }),
      timed: value("otp_call_seconds_count", { rpc: "SendOtp" }),
    };
  };
  const earlier = await counts();
  const client = new AbortController();
  const left = leave(client.signal);
  await called.promise;
  client.abort();
  await expect(left).rejects.toThrow("aborted");
  await expect.poll(counts).toEqual({ ...earlier, canceled: Number(earlier.canceled) + 1 });
  answered.resolve({ kind: "accepted" });
});
