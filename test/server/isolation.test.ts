/**
 * Another tenant's verification is answered as one that never was: the same bytes, the same headers, on every RPC by every
 * way in, whatever state it is in and however right the code. And asking leaves no trace on it.
 */
import { create, fromJson, toBinary, toJsonString, type DescMessage } from "@bufbuild/protobuf";
import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { OtpService } from "../../gen/otp/v1/otp_service_pb.ts";
import { addTenant, inDatabase, latestFailedId } from "../support/databases/rows.ts";
import { newPhone, wrongCode } from "../support/data/phones.ts";
import { surfaces, type Message, type Rpc } from "../support/clients/surfaces.ts";
import {
  grpcFrame,
  overHttp1,
  overHttp2,
  type Wire,
  type WireAnswer,
  type WireRequest,
} from "../support/clients/wire.ts";
import { startWorld, type World } from "../support/service/world.ts";

const [rest] = surfaces as [(typeof surfaces)[0], ...typeof surfaces];

interface Owned {
  readonly state: string;
  readonly request_id: string;
  readonly code: string;
}

let world: World;
let stranger: string;
let owned: readonly Owned[];
beforeAll(async () => {
  world = await startWorld();
  addTenant(world.databasePath, "stranger");
  stranger = (await world.makeKey({ tenant: "stranger" })).text;
  owned = await oneOfEachState();
});
afterAll(() => world.stop());

/** Verifications of the tenant `default`, one in each state. */
async function oneOfEachState(): Promise<Owned[]> {
  const call = (rpc: Rpc, message: Message) => rest.call(world.url, rpc, message, { key: world.key });
  const open = async (state: string): Promise<Owned> => {
    const phone = newPhone();
    const { value } = await call("SendOtp", { phone });
    return { state, request_id: String(value?.["request_id"]), code: world.network.codeFor(phone) };
  };
  const lapsed = await open("EXPIRED");
  world.system.advance(600_000);
  // Ends it at once: what a sweep would come to in its own time.
  await call("VerifyOtp", { request_id: lapsed.request_id, code: lapsed.code });
  const [pending, verified, locked, canceled] = [
    await open("PENDING"),
    await open("VERIFIED"),
    await open("LOCKED"),
    await open("CANCELED"),
  ];
  await call("VerifyOtp", { request_id: verified.request_id, code: verified.code });
  await call("CancelOtp", { request_id: canceled.request_id });
  for (let i = 1; i <= 5; i++) {
    await call("VerifyOtp", { request_id: locked.request_id, code: wrongCode(locked.code, i) });
  }
  world.network.script.push({ kind: "refused", cause: "content", detail: "no" });
  await call("SendOtp", { phone: newPhone() });
  const failed = { state: "FAILED", request_id: await latestFailedId(world.database), code: "123456" };
  return [lapsed, pending, verified, locked, canceled, failed];
}

const service = "/otp.v1.OtpService";
const inputOf = (rpc: Rpc): DescMessage => OtpService.methods.find(({ name }) => name === rpc)?.input as DescMessage;
const restPaths = { VerifyOtp: "verify", ResendOtp: "resend", CancelOtp: "cancel" } as const;

function bytesOf(rpc: Rpc, message: Message): Uint8Array {
  const schema = inputOf(rpc);
  return toBinary(schema, create(schema, fromJson(schema, message)));
}

function restRequest(rpc: Rpc, message: Message): WireRequest {
  if (rpc === "GetOtp") return { method: "GET", path: `/v1/otp/${String(message["request_id"])}` };
  const path = `/v1/otp/${restPaths[rpc as keyof typeof restPaths]}`;
  return { path, headers: { "content-type": "application/json" }, body: JSON.stringify(message) };
}

const posted = (type: string, encode: (rpc: Rpc, message: Message) => string | Uint8Array) => {
  return (rpc: Rpc, message: Message): WireRequest => ({
    path: `${service}/${rpc}`,
    headers: { "content-type": type, te: "trailers" },
    body: encode(rpc, message),
  });
};
const json = (rpc: Rpc, message: Message) => toJsonString(inputOf(rpc), fromJson(inputOf(rpc), message));
const framed = (rpc: Rpc, message: Message) => grpcFrame(bytesOf(rpc, message));

/** Connect's own GET, for the one RPC without side effects. */
function connectGet(rpc: Rpc, message: Message): WireRequest {
  const query = new URLSearchParams({ connect: "v1", encoding: "json", message: json(rpc, message) });
  return { method: "GET", path: `${service}/${rpc}?${query}` };
}

const ways: [string, Wire, (rpc: Rpc, message: Message) => WireRequest, readonly Rpc[]][] = [
  ["REST over HTTP/1.1", overHttp1, restRequest, ["VerifyOtp", "ResendOtp", "CancelOtp", "GetOtp"]],
  ["REST over HTTP/2", overHttp2, restRequest, ["VerifyOtp", "ResendOtp", "CancelOtp", "GetOtp"]],
  ["Connect JSON", overHttp1, posted("application/json", json), ["VerifyOtp", "ResendOtp", "CancelOtp", "GetOtp"]],
  [
    "Connect binary",
    overHttp2,
    posted("application/proto", bytesOf),
    ["VerifyOtp", "ResendOtp", "CancelOtp", "GetOtp"],
  ],
  ["Connect GET", overHttp1, connectGet, ["GetOtp"]],
  ["gRPC", overHttp2, posted("application/grpc", framed), ["VerifyOtp", "ResendOtp", "CancelOtp", "GetOtp"]],
  [
    "gRPC-web",
    overHttp1,
    posted("application/grpc-web+proto", framed),
    ["VerifyOtp", "ResendOtp", "CancelOtp", "GetOtp"],
  ],
];

/** All that came back, but for what differs between any two calls: the call's id and the date. */
function shownBy({ status, headers, trailers, body }: WireAnswer) {
  const listed = (all: Headers) => [...all].filter(([name]) => name !== "x-call-id" && name !== "date");
  const text = body.toString("latin1").replaceAll(headers.get("x-call-id") ?? "-", "CALL");
  return { status, headers: listed(headers), trailers: listed(trailers), text };
}

/** All that is kept of verifications and calls. */
function fingerprint(): string {
  return inDatabase(world.databasePath, (db) => {
    const tables = ["verifications", "messages", "idempotency"];
    const rows = tables.map((table) => db.prepare(`SELECT * FROM ${table}`).all());
    return createHash("sha256").update(JSON.stringify(rows)).digest("hex");
  });
}

/** 16 bytes that nobody drew. */
const unknownId = Buffer.alloc(16, 0x5a).toString("base64url");

describe.each(ways)("by %s", (_, wire, requestOf, rpcs) => {
  async function ask(rpc: Rpc, key: string, request_id: string, code: string, headers: Record<string, string> = {}) {
    const message = rpc === "VerifyOtp" ? { request_id, code } : { request_id };
    const request = requestOf(rpc, message);
    const all = { ...request.headers, authorization: `Bearer ${key}`, ...headers };
    return shownBy(await wire(world.url, { ...request, headers: all }));
  }

  test.each(rpcs)("%s answers for another tenant's as for an unknown one, and leaves it alone", async (rpc) => {
    const unknown = await ask(rpc, stranger, unknownId, "123456");
    const before = fingerprint();
    for (const { state, request_id, code } of owned) {
      expect([state, await ask(rpc, stranger, request_id, code)]).toEqual([state, unknown]);
    }
    const { request_id = "", code = "" } = owned.find(({ state }) => state === "PENDING") ?? {};
    expect(await ask(rpc, stranger, request_id, "not a code")).toEqual(unknown);
    expect(await ask(rpc, stranger, request_id, code, { "idempotency-key": rpc })).toEqual(unknown);
    expect(await ask(rpc, stranger, "nonsense", "123456")).toEqual(unknown);
    expect(fingerprint()).toBe(before);
    expect(`${unknown.status} ${JSON.stringify(unknown)}`).toMatch(/404|"grpc-status","5"|grpc-status: 5/);
    // The owner is answered otherwise, so the comparison says something.
    const own = await ask("GetOtp", world.key, owned[0]?.request_id ?? "", "");
    expect(own).not.toEqual(unknown);
  });
});

test("the owner's key used with another tenant's Idempotency-Key begins anew", async () => {
  const phone = newPhone();
  const headers = { "idempotency-key": "shared" };
  const send = (key: string) => rest.call(world.url, "SendOtp", { phone }, { key, headers });
  const mine = await send(world.key);
  const theirs = await send(stranger);
  expect(theirs.value?.["request_id"]).not.toBe(mine.value?.["request_id"]);
  expect(theirs.headers.get("idempotency-replayed")).toBeNull();
  expect((await send(world.key)).value).toEqual(mine.value);
  expect((await send(stranger)).value).toEqual(theirs.value);
});
