/**
 * Streams over HTTP/2 that are opened and reset in one piece, which node tells of when they are closed already: nobody answers them,
 * and they cost who sends them.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { constants } from "node:http2";
import { afterEach, expect, test } from "vitest";
import { flag, frame, framesIn, frameType, headerBlock, openRaw, type RawConnection } from "../support/clients/raw.ts";
import { hello, hold } from "../support/clients/strangers.ts";
import { pageKey, startListener, testKey, type Listener } from "../support/service/listener.ts";

let listener: Listener;
const opened: RawConnection[] = [];
afterEach(async () => {
  for (const connection of opened.splice(0)) connection.destroy();
  await listener.stop(0);
});

const streamOf = (n: number) => 2 * n + 1;
const cancel = Buffer.from([0, 0, 0, constants.NGHTTP2_CANCEL]);
const resets = (count: number, method: string, path: string, more: Record<string, string> = {}) => {
  const fields = headerBlock({ ":method": method, ":scheme": "http", ":path": path, ":authority": "otpd", ...more });
  return Buffer.concat(
    Array.from({ length: count }, (_, i) =>
      Buffer.concat([
        frame(frameType.headers, flag.endHeaders | flag.endStream, streamOf(i), fields),
        frame(frameType.reset, 0, streamOf(i), cancel),
      ]),
    ),
  );
};
const path = `/v1/otp/${"A".repeat(22)}`;

test.each([
  ["calls with a key", path, { authorization: `Bearer ${testKey}` }],
  ["calls with a page's key", path, { authorization: `Bearer ${pageKey}` }],
  ["calls with a wrong key", path, { authorization: "Bearer otp_live_wrong" }],
  ["calls without a key", path, {}],
  ["requests that lead nowhere", "/nowhere", {}],
])("60 %s are neither performed nor answered, and the connection serves on", async (_, to, headers) => {
  listener = await startListener();
  const connection = await openRaw(listener.port);
  opened.push(connection);
  const whole = headerBlock({ ":method": "GET", ":scheme": "http", ":path": path, ":authority": "otpd" });
  const last = frame(frameType.headers, flag.endHeaders | flag.endStream, streamOf(60), whole);
  connection.write(...hello, resets(60, "GET", to, headers), last);
  const answer = await connection.until((bytes) => framesIn(bytes).find(({ type }) => type === frameType.headers));
  expect(answer.stream).toBe(streamOf(60));
  expect(listener.calls.map(({ call }) => call.refusal?.reason)).toEqual(["API_KEY_MISSING"]);
  expect(listener.turnedAway).toEqual([]);
  expect(listener.asked).toBe(1);
});

test("200 of them cost a stranger his connection", async () => {
  // Nothing else closes it.
  listener = await startListener({ limits: { halfOpenMs: 3_600_000 } });
  const connection = await openRaw(listener.port);
  opened.push(connection);
  connection.write(...hello, resets(200, "GET", "/nowhere"));
  await connection.closed;
  expect(listener.connections.count).toBe(0);
});

test("100 on each of 30 connections at once make no long turn", async () => {
  listener = await startListener();
  let inTurn = 0;
  let most = 0;
  let total = 0;
  const { promise: allCame, resolve } = Promise.withResolvers<void>();
  const onStream = () => {
    if (inTurn === 0) setImmediate(() => void (inTurn = 0));
    inTurn += 1;
    total += 1;
    most = Math.max(most, inTurn);
    if (total === 3_000) resolve();
  };
  subscribe("http2.server.stream.created", onStream);
  opened.push(...(await hold(listener.port, "127.0.0.2", 30, ...hello, resets(100, "GET", "/nowhere"))));
  await allCame;
  unsubscribe("http2.server.stream.created", onStream);
  // Two connections' at most, where whose turn it is changes in one.
  expect(most).toBeLessThanOrEqual(200);
});
