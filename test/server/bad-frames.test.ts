/**
 * Bad bytes on the binary surfaces: Connect's protobuf, and the frames of gRPC and gRPC-web from a client that does not
 * keep to them. A refusal with its reason, nothing spent, nothing echoed, and the next call works.
 */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { AnySchema } from "@bufbuild/protobuf/wkt";
import { connect } from "node:http2";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { VerifyOtpRequestSchema } from "../../gen/otp/v1/otp_service_pb.ts";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { rowOf } from "../support/databases/rows.ts";
import { newPhone } from "../support/data/phones.ts";
import { surfaces } from "../support/clients/surfaces.ts";
import { grpcFrame, overHttp1, overHttp2, type WireAnswer } from "../support/clients/wire.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
let id = "";
let good: Uint8Array = Buffer.of();
const typed = "907351";
beforeAll(async () => {
  world = await startWorld();
  const sent = await surfaces[0]?.call(world.url, "SendOtp", { phone: newPhone() }, { key: world.key });
  id = String(sent?.value?.["request_id"]);
  good = toBinary(VerifyOtpRequestSchema, create(VerifyOtpRequestSchema, { requestId: id, code: typed }));
});
afterAll(() => world.stop());

/** A length-delimited protobuf field. */
const field = (number: number, value: string | Uint8Array) => {
  const bytes = Buffer.from(value as string);
  return Buffer.concat([Buffer.of((number << 3) | 2), varint(bytes.length), bytes]);
};
function varint(value: number): Buffer {
  return value < 128 ? Buffer.of(value) : Buffer.concat([Buffer.of((value & 127) | 128), varint(value >>> 7)]);
}
const groups = (depth: number) => Buffer.concat([Buffer.alloc(depth, 0x7b), Buffer.alloc(depth, 0x7c)]);

/** Protobuf that does not decode, with a code in it where there is room for one. */
const messages: [string, () => Uint8Array][] = [
  ["a field cut short", () => Buffer.concat([good, Buffer.of(0x1a, 0x7f)])],
  ["a length beyond the end", () => Buffer.concat([Buffer.of(0x12, 0xff, 0x01), Buffer.from(typed)])],
  ["a length of 4 GiB", () => Buffer.concat([Buffer.of(0x12, 0xff, 0xff, 0xff, 0xff, 0x0f), Buffer.from(typed)])],
  ["a varint without an end", () => Buffer.alloc(12, 0xff)],
  ["field number zero", () => Buffer.concat([Buffer.of(0x02, 0x06), Buffer.from(typed)])],
  ["a wire type that is none", () => Buffer.concat([Buffer.of(0x17), Buffer.from(typed)])],
  ["a group that never ends", () => Buffer.concat([good, Buffer.alloc(100, 0x7b)])],
  ["a group that ends unopened", () => Buffer.concat([good, Buffer.of(0x7c)])],
  ["a code that is not UTF-8", () => Buffer.concat([field(1, id), field(2, Buffer.from([0x39, 0xff, 0x30]))])],
  ["JSON", () => Buffer.from(`{"request_id":"${id}","code":"${typed}"}`)],
];

const path = "/otp.v1.OtpService/VerifyOtp";
const headers = (type: string, more: Record<string, string> = {}) => ({
  authorization: `Bearer ${world.key}`,
  "content-type": type,
  ...more,
});
const overConnect = (body: Uint8Array, more?: Record<string, string>) =>
  overHttp1(world.url, { path, headers: headers("application/proto", more), body });
const overGrpc = (body: Uint8Array, more?: Record<string, string>) =>
  overHttp2(world.url, { path, headers: headers("application/grpc", { te: "trailers", ...more }), body });
const overGrpcWeb = (body: Uint8Array, more?: Record<string, string>) =>
  overHttp1(world.url, {
    path,
    headers: headers("application/grpc-web+proto", more),
    body,
    chunked: more?.["content-length"] === undefined,
  });

interface ErrorShape {
  readonly status: number;
  readonly message: string;
  readonly reasons: string[];
}

/** What a gRPC answer says, from its trailers; gRPC-web has them in a frame of their own. */
function errorOf(answer: WireAnswer): ErrorShape {
  const last = answer.body.indexOf(0x80);
  const lines =
    last < 0
      ? []
      : answer.body
          .subarray(last + 5)
          .toString("latin1")
          .split("\r\n");
  const trailers = new Headers(answer.trailers);
  for (const line of lines.filter((text) => text.includes(":"))) {
    const [name = "", value = ""] = line.split(/: ?(.*)/);
    trailers.set(name, value);
  }
  // google.rpc.Status: details are field 3. An Any in each.
  const reasons: string[] = [];
  const bin = Buffer.from(trailers.get("grpc-status-details-bin") ?? "", "base64");
  for (let at = 0; at < bin.length;) {
    const tag = bin.readUInt8(at);
    let [value, size, shift] = [0, 0, 0];
    do {
      at += 1;
      size = bin.readUInt8(at);
      value |= (size & 127) << shift;
      shift += 7;
    } while (size & 128);
    at += 1;
    if (tag !== 0x08) {
      const any = tag === 0x1a ? fromBinary(AnySchema, bin.subarray(at, at + value)) : undefined;
      if (any?.typeUrl.endsWith("ErrorInfo")) reasons.push(fromBinary(ErrorInfoSchema, any.value).reason);
      at += value;
    }
  }
  return { status: Number(trailers.get("grpc-status")), message: trailers.get("grpc-message") ?? "", reasons };
}

const invalidArgument = 3;
const resourceExhausted = 8;
const unimplemented = 12;
const internal = 13;

/** Runs an act, and checks that it cost nothing, repeated nothing, and left the server in order. */
async function harmless(act: () => Promise<WireAnswer>): Promise<WireAnswer> {
  const before = [world.network.received.length, (await rowOf(world.database, id)).attempts];
  const answer = await act();
  const everything = `${answer.body.toString("latin1")}${[...answer.headers, ...answer.trailers].join(" ")}`;
  expect(everything).not.toContain(typed);
  expect(answer.status).toBeLessThan(500);
  expect(answer.headers.get("cache-control")).toBe("no-store");
  expect([world.network.received.length, (await rowOf(world.database, id)).attempts]).toEqual(before);
  for (const surface of surfaces) {
    const { value } = await surface.call(world.url, "GetOtp", { request_id: id }, { key: world.key });
    expect(value).toMatchObject({ state: "STATE_PENDING" });
  }
  return answer;
}

describe.each(messages)("%s", (_, message) => {
  test("is INVALID_REQUEST over Connect", async () => {
    const answer = await harmless(() => overConnect(message()));
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('"INVALID_REQUEST"')]);
  });

  test.each([
    ["gRPC", overGrpc],
    ["gRPC-web", overGrpcWeb],
  ])("is INVALID_REQUEST over %s", async (_name, over) => {
    const error = errorOf(await harmless(() => over(grpcFrame(message()))));
    expect(error).toEqual({ status: invalidArgument, message: expect.any(String), reasons: ["INVALID_REQUEST"] });
  });
});

const toldByGrpc = (answer: WireAnswer) => {
  const { status, reasons } = errorOf(answer);
  return [status, ...reasons];
};
const toldByConnect = ({ status, text }: WireAnswer) => [status, (JSON.parse(text) as Said).details[0]?.debug.reason];
interface Said {
  readonly details: readonly { readonly debug: { readonly reason?: string } }[];
}

test.each([
  ["gRPC", "application/grpc", grpcFrame, toldByGrpc, invalidArgument],
  ["gRPC-web", "application/grpc-web+proto", grpcFrame, toldByGrpc, invalidArgument],
  ["Connect", "application/proto", (message: Uint8Array) => message, toldByConnect, 400],
])("a check of health that cannot be read is no fault of ours over %s", async (_, type, framed, told, status) => {
  const check = { path: "/grpc.health.v1.Health/Check", headers: { "content-type": type } };
  for (const message of [Buffer.of(0x0a, 0x7f), Buffer.alloc(100, 0x7b)]) {
    const answer = await overHttp2(world.url, { ...check, body: framed(message) });
    expect(told(answer)).toEqual([status, "INVALID_REQUEST"]);
  }
});

test.each([
  ["gRPC", "application/grpc"],
  ["gRPC-web", "application/grpc-web+proto"],
])("a frame of a check of health is refused in the words of any call's over %s", async (_, type) => {
  const check = { path: "/grpc.health.v1.Health/Check", headers: { "content-type": type } };
  const send = {
    path: "/otp.v1.OtpService/SendOtp",
    headers: { ...check.headers, authorization: `Bearer ${world.key}` },
  };
  const none = Buffer.alloc(0);
  for (const body of [
    none,
    Buffer.of(0, 0, 0),
    grpcFrame(none, { flag: 1 }),
    Buffer.concat([grpcFrame(none), grpcFrame(none)]),
  ]) {
    const [ofHealth, ofSend] = [
      await overHttp2(world.url, { ...check, body }),
      await overHttp2(world.url, { ...send, body }),
    ];
    expect(errorOf(ofHealth)).toEqual(errorOf(ofSend));
  }
});

describe.each([
  ["gRPC", overGrpc],
  ["gRPC-web", overGrpcWeb],
])("over %s", (_name, over) => {
  test.each<[string, number, () => Uint8Array, Record<string, string>?]>([
    ["no frame", unimplemented, () => Buffer.of()],
    ["half a frame's head", invalidArgument, () => Buffer.of(0, 0, 0)],
    ["a frame cut short", invalidArgument, () => grpcFrame(good).subarray(0, -3)],
    ["a frame that lies about being longer", invalidArgument, () => grpcFrame(good, { length: 9_999 })],
    ["two messages", unimplemented, () => Buffer.concat([grpcFrame(good), grpcFrame(good)])],
    ["a message and half of another", invalidArgument, () => Buffer.concat([grpcFrame(good), Buffer.of(0, 0)])],
    ["a message and text", invalidArgument, () => Buffer.concat([grpcFrame(good), Buffer.of(0, 0, 0, 0, 9, 65)])],
    ["a frame with a flag that gRPC has not", internal, () => grpcFrame(good, { flag: 2 })],
    ["a frame of trailers in the place of a message", internal, () => grpcFrame(good, { flag: 0x80 })],
    ["a compressed frame without an encoding", internal, () => grpcFrame(gzipSync(good), { flag: 1 })],
    [
      "a frame that says gzip and is not",
      invalidArgument,
      () => grpcFrame(good, { flag: 1 }),
      { "grpc-encoding": "gzip" },
    ],
  ])("%s is refused with the protocol's code", async (_what, status, body, more) => {
    const error = errorOf(await harmless(() => over(body(), more)));
    expect(error).toEqual({ status, message: expect.any(String), reasons: ["INVALID_REQUEST"] });
  });

  test("an unknown encoding is UNIMPLEMENTED, and the one that there is is named", async () => {
    const answer = await harmless(() => over(grpcFrame(good, { flag: 1 }), { "grpc-encoding": "zstd" }));
    const error = errorOf(answer);
    expect(error).toEqual({ status: unimplemented, message: expect.any(String), reasons: ["MEDIA_TYPE_UNSUPPORTED"] });
    expect(answer.headers.get("grpc-accept-encoding")).toBe("gzip");
    expect(error.message).not.toContain("zstd");
  });

  test.each<[string, () => Uint8Array, Record<string, string>?]>([
    ["a frame of 4 GiB", () => grpcFrame(good, { length: 0xffff_ffff })],
    ["a message of 17 KiB", () => grpcFrame(Buffer.concat([good, field(3, "p".repeat(17_000))]))],
    [
      "a message that inflates to a megabyte",
      () => grpcFrame(gzipSync(Buffer.concat([good, field(3, "p".repeat(1_000_000))])), { flag: 1 }),
      { "grpc-encoding": "gzip" },
    ],
  ])("%s is BODY_TOO_LARGE", async (_what, body, more) => {
    const error = errorOf(await harmless(() => over(body(), more)));
    expect(error).toEqual({ status: resourceExhausted, message: expect.any(String), reasons: ["BODY_TOO_LARGE"] });
  });

  test("a message of 17 KiB that says so is BODY_TOO_LARGE in the protocol's own way", async () => {
    const body = grpcFrame(field(3, "p".repeat(17_000)));
    const error = errorOf(await harmless(() => over(body, { "content-length": String(body.length) })));
    expect(error).toEqual({ status: resourceExhausted, message: expect.any(String), reasons: ["BODY_TOO_LARGE"] });
  });
});

test("groups nested a thousand deep are read and thrown away, or refused", async () => {
  const answer = await harmless(() => overConnect(Buffer.concat([field(1, id), field(2, "x"), groups(1_000)])));
  expect(answer.status).toBe(400);
});

test("HTTP/2 streams that are reset half-way leave the others alone", async () => {
  const session = connect(world.url);
  session.on("error", () => {});
  for (let i = 0; i < 50; i++) {
    const stream = session.request(
      { ":method": "POST", ":path": path, ...headers("application/grpc") },
      { endStream: false },
    );
    stream.on("error", () => {});
    stream.write(grpcFrame(good).subarray(0, 7));
    stream.close(8);
  }
  const answer = await harmless(() => overGrpc(grpcFrame(field(1, "nobody"))));
  expect(errorOf(answer).reasons).toEqual(["REQUEST_NOT_FOUND"]);
  session.destroy();
});
