/**
 * What is wrong with how a call is wrapped has its protocol's own code: the same as a stock server of connect-node gives it
 * for the same bytes. And what each protocol takes beside the plain: gzip, base64, unknown paths.
 */
import { create, fromBinary, fromJsonString, toBinary, toJsonString } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { codeFromString } from "@connectrpc/connect/protocol-connect";
import { compressionGzip, connectNodeAdapter } from "@connectrpc/connect-node";
import { once } from "node:events";
import { createServer as createHttp1 } from "node:http";
import { createServer as createHttp2 } from "node:http2";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  GetOtpRequestSchema,
  GetOtpResponseSchema,
  OtpService,
  SendOtpRequestSchema,
  VerifyOtpRequestSchema,
} from "../../gen/otp/v1/otp_service_pb.ts";
import { newPhone } from "../support/data/phones.ts";
import { surfaces } from "../support/clients/surfaces.ts";
import { grpcFrame, overHttp1, overHttp2, type Wire, type WireAnswer } from "../support/clients/wire.ts";
import { startWorld, type World } from "../support/service/world.ts";

const bytesMax = 16_384;
let world: World;
let id = "";
let good: Uint8Array = Buffer.of();
const stock = { http1: "", http2: "" };
const servers: { close(): unknown }[] = [];

beforeAll(async () => {
  world = await startWorld();
  const sent = await surfaces[0]?.call(world.url, "SendOtp", { phone: newPhone() }, { key: world.key });
  id = String(sent?.value?.["request_id"]);
  good = toBinary(GetOtpRequestSchema, create(GetOtpRequestSchema, { requestId: id }));
  const handler = connectNodeAdapter({
    acceptCompression: [compressionGzip],
    readMaxBytes: bytesMax,
    routes: (router) => void router.service(OtpService, { getOtp: () => ({}) }),
  });
  for (const [name, server] of [
    ["http1", createHttp1(handler)],
    ["http2", createHttp2(handler)],
  ] as const) {
    server.listen(0, "127.0.0.1");
    servers.push(server);
    await once(server, "listening");
    stock[name] = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
});
afterAll(async () => {
  for (const server of servers) server.close();
  await world.stop();
});

/** The trailers of gRPC, wherever a surface has them. */
function trailersOf({ trailers, headers, body }: WireAnswer): Headers {
  const isText = headers.get("content-type")?.startsWith("application/grpc-web-text");
  // Each piece may be padded by itself.
  const pieces = body.toString("latin1").split(/(?<==)(?!=)/);
  const bytes = isText ? Buffer.concat(pieces.map((piece) => Buffer.from(piece, "base64"))) : body;
  const all = new Headers(trailers);
  if (headers.get("content-type")?.startsWith("application/grpc-web") !== true) return all;
  for (let at = 0; at < bytes.length; at += 5 + bytes.readUInt32BE(at + 1)) {
    if (bytes.readUInt8(at) !== 0x80) continue;
    for (const line of bytes
      .subarray(at + 5)
      .toString("latin1")
      .split("\r\n")) {
      const [name, value] = line.split(/: ?(.*)/);
      if (name && value !== undefined) all.set(name, value);
    }
  }
  return all;
}

/** The code of an answer, on whichever surface; undefined for a success of Connect. */
function codeOf(answer: WireAnswer): string | undefined {
  const status = trailersOf(answer).get("grpc-status") ?? answer.headers.get("grpc-status");
  if (status !== null) return status === "0" ? undefined : Code[Number(status)];
  if (answer.status === 200) return undefined;
  const { code } = JSON.parse(answer.text) as { code: string };
  return Code[codeFromString(code) ?? 0];
}

const path = "/otp.v1.OtpService/GetOtp";
const asked = (type: string, body: Uint8Array | string, more: Record<string, string> = {}) => ({
  path,
  headers: { authorization: `Bearer ${world.key}`, "content-type": type, te: "trailers", ...more },
  body,
});

type Case = [string, () => Uint8Array | string, Record<string, string>?];
const frames: readonly Case[] = [
  ["no message", () => ""],
  ["several messages", () => Buffer.concat([grpcFrame(good), grpcFrame(good)])],
  ["a frame cut short", () => grpcFrame(good).subarray(0, -1)],
  ["half a head", () => Buffer.of(0, 0)],
  ["a message and half of another", () => Buffer.concat([grpcFrame(good), Buffer.of(0, 0)])],
  ["a flag of compression without an encoding", () => grpcFrame(gzipSync(good), { flag: 1 })],
  ["an unknown encoding", () => grpcFrame(good, { flag: 1 }), { "grpc-encoding": "snappy" }],
  ["an unknown encoding that is not used", () => grpcFrame(good), { "grpc-encoding": "snappy" }],
  ["gzip that is none", () => grpcFrame(Buffer.from("none of it"), { flag: 1 }), { "grpc-encoding": "gzip" }],
  ["a message too large", () => grpcFrame(Buffer.alloc(bytesMax + 1))],
  ["a bomb", () => grpcFrame(gzipSync(Buffer.alloc(1_000_000)), { flag: 1 }), { "grpc-encoding": "gzip" }],
  ["a message as it should be", () => grpcFrame(good)],
  ["one in gzip", () => grpcFrame(gzipSync(good), { flag: 1 }), { "grpc-encoding": "gzip" }],
  ["one that could be in gzip and is not", () => grpcFrame(good), { "grpc-encoding": "gzip" }],
];
const messages: readonly Case[] = [
  ["an unknown encoding", () => good, { "content-encoding": "snappy" }],
  ["gzip that is none", () => "none of it", { "content-encoding": "gzip" }],
  ["a message too large", () => Buffer.alloc(bytesMax + 1)],
  ["a bomb", () => gzipSync(Buffer.alloc(1_000_000)), { "content-encoding": "gzip" }],
  ["a message as it should be", () => good],
  ["one in gzip", () => gzipSync(good), { "content-encoding": "gzip" }],
];

describe.each<[string, string, Wire, "http1" | "http2", readonly Case[]]>([
  ["gRPC", "application/grpc", overHttp2, "http2", frames],
  ["gRPC-web over HTTP/1.1", "application/grpc-web+proto", overHttp1, "http1", frames],
  ["gRPC-web over HTTP/2", "application/grpc-web+proto", overHttp2, "http2", frames],
  ["Connect over HTTP/1.1", "application/proto", overHttp1, "http1", messages],
  ["Connect over HTTP/2", "application/proto", overHttp2, "http2", messages],
])("over %s", (_surface, type, wire, which, cases) => {
  test.each(cases)("%s has the code that a stock server gives it", async (_what, body, more) => {
    const request = asked(type, body(), more);
    const theirs = codeOf(await wire(stock[which], request));
    expect(codeOf(await wire(world.url, request))).toBe(theirs);
  });
});

test("the table has every code that a fault of a frame can have", async () => {
  const codes = await Promise.all(
    frames.map(async ([, body, more]) => codeOf(await overHttp2(stock.http2, asked("application/grpc", body(), more)))),
  );
  expect(new Set(codes)).toEqual(
    new Set([undefined, "Unimplemented", "InvalidArgument", "Internal", "ResourceExhausted"]),
  );
});

describe.each([
  ["an unknown RPC", "/otp.v1.OtpService/Nothing"],
  ["an unknown service", "/otp.v9.Nobody/SendOtp"],
])("%s", (_what, unknown) => {
  test.each<[string, Wire, string]>([
    ["gRPC", overHttp2, "application/grpc"],
    ["gRPC-web", overHttp1, "application/grpc-web+proto"],
    ["gRPC-web over HTTP/2", overHttp2, "application/grpc-web"],
    ["gRPC-web as text", overHttp1, "application/grpc-web-text"],
  ])("is UNIMPLEMENTED over %s, with HTTP's 200 and no JSON", async (_surface, wire, type) => {
    const answer = await wire(world.url, { ...asked(type, grpcFrame(good)), path: unknown });
    expect([answer.status, codeOf(answer)]).toEqual([200, "Unimplemented"]);
    expect(answer.headers.get("content-type")).toContain(type);
    expect(answer.text).not.toContain("{");
  });

  test("is UNIMPLEMENTED and 404 over Connect", async () => {
    const answer = await overHttp1(world.url, { ...asked("application/json", "{}"), path: unknown });
    expect([answer.status, JSON.parse(answer.text)]).toEqual([
      404,
      expect.objectContaining({ code: "unimplemented", reason: "ROUTE_NOT_FOUND" }),
    ]);
  });
});

test.each<[string, Wire, string]>([
  ["REST", overHttp1, "/v1/otp/send"],
  ["Connect", overHttp1, path],
  ["Connect over HTTP/2", overHttp2, path],
])("a body too large has one shape over %s, whether or not its length was told", async (_surface, wire, at) => {
  const body = JSON.stringify({ phone: "1".repeat(bytesMax) });
  const request = { ...asked("application/json", body), path: at };
  const wholeLength = await wire(world.url, {
    ...request,
    headers: { ...request.headers, "content-length": `${body.length}` },
  });
  const chunked = await wire(world.url, { ...request, chunked: true });
  for (const answer of [wholeLength, chunked]) {
    expect([answer.status, JSON.parse(answer.text)]).toEqual([
      413,
      expect.objectContaining({ code: "resource_exhausted" }),
    ]);
    expect(answer.headers.get("x-call-id")).toMatch(/^[\w-]{12}$/);
  }
  expect(JSON.parse(wholeLength.text)).toEqual(JSON.parse(chunked.text));
});

const watch = "/grpc.health.v1.Health/Watch";
const reflect = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const grpcTypes = "application/grpc, application/grpc-web";

test.each([
  ["/v1/otp/send", "text/plain", "Use application/json, not compressed."],
  [path, "text/plain", `application/json, application/proto, ${grpcTypes} and application/grpc-web-text.`],
  [path, "application/grpc", "over HTTP/2 alone"],
  [
    watch,
    "application/json",
    `application/connect+json, application/connect+proto, ${grpcTypes} and application/grpc-web-text.`,
  ],
  [
    reflect,
    "text/plain",
    "application/connect+json, application/connect+proto, application/grpc and application/grpc-web.",
  ],
  [reflect, "application/grpc-web-text", "application/grpc and application/grpc-web."],
  [reflect, "application/grpc-web", "over HTTP/2 alone."],
  [reflect, "application/grpc", "over HTTP/2 alone."],
])("a wrong type at %s (%s) is told what the path takes", async (at, type, words) => {
  const { status, text } = await overHttp1(world.url, { ...asked(type, "{}"), path: at });
  expect([status, JSON.parse(text)]).toEqual([
    415,
    expect.objectContaining({ message: expect.stringContaining(words) }),
  ]);
});

/** What both ways to write an answer have in common: all but how its message is encoded, and whose call it was. */
function commonTo({ status, headers, trailers }: WireAnswer) {
  const own = /^(:|content-type$|date$|x-call-id$)/;
  const listed = (all: Headers) => [...all].filter(([name]) => !own.test(name));
  return { status, headers: listed(headers), trailers: listed(new Headers(trailers)) };
}

test.each<[string, () => string, Record<string, string>]>([
  ["an answer", () => id, {}],
  ["a refusal", () => "A".repeat(22), {}],
  ["a refusal without a key", () => id, { authorization: "" }],
])(
  "gRPC in its own encoding, which is answered by hand, is what Connect's handler makes of it: %s",
  async (...given) => {
    const [, idOf, more] = given;
    const message = create(GetOtpRequestSchema, { requestId: idOf() });
    const inJson = Buffer.from(toJsonString(GetOtpRequestSchema, message));
    const byHand = await overHttp2(
      world.url,
      asked("application/grpc", grpcFrame(toBinary(GetOtpRequestSchema, message)), more),
    );
    const byConnect = await overHttp2(world.url, asked("application/grpc+json", grpcFrame(inJson), more));
    expect(commonTo(byHand)).toEqual(commonTo(byConnect));
    const held = (body: Buffer) => body.subarray(5, 5 + (body.length > 0 ? body.readUInt32BE(1) : 0));
    const schema = GetOtpResponseSchema;
    const fromHand = fromBinary(schema, held(byHand.body));
    const fromConnect =
      byConnect.body.length > 0 ? fromJsonString(schema, held(byConnect.body).toString()) : create(schema);
    expect(fromHand).toEqual(fromConnect);
  },
);

describe("gRPC-web as text", () => {
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
  /** Each byte by itself, padded. */
  const inPieces = (bytes: Uint8Array) => Array.from(bytes, (byte) => base64(Buffer.of(byte))).join("");

  test.each<[string, Wire, string, () => string]>([
    ["whole", overHttp1, "application/grpc-web-text", () => base64(grpcFrame(good))],
    ["over HTTP/2", overHttp2, "application/grpc-web-text+proto", () => base64(grpcFrame(good))],
    ["in pieces of which each is padded", overHttp1, "application/grpc-web-text", () => inPieces(grpcFrame(good))],
  ])("is answered as text: %s", async (_how, wire, type, text) => {
    const answer = await wire(world.url, asked(type, text()));
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/grpc-web-text+proto"]);
    expect(trailersOf(answer).get("grpc-status")).toBe("0");
    const bytes = Buffer.from(answer.text, "base64");
    const message = fromBinary(GetOtpResponseSchema, bytes.subarray(5, 5 + bytes.readUInt32BE(1)));
    expect(message.requestId).toBe(id);
  });

  test.each<[string, () => string, Record<string, string>, string]>([
    ["what is no base64", () => "*".repeat(40), {}, "InvalidArgument"],
    ["a message that does not decode", () => base64(grpcFrame(Buffer.of(255))), {}, "InvalidArgument"],
    ["several messages", () => base64(Buffer.concat([grpcFrame(good), grpcFrame(good)])), {}, "Unimplemented"],
    ["a message too large", () => base64(grpcFrame(Buffer.alloc(bytesMax + 1))), {}, "ResourceExhausted"],
    ["no key", () => base64(grpcFrame(good)), { authorization: "" }, "Unauthenticated"],
    ["an unknown request", () => base64(grpcFrame(Buffer.of(10, 1, 65))), {}, "NotFound"],
  ])("is refused as text: %s", async (_what, text, more, code) => {
    const answer = await overHttp1(world.url, asked("application/grpc-web-text", text(), more));
    expect(codeOf(answer)).toBe(code);
    expect(answer.headers.get("content-type")).toBe("application/grpc-web-text+proto");
  });
});

describe.each<[string, Wire, string]>([
  ["gRPC", overHttp2, "application/grpc"],
  ["gRPC-web", overHttp1, "application/grpc-web"],
])("health over %s", (_surface, wire, type) => {
  const check = (body: Uint8Array, more: Record<string, string> = {}) =>
    wire(world.url, { ...asked(type, body, more), path: "/grpc.health.v1.Health/Check" });

  test("takes gzip", async () => {
    const service = Buffer.concat([Buffer.of(10, 17), Buffer.from("otp.v1.OtpService")]);
    const answer = await check(grpcFrame(gzipSync(service), { flag: 1 }), { "grpc-encoding": "gzip" });
    expect(trailersOf(answer).get("grpc-status")).toBe("0");
  });

  test("refuses a message too large as gRPC does", async () => {
    const answer = await check(grpcFrame(Buffer.alloc(70_000)));
    expect([answer.status, codeOf(answer)]).toEqual([200, "ResourceExhausted"]);
  });
});

test("health as text", async () => {
  const request = asked("application/grpc-web-text", Buffer.from(grpcFrame(Buffer.of())).toString("base64"));
  const answer = await overHttp1(world.url, { ...request, path: "/grpc.health.v1.Health/Check" });
  expect(trailersOf(answer).get("grpc-status")).toBe("0");
});

test("what Connect itself refuses is logged as what it is, and repeated nowhere", async () => {
  const query = new URLSearchParams({ encoding: "json", message: "{}", compression: "907351" });
  const { headers } = asked("", "");
  const answer = await overHttp1(world.url, { headers, method: "GET", path: `${path}?${query}` });
  expect([answer.status, codeOf(answer)]).toEqual([415, "Unimplemented"]);
  expect(answer.text).not.toContain("907351");
  const call = world.observed.findLast(({ event }) => event === "call");
  const refusal = expect.objectContaining({ reason: "MEDIA_TYPE_UNSUPPORTED" });
  expect(call?.with[0]).toMatchObject({ id: answer.headers.get("x-call-id"), refusal });
});

test.each(["%FF&", "%zz&", "%F0%9F%98&"])(
  "a query of Connect's with %s, which is no UTF-8 unescaped, is refused unread",
  async (escape) => {
    const query = new URLSearchParams({ encoding: "json", message: JSON.stringify({ request_id: id }) });
    const ask = async (more: string) =>
      overHttp1(world.url, { headers: asked("", "").headers, method: "GET", path: `${path}?${more}${query}` });
    expect((await ask("%F0%9F%98%80&")).status).toBe(200);
    const answer = await ask(escape);
    expect([answer.status, codeOf(answer)]).toEqual([400, "InvalidArgument"]);
    expect(answer.text).toContain("not UTF-8");
  },
);

describe.each<[string, Wire, string]>([
  ["gRPC", overHttp2, "application/grpc"],
  ["gRPC-web", overHttp1, "application/grpc-web+proto"],
])("a repeat over %s", (_surface, wire, type) => {
  test.each<[string, string, () => Uint8Array]>([
    ["a success", "SendOtp", () => toBinary(SendOtpRequestSchema, create(SendOtpRequestSchema, { phone: newPhone() }))],
    [
      "a refusal",
      "VerifyOtp",
      () => toBinary(VerifyOtpRequestSchema, create(VerifyOtpRequestSchema, { requestId: id, code: "000000" })),
    ],
  ])("is told in the trailers: %s", async (_what, rpc, make) => {
    const request = asked(type, grpcFrame(make()), { "idempotency-key": `${type} ${rpc}`.replace(" ", "-") });
    const call = () => wire(world.url, { ...request, path: `/otp.v1.OtpService/${rpc}` });
    const [first, again] = [trailersOf(await call()), trailersOf(await call())];
    expect(again.get("grpc-status")).toBe(first.get("grpc-status"));
    expect([first.get("idempotency-replayed"), again.get("idempotency-replayed")]).toEqual([null, "true"]);
  });
});
