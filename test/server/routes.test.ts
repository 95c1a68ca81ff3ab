/**
 * Paths, methods, types and sizes: what is refused before any RPC is reached, and what HTTP itself shows of an answer.
 */
import type { JsonObject } from "@bufbuild/protobuf";
import { create, toBinary } from "@bufbuild/protobuf";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { GetOtpRequestSchema } from "../../gen/otp/v1/otp_service_pb.ts";
import { countRows } from "../support/databases/rows.ts";
import { newPhone } from "../support/data/phones.ts";
import {
  grpcFrame,
  overHttp1,
  overHttp2,
  type Wire,
  type WireAnswer,
  type WireRequest,
} from "../support/clients/wire.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
let id = "";
beforeAll(async () => {
  world = await startWorld();
  const sent = await overHttp1(world.url, json("/v1/otp/send", { phone: newPhone() }));
  id = String((JSON.parse(sent.text) as JsonObject)["request_id"]);
});
afterAll(() => world.stop());

const service = "/otp.v1.OtpService";
const bearer = () => ({ authorization: `Bearer ${world.key}` });
const json = (path: string, message: JsonObject, headers: Record<string, string> = {}): WireRequest => ({
  path,
  headers: { "content-type": "application/json", ...bearer(), ...headers },
  body: JSON.stringify(message),
});
const get = (path: string, headers: Record<string, string> = bearer()): WireRequest => ({
  method: "GET",
  path,
  headers,
});
const query = (parts: Record<string, string>) => `${service}/GetOtp?${new URLSearchParams(parts).toString()}`;
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64url");

const wires: [string, Wire][] = [
  ["HTTP/1.1", overHttp1],
  ["HTTP/2", overHttp2],
];

const unknown = JSON.stringify({ request_id: "unknown" });

/** What every answer must have, whatever it says. */
function expectHygiene(answer: WireAnswer): void {
  expect(answer.headers.get("cache-control")).toBe("no-store");
  expect(answer.headers.get("content-type")).toBe("application/json");
  expect(Number(answer.headers.get("content-length"))).toBe(answer.body.length);
}

function expectPlain(answer: WireAnswer, status: number, reason: string): JsonObject {
  expect([answer.status, answer.text]).toEqual([status, expect.stringContaining(reason)]);
  expectHygiene(answer);
  return JSON.parse(answer.text) as JsonObject;
}

describe.each(wires)("over %s", (_, wire) => {
  test("JSON is snake_case with its zero values written, by REST and by Connect", async () => {
    for (const request of [get(`/v1/otp/${id}`), json(`${service}/GetOtp`, { request_id: id })]) {
      const answer = await wire(world.url, request);
      expect(answer.status).toBe(200);
      expectHygiene(answer);
      expect(Object.keys(JSON.parse(answer.text) as object).toSorted()).toEqual(
        [
          "attempts_remaining",
          "channel",
          "code_length",
          "create_time",
          "delivery",
          "delivery_detail",
          "expire_time",
          "expires_in_seconds",
          "messages",
          "next_resend_time",
          "phone",
          "provider",
          "purpose",
          "reason",
          "request_id",
          "resend_in_seconds",
          "resends_remaining",
          "state",
        ].toSorted(),
      );
      expect(JSON.parse(answer.text)).toMatchObject({ purpose: "", reason: "REASON_UNSPECIFIED" });
    }
  });

  test("both spellings of a field are read", async () => {
    for (const message of [{ request_id: id }, { requestId: id }]) {
      expect(JSON.parse((await wire(world.url, json(`${service}/GetOtp`, message))).text)).toMatchObject({
        request_id: id,
      });
    }
  });

  test("an answer names its call, and is not compressed", async () => {
    const answer = await wire(world.url, get(`/v1/otp/${id}`, { ...bearer(), "accept-encoding": "gzip, br" }));
    expect(answer.headers.get("x-call-id")).toMatch(/^[A-Za-z0-9_-]{12}$/);
    expect(answer.headers.get("content-encoding")).toBeNull();
  });

  test("an unknown id, a malformed one and another spelling of a known one get the same bytes", async () => {
    const ids = ["AAAAAAAAAAAAAAAAAAAAAA", "x", `${id}A`, id.slice(1), "%F0%9F%92%A9", "%ff", "%00", "a%2Fb"];
    const answers = await Promise.all(ids.map((tried) => wire(world.url, get(`/v1/otp/${tried}`))));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expectPlain(answers[0] as WireAnswer, 404, "REQUEST_NOT_FOUND");
  });

  test.each([
    "//",
    "/v1",
    "/v1/otp",
    "/v1/otp/",
    "/v1/otp/a/b",
    "/V1/OTP/SEND",
    "/v1/otp/send/",
    "/v2/otp/send",
    "/v1/otp/verfy",
    `/v1/otp/${"x".repeat(257)}`,
    service,
    `${service}/`,
    `${service}/sendOtp`,
    `${service}/SendOtp/`,
    `${service}//SendOtp`,
    "/otp.v2.OtpService/SendOtp",
    "//v1//otp/send",
    "/v1/otp/../otp/send",
    "/v1/otp/%73end/x",
  ])("%s is no path, whoever asks", async (path) => {
    for (const headers of [{}, bearer()]) {
      const request = { ...json(path, {}), headers: { "content-type": "application/json", ...headers } };
      const said = expectPlain(await wire(world.url, request), 404, "ROUTE_NOT_FOUND");
      // A path such as only an RPC has is told in gRPC's own word.
      const code = /^\/\w+(\.\w+)+\/\w+$/.test(path) ? "unimplemented" : "not_found";
      expect(said).toMatchObject({ code, reason: "ROUTE_NOT_FOUND" });
    }
  });

  test.each<[string, () => string, string]>([
    ["GET", () => "/v1/otp/send", "POST"],
    ["PUT", () => "/v1/otp/verify", "POST"],
    ["OPTIONS", () => "/v1/otp/resend", "POST"],
    ["DELETE", () => "/v1/otp/cancel", "POST"],
    ["POST", () => `/v1/otp/${id}`, "GET"],
    ["PATCH", () => `/v1/otp/${id}`, "GET"],
    ["GET", () => `${service}/SendOtp?message={}&encoding=json`, "POST"],
    ["GET", () => `${service}/VerifyOtp?message={}&encoding=json`, "POST"],
    ["GET", () => `${service}/ResendOtp?message={}&encoding=json`, "POST"],
    ["GET", () => `${service}/CancelOtp?message={}&encoding=json`, "POST"],
    ["PUT", () => `${service}/GetOtp`, "POST, GET"],
    ["TRACE", () => `${service}/GetOtp`, "POST, GET"],
  ])("%s %s is METHOD_NOT_ALLOWED", async (method, path, allow) => {
    const answer = await wire(world.url, { method, path: path(), headers: {} });
    expectPlain(answer, 405, "METHOD_NOT_ALLOWED");
    expect(answer.headers.get("allow")?.split(", ").toSorted()).toEqual(allow.split(", ").toSorted());
  });

  test("HEAD gets headers alone", async () => {
    const answer = await wire(world.url, { method: "HEAD", path: "/v1/otp/send" });
    expect([answer.status, answer.text, answer.headers.get("allow")]).toEqual([405, "", "POST"]);
  });

  test.each<[string, Record<string, string>]>([
    ["text/plain", { "content-type": "text/plain" }],
    ["a form", { "content-type": "application/x-www-form-urlencoded" }],
    ["another charset", { "content-type": "application/json; charset=latin1" }],
    ["protobuf by REST", { "content-type": "application/proto" }],
    ["Connect's stream", { "content-type": "application/connect+json" }],
    ["gRPC-web's JSON in base64", { "content-type": "application/grpc-web-text+json" }],
    ["nothing", { "content-type": "" }],
    ["two types", { "content-type": "application/json, text/plain" }],
    ["gzip by REST", { "content-type": "application/json", "content-encoding": "gzip" }],
    ["an unknown encoding", { "content-type": "application/json", "content-encoding": "br" }],
    ["two encodings", { "content-type": "application/json", "content-encoding": "gzip, gzip" }],
  ])("%s is MEDIA_TYPE_UNSUPPORTED", async (name, headers) => {
    const paths = name.includes("REST") ? ["/v1/otp/send"] : ["/v1/otp/send", `${service}/SendOtp`];
    for (const path of paths) {
      expectPlain(await wire(world.url, { path, headers, body: "{}" }), 415, "MEDIA_TYPE_UNSUPPORTED");
    }
  });

  test.each(["application/json;charset=utf-8", "Application/JSON; Charset=UTF-8"])("%j is JSON", async (type) => {
    const answer = await wire(
      world.url,
      json("/v1/otp/verify", { request_id: id, code: "1" }, { "content-type": type }),
    );
    expectPlain(answer, 400, "CODE_MALFORMED");
  });

  test.each([
    ["/v1/otp/cancel", "Identity", unknown],
    [`${service}/CancelOtp`, "IDENTITY", unknown],
    [`${service}/CancelOtp`, "GZip", gzipSync(unknown)],
  ])("%s takes the coding %j, in capitals or not", async (path, coding, body) => {
    const headers = { ...bearer(), "content-type": "application/json", "content-encoding": coding };
    expectPlain(await wire(world.url, { path, headers, body }), 404, "REQUEST_NOT_FOUND");
  });

  test.each<[string, () => Partial<WireRequest>]>([
    ["as told beforehand", () => ({ body: `{"phone":"${"1".repeat(17_000)}"}` })],
    ["as it turns out", () => ({ body: `{"phone":"${"1".repeat(17_000)}"}`, chunked: true })],
    ["by a megabyte", () => ({ body: Buffer.alloc(1_000_000, "1"), chunked: true })],
  ])("a body too large %s is BODY_TOO_LARGE", async (_name, how) => {
    for (const path of ["/v1/otp/send", `${service}/SendOtp`]) {
      expectPlain(await wire(world.url, { ...json(path, {}), ...how() }), 413, "BODY_TOO_LARGE");
    }
  });

  test("a body that inflates beyond 16 KiB is BODY_TOO_LARGE, and one that does not is read", async () => {
    const bomb = gzipSync(`{"phone":"${"1".repeat(1_000_000)}"}`);
    const encoded = json(`${service}/SendOtp`, {}, { "content-encoding": "gzip" });
    expectPlain(await wire(world.url, { ...encoded, body: bomb }), 413, "BODY_TOO_LARGE");
    const small = gzipSync('{"phone":"1"}');
    expectPlain(await wire(world.url, { ...encoded, body: small }), 400, "PHONE_INVALID");
    expectPlain(await wire(world.url, { ...encoded, body: "not gzip" }), 400, "INVALID_REQUEST");
  });

  test("exactly 16 KiB are read", async () => {
    const body = JSON.stringify({ phone: "1" });
    const padded = (size: number) => `${body}${" ".repeat(size - body.length)}`;
    const request = json("/v1/otp/send", {});
    expectPlain(await wire(world.url, { ...request, body: padded(16_384) }), 400, "PHONE_INVALID");
    expectPlain(await wire(world.url, { ...request, body: padded(16_385) }), 413, "BODY_TOO_LARGE");
  });

  test("Connect's GET reads a verification, in JSON and in binary", async () => {
    const message = toBinary(GetOtpRequestSchema, create(GetOtpRequestSchema, { requestId: id }));
    for (const parts of [
      { connect: "v1", encoding: "json", message: JSON.stringify({ request_id: id }) },
      { connect: "v1", encoding: "json", base64: "1", message: base64(Buffer.from(`{"requestId":"${id}"}`)) },
    ]) {
      const answer = await wire(world.url, get(query(parts)));
      expect([answer.status, JSON.parse(answer.text)]).toEqual([200, expect.objectContaining({ request_id: id })]);
      expectHygiene(answer);
    }
    const answer = await wire(
      world.url,
      get(query({ connect: "v1", encoding: "proto", base64: "1", message: base64(message) })),
    );
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/proto"]);
    expect(answer.headers.get("cache-control")).toBe("no-store");
  });

  test("Connect's GET needs a key like any other call", async () => {
    const path = query({ encoding: "json", message: JSON.stringify({ request_id: id }) });
    expectPlain(await wire(world.url, get(path, {})), 401, "API_KEY_MISSING");
  });

  test.each<[string, Record<string, string>, Record<string, string>]>([
    ["no query", {}, {}],
    ["no encoding", { message: "{}" }, {}],
    ["an unknown encoding", { message: "{}", encoding: "xml" }, {}],
    ["half a message", { message: "{", encoding: "json" }, {}],
    ["bad base64", { message: "*", encoding: "json", base64: "1" }, {}],
    ["bad protobuf", { message: base64(Buffer.of(10, 255)), encoding: "proto", base64: "1" }, {}],
    ["an unknown field", { message: '{"phone":"1"}', encoding: "json" }, {}],
    ["an empty request_id", { message: "{}", encoding: "json" }, {}],
    ["a gRPC type", { message: "{", encoding: "json" }, { "content-type": "application/grpc" }],
    ["a type nobody knows", { message: "{", encoding: "json" }, { "content-type": "text/plain" }],
  ])("Connect's GET with %s is INVALID_REQUEST", async (_name, parts, headers) => {
    expectPlain(await wire(world.url, get(query(parts), { ...bearer(), ...headers })), 400, "INVALID_REQUEST");
  });

  test("Connect's GET with an unknown compression is MEDIA_TYPE_UNSUPPORTED, and one with a bomb is BODY_TOO_LARGE", async () => {
    const read = (parts: Record<string, string>) =>
      wire(world.url, get(query({ message: "{}", encoding: "json", ...parts }), bearer()));
    expectPlain(await read({ compression: "zstd" }), 415, "MEDIA_TYPE_UNSUPPORTED");
    const bomb = base64(gzipSync(Buffer.alloc(1_000_000)));
    expectPlain(await read({ message: bomb, base64: "1", compression: "gzip" }), 413, "BODY_TOO_LARGE");
  });

  test("headers that only Connect's clients send do not get in the way of REST", async () => {
    for (const headers of [
      { "connect-protocol-version": "99" },
      { "content-encoding": "gzip" },
      { "content-type": "application/grpc" },
      { "connect-timeout-ms": "soon" },
    ]) {
      const answer = await wire(
        world.url,
        get(`/v1/otp/${id}`, { ...bearer(), ...(headers as Record<string, string>) }),
      );
      expect([headers, answer.status]).toEqual([headers, 200]);
    }
  });
});

test("gRPC needs HTTP/2", async () => {
  const request = {
    path: `${service}/GetOtp`,
    headers: { "content-type": "application/grpc" },
    body: grpcFrame(Buffer.of()),
  };
  expectPlain(await overHttp1(world.url, request), 415, "MEDIA_TYPE_UNSUPPORTED");
});

test("none of all this has opened a verification or sent an SMS", async () => {
  expect([await countRows(world.database, "verifications"), world.network.received.length]).toEqual([1, 1]);
});
