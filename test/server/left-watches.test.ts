/**
 * Nothing stays of a health watch whose client ends its side before the answer has begun: the timer that Connect has for it is of
 * half an hour, and no bound counts it any more.
 */
import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { flag, frame, frameType, headerBlock, preface, settings } from "../support/clients/raw.ts";
import { livezText } from "../support/clients/strangers.ts";
import { startListener, type Listener } from "../support/service/listener.ts";

let listener: Listener;
beforeAll(async () => {
  listener = await startListener();
});
afterAll(() => listener.stop());

const path = "/grpc.health.v1.Health/Watch";
const headers = { ":method": "POST", ":scheme": "http", ":path": path, ":authority": "otpd" };
const empty = Buffer.alloc(5);
const watchOf = (type: string, message: Uint8Array) => (_: unknown, i: number) =>
  Buffer.concat([
    frame(frameType.headers, flag.endHeaders, 2 * i + 1, headerBlock({ ...headers, "content-type": type })),
    frame(frameType.data, flag.endStream, 2 * i + 1, message),
  ]);
const overHttp2 = (type: string, message: Uint8Array = empty) =>
  Buffer.concat([Buffer.from(preface), settings(), ...Array.from({ length: 50 }, watchOf(type, message))]);
const overHttp1 = Buffer.concat([
  Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: otpd\r\ncontent-type: application/connect+proto\r\ncontent-length: 5\r\n\r\n`,
  ),
  empty,
]);

const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;

/** Sends, ends its side or not, and takes what comes until the server has closed the connection. */
async function be(bytes: Uint8Array, isEnded: boolean): Promise<void> {
  const socket = connect(Number(new URL(listener.url).port), "127.0.0.1");
  const closed = once(socket.resume(), "close");
  socket.on("error", () => {});
  socket.write(bytes);
  if (isEnded) socket.end();
  await closed;
}

test.each([
  ["over HTTP/2, by an end of its side", overHttp2("application/grpc"), true],
  ["by gRPC-web", overHttp2("application/grpc-web+proto"), true],
  ["by gRPC-web in text", overHttp2("application/grpc-web-text", Buffer.from(empty.toString("base64"))), true],
  ["by Connect", overHttp2("application/connect+proto"), true],
  ["over HTTP/1, by a request behind it", Buffer.concat([overHttp1, Buffer.from(livezText)]), false],
])("%s", async (_, bytes, isEnded) => {
  await be(bytes, isEnded);
  const before = timers();
  for (let i = 0; i < 20; i += 1) await be(bytes, isEnded);
  // Whatever it left to be done has been done by then.
  for (let i = 0; i < 3; i += 1) await be(Buffer.from(livezText), true);
  // Those of the test's own runner come and go.
  expect(timers() - before).toBeLessThan(5);
});
