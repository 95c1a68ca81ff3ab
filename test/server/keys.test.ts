/**
 * Authentication: every RPC of the contract asks for a key before it reads a byte of the body, each key may do what its
 * scopes say and no more, and what the command line writes about a key counts from the next call on.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { OtpService, SendOtpRequestSchema } from "../../gen/otp/v1/otp_service_pb.ts";
import { scopes, type Scope } from "../../src/otp/keys/api-key.ts";
import { expectRefusal, type ContractReason } from "../support/data/contract.ts";
import { addTenant, countRows, inDatabase } from "../support/databases/rows.ts";
import { newPhone } from "../support/data/phones.ts";
import { runOtpd } from "../support/processes/process.ts";
import { connectByFetch, surfaces, type Message, type Rpc } from "../support/clients/surfaces.ts";
import { grpcFrame, overHttp1, overHttp2, type Wire, type WireRequest } from "../support/clients/wire.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

const rpcs = OtpService.methods.map((method) => method.name as Rpc);
const request_id = "AAAAAAAAAAAAAAAAAAAAAA";
const messages: Record<Rpc, Message> = {
  SendOtp: { phone: "+31612345678" },
  VerifyOtp: { request_id, code: "123456" },
  ResendOtp: { request_id },
  CancelOtp: { request_id },
  GetOtp: { request_id },
};

/** The key with one character changed, so that its checksum no longer fits. */
const mistyped = (key: string) => key.slice(0, -1) + (key.endsWith("0") ? "1" : "0");

describe.each([...surfaces, connectByFetch])("over $name", (surface) => {
  test.each(rpcs)("%s without a key is refused", async (rpc) => {
    const outcome = await surface.call(world.url, rpc, messages[rpc], { key: null });
    expectRefusal(outcome, "API_KEY_MISSING");
  });

  test.each<[string, () => string, ContractReason]>([
    ["nothing", () => "", "API_KEY_MISSING"],
    ["a scheme alone", () => "Bearer", "API_KEY_MISSING"],
    ["a key without its scheme", () => world.key, "API_KEY_INVALID"],
    ["another scheme", () => `Basic ${world.key}`, "API_KEY_INVALID"],
    ["a word", () => "Bearer secret", "API_KEY_INVALID"],
    ["two keys", () => `Bearer ${world.key} ${world.key}`, "API_KEY_INVALID"],
    ["a mistyped key", () => `Bearer ${mistyped(world.key)}`, "API_KEY_INVALID"],
    ["a key cut short", () => `Bearer ${world.key.slice(0, -6)}`, "API_KEY_INVALID"],
    ["4000 characters", () => `Bearer ${"k".repeat(4000)}`, "API_KEY_INVALID"],
    [
      "a control character within it",
      () => `Bearer ${world.key.slice(0, 12)}\t${world.key.slice(12)}`,
      "API_KEY_INVALID",
    ],
  ])("an Authorization of %s is refused", async (_, authorization, reason) => {
    const options = { key: null, headers: { authorization: authorization() } };
    expectRefusal(await surface.call(world.url, "SendOtp", messages.SendOtp, options), reason);
  });

  test("the scheme may be written in any case", async () => {
    const options = { key: null, headers: { authorization: `bEARER ${world.key}` } };
    expectRefusal(await surface.call(world.url, "GetOtp", messages.GetOtp, options), "REQUEST_NOT_FOUND");
  });

  test("every scope opens its own RPCs and no other", async () => {
    const opened: Record<Scope, readonly Rpc[]> = {
      send: ["SendOtp", "ResendOtp"],
      verify: ["VerifyOtp"],
      resend: ["ResendOtp"],
      cancel: ["CancelOtp"],
      read: ["GetOtp"],
    };
    for (const scope of scopes) {
      const { text: key } = await world.makeKey({ scopes: [scope] });
      for (const rpc of rpcs) {
        const outcome = await surface.call(world.url, rpc, messages[rpc], { key });
        expect([scope, rpc, outcome.reason === "SCOPE_MISSING"]).toEqual([scope, rpc, !opened[scope].includes(rpc)]);
      }
    }
  });

  test("a key is refused as expired or revoked only to who holds its secret", async () => {
    const expired = await world.makeKey({ expireMs: world.system.now() + 1 });
    const get = (key: string) => surface.call(world.url, "GetOtp", messages.GetOtp, { key });
    expectRefusal(await get(expired.text), "REQUEST_NOT_FOUND");
    world.system.advance(1);
    expectRefusal(await get(expired.text), "API_KEY_EXPIRED");
    const forged = (await world.makeKey()).text.replace(/(?<=^otp_live_).{10}/, expired.id);
    expectRefusal(await get(forged), "API_KEY_INVALID");
  });

  test("another tenant's verification is no verification", async () => {
    const phone = newPhone();
    const { value } = await surface.call(world.url, "SendOtp", { phone }, { key: world.key });
    const id = String(value?.["request_id"]);
    const stranger = await strangerKey();
    const answers = await Promise.all(
      rpcs
        .filter((rpc) => rpc !== "SendOtp")
        .flatMap((rpc) =>
          [id, request_id, "nonsense"].map(async (tried) => {
            const message = { ...messages[rpc], request_id: tried };
            const { headers: _, ...shown } = await surface.call(world.url, rpc, message, { key: stranger });
            return shown;
          }),
        ),
    );
    expect(answers).toHaveLength(12);
    for (const answer of answers) expect(answer).toEqual(answers[0]);
    expect(answers[0]).toMatchObject({ reason: "REQUEST_NOT_FOUND" });
  });
});

let stranger: string | undefined;
async function strangerKey(): Promise<string> {
  if (stranger === undefined) {
    addTenant(world.databasePath, "stranger");
    stranger = (await world.makeKey({ tenant: "stranger" })).text;
  }
  return stranger;
}

describe("before the body is read", () => {
  const frame = grpcFrame(toBinary(SendOtpRequestSchema, create(SendOtpRequestSchema, { phone: "+31612345678" })));
  const half = frame.subarray(0, 7);
  const post = (type: string, path: string, body: Uint8Array | string): WireRequest => ({
    path,
    headers: { "content-type": type },
    body,
    unfinished: true,
  });
  const connectPath = "/otp.v1.OtpService/SendOtp";

  test.each<[string, Wire, WireRequest, number]>([
    ["REST", overHttp1, post("application/json", "/v1/otp/send", '{"pho'), 401],
    ["REST over HTTP/2", overHttp2, post("application/json", "/v1/otp/send", '{"pho'), 401],
    ["Connect JSON", overHttp1, post("application/json", connectPath, '{"pho'), 401],
    ["Connect binary", overHttp2, post("application/proto", connectPath, half), 401],
    ["gRPC", overHttp2, post("application/grpc", connectPath, half), 200],
    ["gRPC-web", overHttp1, post("application/grpc-web+proto", connectPath, half), 200],
  ])("a call without a key is answered over %s", async (_, wire, request, status) => {
    const answer = await wire(world.url, request);
    expect(answer.status).toBe(status);
    const whole = `${answer.text} ${answer.trailers.get("grpc-status")} ${answer.trailers.get("grpc-message")}`;
    expect(whole).toMatch(/API key is missing|API%20key%20is%20missing/);
  });
});

describe("the command line beside the server", () => {
  const cli = (args: string[]) => runOtpd(world.folder, args, { OTP_DATABASE_URL: `file:${world.databasePath}` });

  test("makes a key that works, and revokes it, from the next call on", async () => {
    const made = await cli(["keys", "create", "--name", "web", "--scopes", "read", "--json"]);
    const { id, key } = JSON.parse(made.output) as { id: string; key: string };
    for (const surface of surfaces) {
      expectRefusal(await surface.call(world.url, "GetOtp", messages.GetOtp, { key }), "REQUEST_NOT_FOUND");
    }
    expect((await cli(["keys", "revoke", id])).code).toBe(0);
    for (const surface of surfaces) {
      expectRefusal(await surface.call(world.url, "GetOtp", messages.GetOtp, { key }), "API_KEY_REVOKED");
    }
  });
});

test("the use of a key is noted at most once a minute", async () => {
  const { id, text: key } = await world.makeKey();
  const [surface] = surfaces;
  const useAndRead = async () => {
    // The note is queued before the call's own write, so it is in the database once the call is answered.
    await surface?.call(world.url, "SendOtp", { phone: newPhone() }, { key });
    return inDatabase(world.databasePath, (db) =>
      db.prepare<[string], { last_use_ms: number | null }>("SELECT last_use_ms FROM api_keys WHERE id = ?").get(id),
    )?.last_use_ms;
  };
  const firstMs = world.system.now();
  expect(await useAndRead()).toBe(firstMs);
  world.system.advance(59_999);
  expect(await useAndRead()).toBe(firstMs);
  world.system.advance(1);
  expect(await useAndRead()).toBe(firstMs + 60_000);
});

test("that a revoked key was tried is noted at most once a minute, and a guess at its secret never", async () => {
  const { id, text: key } = await world.makeKey();
  await world.revokeKey(id);
  const forged = (await world.makeKey()).text.replace(/(?<=^otp_live_).{10}/, id);
  const [surface] = surfaces;
  const tryAndRead = async (text: string) => {
    const reasons = await Promise.all(
      Array.from(
        { length: 5 },
        async () => (await surface?.call(world.url, "GetOtp", messages.GetOtp, { key: text }))?.reason,
      ),
    );
    // What writes after it is in the database later.
    await surface?.call(world.url, "SendOtp", { phone: newPhone() }, { key: world.key });
    const { last_refuse_ms: at } = inDatabase(world.databasePath, (db) =>
      db
        .prepare<[string], { last_refuse_ms: number | null }>("SELECT last_refuse_ms FROM api_keys WHERE id = ?")
        .get(id),
    ) ?? { last_refuse_ms: undefined };
    return { reason: reasons[0], at };
  };
  expect(await tryAndRead(forged)).toEqual({ reason: "API_KEY_INVALID", at: null });
  const firstMs = world.system.now();
  await expect.poll(async () => (await tryAndRead(key)).at).toBe(firstMs);
  world.system.advance(59_999);
  expect(await tryAndRead(key)).toEqual({ reason: "API_KEY_REVOKED", at: firstMs });
  world.system.advance(1);
  await expect.poll(async () => (await tryAndRead(key)).at).toBe(firstMs + 60_000);
});

test("no refused call has opened a verification", async () => {
  const before = await countRows(world.database, "verifications");
  await Promise.all(surfaces.map((surface) => surface.call(world.url, "SendOtp", messages.SendOtp, { key: null })));
  expect(await countRows(world.database, "verifications")).toBe(before);
});
