/**
 * How long a connection may stay, and what it may do: idle, dripping, dawdling, old, or too many. Each limit is made short
 * for itself alone, so that no other one can be what closed the connection.
 */
import { connect, constants } from "node:http2";
import { once } from "node:events";
import { clearInterval, setInterval } from "node:timers";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Page } from "../../src/server/pages/pages.ts";
import { parseConfig } from "../../src/config/config.ts";
import { connectionLimits, serverLimits } from "../../src/server/listener/server.ts";
import { startListener, testKey, type Listener, type ListenerOptions } from "../support/service/listener.ts";
import { holdTicks, passTicks, releaseTicks } from "../support/service/ticks.ts";
import {
  callFrames,
  callHeaders,
  callText,
  flag,
  frame,
  framesIn,
  frameType,
  headerBlock,
  openRaw,
  preface,
  settings,
  type RawConnection,
} from "../support/clients/raw.ts";

let listener: Listener;
const opened: RawConnection[] = [];
beforeEach(() => {
  opened.length = 0;
  holdTicks();
});
afterEach(async () => {
  for (const connection of opened) connection.destroy();
  await listener.stop(0);
  releaseTicks();
});

async function listenWith(
  limits: NonNullable<ListenerOptions["limits"]>,
  options: Omit<ListenerOptions, "limits"> = {},
): Promise<void> {
  listener = await startListener({ limits, ...options });
}

async function open(...first: (string | Uint8Array)[]): Promise<RawConnection> {
  const connection = await openRaw(listener.port);
  opened.push(connection);
  connection.write(...first);
  return connection;
}

const hello = [preface, settings()];

/** The whole answers on an HTTP/1 connection: one per status line. */
const answersIn = (bytes: Buffer) =>
  bytes
    .toString("latin1")
    .split(/(?=HTTP\/1\.1 \d{3})/)
    .filter(Boolean);
const whenAnswered = (connection: RawConnection, count = 1) =>
  connection.until((bytes) => {
    const answers = answersIn(bytes);
    const last = answers.at(-1) ?? "";
    const [, length] = /content-length: (\d+)/i.exec(last) ?? [];
    const body = last.split("\r\n\r\n")[1];
    return answers.length >= count && body !== undefined && body.length >= Number(length) ? answers : undefined;
  });

/** Resolves with the frames once a stream was answered to its end. */
const whenStreamEnds = (connection: RawConnection, stream: number) =>
  connection.until((bytes) => {
    const frames = framesIn(bytes);
    const isEnd = (f: (typeof frames)[number]) =>
      f.stream === stream && (f.type === frameType.reset || (f.flags & flag.endStream) !== 0);
    return frames.some(isEnd) ? frames : undefined;
  });

test("the shipped limits are those of the contract", async () => {
  await listenWith({});
  expect(connectionLimits).toMatchObject({ halfOpenMs: 15_000, strangerIdleMs: 60_000 });
  expect(connectionLimits.tickMs).toBeLessThanOrEqual(1_000);
  expect(serverLimits).toMatchObject({ requestMs: 15_000, headerBytesMax: 16_384, streamsMax: 100 });
  expect(serverLimits.checkMs).toBeLessThanOrEqual(1_000);
  expect(connectionLimits.callMs).toBeLessThanOrEqual(60_000);
  const config = parseConfig({}, () => "");
  expect(config).toMatchObject({ ok: true, value: { idleMs: 1_800_000, connectionMaxAgeMs: 0 } });
});

test("a client is told of 100 streams and 16 KiB of headers", async () => {
  await listenWith({});
  const connection = await open(...hello);
  const [first] = await connection.until((bytes) => (framesIn(bytes).length > 0 ? framesIn(bytes) : undefined));
  const payload = first?.payload ?? Buffer.alloc(0);
  const values = new Map<number, number>();
  for (let at = 0; at < payload.length; at += 6) values.set(payload.readUInt16BE(at), payload.readUInt32BE(at + 2));
  expect(values.get(3)).toBe(100);
  expect(values.get(6)).toBe(16_384);
});

describe("a connection that never brings a request is closed, when it", () => {
  const port = 1;
  const kinds: [string, (string | Uint8Array)[]][] = [
    ["sends nothing", []],
    ["sends half an HTTP/2 preface", [preface.slice(0, 12)]],
    ["sends the HTTP/2 preface alone", [preface]],
    ["says hello in HTTP/2 and no more", hello],
    ["leaves a HEADERS frame half done", [...hello, frame(1, 4, 1, callHeaders(port)).subarray(0, 20)]],
    ["never ends its header block", [...hello, frame(1, 0, 1, callHeaders(port))]],
    ["leaves an HTTP/1 header half done", ["POST /v1/otp/send HTTP/1.1\r\nhost: ot"]],
    ["sends empty lines", ["\r\n\r\n\r\n"]],
  ];
  test.each(kinds)("%s", async (_, first) => {
    await listenWith({ halfOpenMs: 100, strangerIdleMs: 3_600_000, requestMs: 3_600_000 });
    const idle = await open(callText("wrong key"));
    await whenAnswered(idle);
    const silent = await open(...first);
    await listener.open(2);
    passTicks(100);
    expect(listener.connections.count).toBe(2);
    passTicks(50);
    await silent.closed;
    // The one that did bring a request is still served.
    idle.write(callText(testKey));
    expect((await whenAnswered(idle, 2))[1]).toMatch(/^HTTP\/1\.1 200 /);
  });

  test("hangs up without a word", async () => {
    await listenWith({ halfOpenMs: 3_600_000 });
    const connection = await open();
    await listener.open(1);
    connection.socket.end();
    await listener.open(0);
    expect(listener.connections.count).toBe(0);
  });
});

describe.each([
  ["HTTP/1", (key: string) => [callText(key)], (c: RawConnection) => whenAnswered(c) as Promise<unknown>],
  ["HTTP/2", (key: string) => [...hello, callFrames(1, 1, key)], (c: RawConnection) => whenStreamEnds(c, 1)],
])("an idle connection on %s", (_, call, whenDone) => {
  test("is closed soon after a stranger's call, late after a caller's with a valid key", async () => {
    await listenWith({ halfOpenMs: 3_600_000, strangerIdleMs: 100, idleMs: 400 });
    const caller = await open(...call(testKey));
    await whenDone(caller);
    const stranger = await open(...call("wrong key"));
    await whenDone(stranger);
    await listener.answered(2);
    const order: string[] = [];
    const bothClosed = Promise.all([
      stranger.closed.then(() => order.push("stranger")),
      caller.closed.then(() => order.push("caller")),
    ]);
    passTicks(150);
    await stranger.closed;
    passTicks(250);
    expect(listener.connections.count).toBe(1);
    passTicks(50);
    await bothClosed;
    expect(order).toEqual(["stranger", "caller"]);
  });

  test("is not idle while a call is under way", async () => {
    await listenWith({ halfOpenMs: 100, strangerIdleMs: 100, idleMs: 100 });
    listener.hang();
    const caller = await open(...call(testKey));
    await listener.hanging(1);
    // The caller's limit passes several times.
    passTicks(1_000);
    listener.letGo();
    await whenDone(caller);
    expect(listener.calls).toMatchObject([{ status: 200 }]);
    await listener.answered(1);
    passTicks(150);
    await caller.closed;
  });
});

describe("a request that does not come to its end", () => {
  /** Writes a byte every few milliseconds for as long as the connection lets it. */
  function drip(connection: RawConnection, byte: string | Uint8Array): void {
    const timer = setInterval(() => connection.write(byte), 10);
    void connection.closed.then(() => clearInterval(timer));
  }

  test("is answered 408 and closed on HTTP/1, however its headers drip", async () => {
    await listenWith({ requestMs: 200, halfOpenMs: 3_600_000 });
    const connection = await open("POST /v1/otp/send HTTP/1.1\r\nx-drip: ");
    drip(connection, "x");
    const text = (await connection.closed).toString();
    expect(text).toMatch(/^HTTP\/1\.1 408 /);
    expect(text).toMatch(/cache-control: no-store/);
  });

  test("is answered 408 on an HTTP/1 connection that was served before", async () => {
    await listenWith({ requestMs: 200 });
    const connection = await open(callText(testKey));
    await whenAnswered(connection);
    connection.write("POST /v1/otp/send HTTP/1.1\r\nx-drip: ");
    drip(connection, "x");
    expect(answersIn(await connection.closed)[1]).toMatch(/^HTTP\/1\.1 408 /);
  });

  test("is answered 504 as DEADLINE when its HTTP/1 body drips, and closed", async () => {
    await listenWith({ requestMs: 2_000 }, { deadlineMs: 100 });
    const connection = await open(callText(testKey).replace(/content-length: \d+/, "content-length: 5000"));
    drip(connection, " ");
    const text = (await connection.closed).toString();
    expect(text).toMatch(/^HTTP\/1\.1 504 /);
    expect(text).toContain('"reason":"DEADLINE"');
    expect(listener.calls).toHaveLength(1);
  });

  test("is answered 504 as DEADLINE when its HTTP/2 body drips, and its stream closed", async () => {
    await listenWith({}, { deadlineMs: 100 });
    const headers = callHeaders(listener.port, { authorization: `Bearer ${testKey}` });
    const connection = await open(...hello, frame(frameType.headers, flag.endHeaders, 1, headers));
    drip(connection, frame(frameType.data, 0, 1, Buffer.from(" ")));
    const frames = await connection.until((bytes) => {
      const all = framesIn(bytes);
      return all.some(({ type }) => type === frameType.reset) ? all : undefined;
    });
    const reset = frames.find(({ type }) => type === frameType.reset);
    expect(reset).toMatchObject({ stream: 1, payload: Buffer.from([0, 0, 0, constants.NGHTTP2_NO_ERROR]) });
    const body = Buffer.concat(frames.filter((f) => f.type === frameType.data).map((f) => f.payload));
    expect(JSON.parse(body.toString())).toMatchObject({ code: "deadline_exceeded" });
    expect(listener.calls).toMatchObject([{ status: 504 }]);
  });

  test("is forgotten at once when the client takes it back", async () => {
    await listenWith({}, { callsMax: 1 });
    const headers = callHeaders(listener.port, { authorization: `Bearer ${testKey}` });
    const cancel = Buffer.from([0, 0, 0, constants.NGHTTP2_CANCEL]);
    const connection = await open(...hello);
    for (const stream of [1, 3, 5]) {
      connection.write(
        frame(frameType.headers, flag.endHeaders, stream, headers),
        frame(frameType.reset, 0, stream, cancel),
        frame(frameType.ping, 0, 0, Buffer.alloc(8, stream)),
      );
      await connection.until((bytes) =>
        framesIn(bytes).find((f) => f.type === frameType.ping && f.payload[0] === stream),
      );
    }
    connection.write(callFrames(listener.port, 7, testKey));
    await whenStreamEnds(connection, 7);
    expect(listener.calls).toMatchObject([{ status: 200 }]);
  });
});

describe("a client that does not take its answers", () => {
  beforeEach(releaseTicks);

  test("is cut on HTTP/1", async () => {
    await listenWith({ callMs: 300 });
    const connection = await open();
    await listener.open(1);
    connection.socket.pause();
    // Many small requests with answers ten times their size, so that the buffers between the two fill up soon.
    const many = "GET / HTTP/1.1\r\nhost: otpd\r\n\r\n".repeat(500);
    const more = () => {
      while (!connection.socket.destroyed && connection.socket.write(many));
    };
    connection.socket.on("drain", more);
    more();
    await listener.open(0);
    expect(listener.connections.count).toBe(0);
  });

  test("is cut on HTTP/2 stream by stream when its window is shut", async () => {
    await listenWith({ callMs: 200 });
    const connection = await open(preface, settings([4, 0]), callFrames(listener.port, 1, testKey));
    const frames = await connection.until((bytes) => {
      const all = framesIn(bytes);
      return all.some(({ type }) => type === frameType.reset) ? all : undefined;
    });
    expect(frames.filter(({ type }) => type === frameType.data)).toEqual([]);
    expect(listener.calls).toMatchObject([{ status: 200 }]);
  });

  test("is cut on HTTP/2 when it stops to read", async () => {
    // A few hundred answers of this size fill whatever the system keeps between the two.
    const value = { type: "text/plain", body: "x".repeat(60_000) };
    const large: Page = { methods: ["GET"], answer: async () => ({ ok: true, value }) };
    // It is idle where the last answers are handed over whole: what it asks then is not read, as long as they are not taken.
    await listenWith({ callMs: 300, idleMs: 1_000 }, { pageOf: () => large });
    // A window for the whole connection that is far larger than the buffers between the two.
    const connection = await open(...hello, frame(frameType.windowUpdate, 0, 0, Buffer.from([0x3f, 0, 0, 0])));
    // Of a stranger hardly any request would be answered that leaves its answers where they are.
    connection.write(callFrames(listener.port, 1, testKey));
    await whenStreamEnds(connection, 1);
    connection.socket.pause();
    const asked = headerBlock({ ":method": "GET", ":scheme": "http", ":path": "/large", ":authority": "otpd" });
    const isOpen = listener.open(0).then(() => false);
    let sent = 1;
    do {
      const next = Array.from({ length: 10 }, (_, i) =>
        frame(1, flag.endHeaders | flag.endStream, 2 * (sent + i) + 1, asked),
      );
      connection.write(...next);
      sent += next.length;
    } while (await Promise.race([isOpen, listener.answered(sent).then(() => true)]));
    expect(sent).toBeGreaterThan(11);
  });
});

describe("a connection past its age", () => {
  const limits = { maxAgeMs: 200 };

  test("is told to go on HTTP/2, finishes its calls, takes what is on its way, and closes", async () => {
    await listenWith(limits);
    listener.hang();
    const connection = await open(...hello, callFrames(listener.port, 1, testKey));
    await listener.hanging(1);
    passTicks(limits.maxAgeMs);
    const goaways = (bytes: Buffer) => framesIn(bytes).filter(({ type }) => type === frameType.goaway);
    await connection.until((bytes) => goaways(bytes)[0]);
    connection.write(callFrames(listener.port, 3, testKey));
    await listener.hanging(2);
    listener.letGo();
    await whenStreamEnds(connection, 1);
    await whenStreamEnds(connection, 3);
    const all = await connection.closed;
    const notices = goaways(all).map(({ payload }) => [payload.readUInt32BE(0), payload.readUInt32BE(4)]);
    expect(notices[0]).toEqual([2 ** 31 - 1, constants.NGHTTP2_NO_ERROR]);
    expect(notices.slice(1)).toContainEqual([3, constants.NGHTTP2_NO_ERROR]);
    expect(listener.calls).toMatchObject([{ status: 200 }, { status: 200 }]);
  });

  test("is told to go on HTTP/1 with the answer it waits for", async () => {
    await listenWith(limits);
    listener.hang();
    const caller = await open(callText(testKey));
    await listener.hanging(1);
    passTicks(limits.maxAgeMs);
    listener.letGo();
    const answer = (await caller.closed).toString();
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(answer).toMatch(/connection: close/i);
  });

  test("is told to go on HTTP/1 with its next answer", async () => {
    await listenWith(limits);
    const caller = await open(callText(testKey));
    expect((await whenAnswered(caller))[0]).not.toMatch(/connection: close/i);
    passTicks(limits.maxAgeMs);
    caller.write(callText(testKey));
    expect(answersIn(await caller.closed)[1]).toMatch(/^HTTP\/1\.1 200 [^]*connection: close/i);
  });

  test("stays for ever when there is no age", async () => {
    await listenWith({});
    const caller = await open(...hello, callFrames(listener.port, 1, testKey));
    await whenStreamEnds(caller, 1);
    passTicks(60_000);
    caller.write(callFrames(listener.port, 3, testKey));
    const frames = await whenStreamEnds(caller, 3);
    expect(frames.filter(({ type }) => type === frameType.goaway)).toEqual([]);
  });
});

describe("connections at once", () => {
  test("are not taken beyond the limit, and are again once one has left", async () => {
    await listenWith({ connectionsMax: 2 });
    const [first, second] = [await open(callText(testKey)), await open(callText(testKey))];
    await Promise.all([whenAnswered(first), whenAnswered(second)]);
    const third = await open(callText(testKey));
    expect((await third.closed).length).toBe(0);
    first.destroy();
    await listener.open(1);
    const fourth = await open(callText(testKey));
    expect((await whenAnswered(fourth))[0]).toMatch(/^HTTP\/1\.1 200 /);
    second.write(callText(testKey));
    expect(await whenAnswered(second, 2)).toHaveLength(2);
  });

  test("are limited on HTTP/2 to 100 streams", async () => {
    await listenWith({});
    listener.hang();
    const session = connect(listener.url);
    await once(session, "remoteSettings");
    const headers = { ":method": "POST", ":path": "/v1/otp/send", "content-type": "application/json" };
    const streams = Array.from({ length: 150 }, () => {
      const stream = session.request({ ...headers, authorization: `Bearer ${testKey}` });
      stream.resume().end('{"phone":"+31612345678"}');
      return once(stream, "response");
    });
    await listener.hanging(100);
    listener.letGo();
    const answers = await Promise.all(streams);
    expect(new Set(answers.map(([head]) => (head as Record<string, number>)[":status"]))).toEqual(new Set([200]));
    session.close();
  });
});
