/**
 * Answers to requests over HTTP/2 that do not end, whose connection may break off at any moment.
 */
import { once } from "node:events";
import { constants, createServer, type Http2ServerRequest } from "node:http2";
import { type AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { answerAtOnce } from "../../src/server/http/body.ts";
import { flag, frame, framesIn, frameType, headerBlock, openRaw, preface, settings } from "../support/clients/raw.ts";

const requests: Http2ServerRequest[] = [];
const server = createServer((request, response) => {
  requests.push(request);
  void answerAtOnce(request, async () => void response.end("here"));
});
beforeAll(async () => {
  await once(server.listen(0, "127.0.0.1"), "listening");
});
afterAll(() => void server.close());

test("a stream is not told to close before its answer is taken: Node would forget it when its connection breaks off", async () => {
  const { port } = server.address() as AddressInfo;
  const { write, until, destroy } = await openRaw(port);
  const headers = headerBlock({ ":method": "GET", ":scheme": "http", ":path": "/", ":authority": "otpd" });
  // Nothing of an answer's body may be sent for now.
  write(preface, settings([4, 0]), frame(frameType.headers, flag.endHeaders, 1, headers));
  await until((bytes) => framesIn(bytes).find(({ type }) => type === frameType.headers));
  const [stream] = requests.map((request) => request.stream);
  expect([stream?.writableEnded, stream?.writableFinished, stream?.closed]).toEqual([true, false, false]);
  write(settings([4, 65_535]));
  const reset = await until((bytes) => framesIn(bytes).find(({ type }) => type === frameType.reset));
  expect(reset.payload.readUInt32BE(0)).toBe(constants.NGHTTP2_NO_ERROR);
  destroy();
});
