/**
 * In how many frames an answer over HTTP/2 comes, and which one ends it. A refusal over gRPC is Trailers-Only: one HEADERS
 * frame that ends the stream and holds everything. A client's library retries by its service config only then, since headers
 * of their own would be an answer begun.
 */
import { connect, constants } from "node:http2";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { create, toBinary, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { GetOtpRequestSchema, ResendOtpRequestSchema, SendOtpRequestSchema } from "../../gen/otp/v1/otp_service_pb.ts";
import { newPhone } from "../support/data/phones.ts";
import { flag, frame, framesIn, frameType, headerBlock, openRaw, preface } from "../support/clients/raw.ts";
import { grpcFrame } from "../support/clients/wire.ts";
import { startWorld, type World } from "../support/service/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

interface Sent {
  readonly rpc: string;
  readonly headers?: Record<string, string>;
  readonly body: Uint8Array;
}

function call<Desc extends DescMessage>(rpc: string, desc: Desc, message: MessageInitShape<Desc>): Sent {
  return { rpc, body: grpcFrame(toBinary(desc, create(desc, message))) };
}
const send = (phone = newPhone()) => call("SendOtp", SendOtpRequestSchema, { phone });

const headersOf = ({ rpc, headers = { te: "trailers" } }: Sent) => ({
  ":method": "POST",
  ":scheme": "http",
  ":path": rpc.startsWith("/") ? rpc : `/otp.v1.OtpService/${rpc}`,
  ":authority": new URL(world.url).host,
  authorization: `Bearer ${world.key}`,
  "content-type": "application/grpc",
  ...headers,
});

/** Type and flags of the frames that a call is answered with, to the end of its stream. */
async function framesOf(sent: Sent): Promise<[type: number, flags: number][]> {
  const connection = await openRaw(Number(new URL(world.url).port));
  const head = frame(frameType.headers, flag.endHeaders, 1, headerBlock(headersOf(sent)));
  const settled = frame(frameType.settings, 0, 0);
  connection.write(preface, settled, head, frame(frameType.data, flag.endStream, 1, sent.body));
  const frames = await connection.until((bytes) => {
    const ours = framesIn(bytes).filter(({ stream }) => stream === 1);
    return ours.some(({ flags }) => (flags & flag.endStream) !== 0) ? ours : undefined;
  });
  connection.destroy();
  return frames.map(({ type, flags }) => [type, flags]);
}

/** What the first HEADERS frame of an answer holds. */
async function headOf(sent: Sent): Promise<Record<string, unknown>> {
  const session = connect(world.url);
  const stream = session.request(headersOf(sent), { endStream: false });
  stream.end(sent.body);
  const [headers, flags] = (await once(stream, "response")) as [Record<string, unknown>, number];
  stream.resume();
  await once(stream, "close");
  session.destroy();
  return { ...headers, isEnd: (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0 };
}

const nobody = () => call("GetOtp", GetOtpRequestSchema, { requestId: "nobody" });

describe.each<[string, string, () => Sent | Promise<Sent>]>([
  ["a call without a key", "16", () => ({ ...send(), headers: { authorization: "" } })],
  ["a landline", "3", () => send("+31201234567")],
  ["a frame that is cut short", "3", () => ({ rpc: "SendOtp", body: send().body.subarray(0, -3) })],
  ["an unknown request", "5", nobody],
  ["a call from a page", "7", () => ({ ...send(), headers: { origin: "https://shop.example" } })],
  ["a deadline in the past", "4", () => ({ ...send(), headers: { "grpc-timeout": "1n" } })],
])("%s", (_what, status, make) => {
  test("is refused in one HEADERS frame that ends the stream", async () => {
    expect(await framesOf(await make())).toEqual([[frameType.headers, flag.endHeaders | flag.endStream]]);
  });

  test("is told everything there", async () => {
    expect(await headOf(await make())).toMatchObject({
      ":status": 200,
      "content-type": "application/grpc+proto",
      "cache-control": "no-store",
      "grpc-status": status,
      "grpc-message": expect.any(String),
      "grpc-status-details-bin": expect.any(String),
      "x-call-id": expect.stringMatching(/^[\w-]{12}$/),
      isEnd: true,
    });
  });
});

const check = (body: Uint8Array): Sent => ({ rpc: "/grpc.health.v1.Health/Check", body });
const nothing = Buffer.alloc(0);

test.each([
  ["of an unknown service", check(grpcFrame(Buffer.from("\x0a\x04nope")))],
  ["without a message", check(nothing)],
  ["with two messages", check(Buffer.concat([grpcFrame(nothing), grpcFrame(nothing)]))],
  ["in a compressed frame without an encoding", check(grpcFrame(nothing, { flag: 1 }))],
  ["that is too large", check(grpcFrame(Buffer.alloc(5_000)))],
])("a check of health %s is refused in one HEADERS frame, too", async (_, sent) => {
  expect(await framesOf(sent)).toEqual([[frameType.headers, flag.endHeaders | flag.endStream]]);
});

test("a refusal that says how long to wait says so in its only frame", async () => {
  const session = connect(world.url);
  const stream = session.request(headersOf(send()), { endStream: false });
  stream.end(send().body);
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  await once(stream, "close");
  session.destroy();
  // SendOtpResponse: request_id is its first field.
  const requestId = Buffer.concat(chunks).subarray(7, 29).toString("latin1");
  const again = call("ResendOtp", ResendOtpRequestSchema, { requestId });
  const head = await headOf(again);
  expect(head).toMatchObject({ "grpc-status": "8", "retry-after": "30", isEnd: true });
  // A library would wait for as long by itself, and its user hear nothing.
  expect(head).not.toHaveProperty("grpc-retry-pushback-ms");
});

test("a success is headers, a message and trailers", async () => {
  const types = (await framesOf(send())).map(([type]) => type);
  expect(types).toEqual([frameType.headers, frameType.data, frameType.headers]);
});

const json = { "content-type": "application/json" };

test.each<[string, () => Sent]>([
  ["a send over JSON", () => ({ rpc: "/v1/otp/send", headers: json, body: Buffer.from(`{"phone":"${newPhone()}"}`) })],
  ["a refusal over JSON", () => ({ rpc: "/v1/otp/send", headers: json, body: Buffer.from("{}") })],
  ["a page", () => ({ rpc: "/livez", headers: { ":method": "GET" }, body: nothing })],
  ["a path that is not there", () => ({ rpc: "/nowhere", headers: { ":method": "GET" }, body: nothing })],
])("the body of %s ends it: an empty frame behind it could be held back on its way", async (_, make) => {
  expect(await framesOf(make())).toEqual([
    [frameType.headers, flag.endHeaders],
    [frameType.data, flag.endStream],
  ]);
});

test("the headers of an answer to HEAD end it", async () => {
  expect(await framesOf({ rpc: "/livez", headers: { ":method": "HEAD" }, body: nothing })).toEqual([
    [frameType.headers, flag.endHeaders | flag.endStream],
  ]);
});
