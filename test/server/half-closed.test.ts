/** A client may end its side of a connection together with its request: the answer comes, and then the end of ours. */
import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { afterEach, describe, expect, test } from "vitest";
import type { Page } from "../../src/server/pages/pages.ts";
import {
  callFrames,
  callText,
  flag,
  framesIn,
  frameType,
  openRaw,
  type RawConnection,
} from "../support/clients/raw.ts";
import { hello, livezText, watchFrames, whenAnswered } from "../support/clients/strangers.ts";
import { lacks } from "../support/machine.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { startListener, testKey, type Listener, type ListenerOptions } from "../support/service/listener.ts";

let listener: Listener;
let opened: Socket | undefined;
afterEach(async () => {
  opened?.destroy();
  await listener.stop(0);
});

const page: Page = {
  methods: ["GET"],
  answer: async () => ({ ok: true, value: { type: "text/plain", body: "page" } }),
};
const call = callText(testKey);

type Way = readonly [name: string, version: "TLSv1.2" | "TLSv1.3" | undefined];
const overTls: readonly Way[] = [
  ["TLS 1.2", "TLSv1.2"],
  ["TLS 1.3", "TLSv1.3"],
];
const ways: readonly Way[] = [["cleartext", undefined], ...(lacks("half-closed TLS", "openssl") ? [] : overTls)];

describe.each(ways)("over %s", (_, version) => {
  async function listen(limits: ListenerOptions["limits"] = {}): Promise<void> {
    const certificate = version && makeCertificate("half-closed");
    listener = await startListener({
      limits,
      pageOf: (path) => (path === "/livez" ? page : undefined),
      ...(certificate && { readCertificate: () => certificate }),
    });
  }

  /** What the client ends is its own side alone; what it has sent by then goes out as one piece. */
  async function open(protocol = "http/1.1"): Promise<RawConnection & { end(text: string): void }> {
    const below = connectTcp({ port: listener.port, host: "127.0.0.1", allowHalfOpen: true });
    opened = below;
    await once(below, "connect");
    if (version === undefined)
      return { ...(await openRaw(listener.port, below)), end: (text) => below.end(text, "latin1") };
    const options = { minVersion: version, maxVersion: version, ALPNProtocols: [protocol], rejectUnauthorized: false };
    const socket = connectTls({ socket: below, ...options });
    await once(socket, "secureConnect");
    const end = (text: string) => {
      below.cork();
      socket.end(text, "latin1", () => below.uncork());
    };
    return { ...(await openRaw(listener.port, socket)), end };
  }

  const statuses = (bytes: Buffer) => bytes.toString("latin1").match(/(?<=HTTP\/1\.1 )\d+/g) ?? [];

  test.each([
    ["a page", livezText, ["200"]],
    ["what is not there", "GET /nowhere HTTP/1.1\r\nhost: otpd\r\n\r\n", ["404"]],
    ["a call", call, ["200"]],
    ["a call over HTTP/1.0", call.replace("HTTP/1.1", "HTTP/1.0"), ["200"]],
    ["20 requests", livezText.repeat(20), Array.from({ length: 20 }, () => "200")],
    ["half a head", livezText.slice(0, -2), ["400"]],
    ["half a body", call.slice(0, -2), ["400"]],
  ])("%s is answered, and nothing stays open", async (_name, text, expected) => {
    await listen();
    const connection = await open();
    connection.end(text);
    expect(statuses(await connection.closed)).toEqual(expected);
    await listener.open(0);
  });

  test("an answer that takes its time comes too", async () => {
    await listen({ endedMs: 600_000 });
    listener.hang();
    const connection = await open();
    connection.end(call);
    await listener.hanging(1);
    listener.letGo();
    expect(statuses(await connection.closed)).toEqual(["200"]);
    await listener.open(0);
  });

  test("one that takes longer than any answer may is cut", async () => {
    await listen({ callMs: 200 });
    listener.hang();
    const connection = await open();
    connection.end(call);
    expect(statuses(await connection.closed)).toEqual([]);
    await listener.open(0);
  });

  test("a health watch ends with its client's side", async () => {
    await listen();
    const connection = await open();
    const head =
      "POST /grpc.health.v1.Health/Watch HTTP/1.1\r\nhost: otpd\r\ncontent-type: application/grpc-web+proto\r\n";
    connection.socket.write(`${head}content-length: 5\r\n\r\n\0\0\0\0\0`);
    await connection.until((bytes) => (bytes.includes("HTTP/1.1 200") ? true : undefined));
    connection.end("");
    await connection.closed;
    await listener.open(0);
    expect(listener.connections.count).toBe(0);
  });

  const endOnHttp2 = async (...parts: Uint8Array[]) => {
    const connection = await open("h2");
    connection.write(...hello);
    await whenAnswered([connection]);
    connection.end(Buffer.concat(parts).toString("latin1"));
    return connection;
  };
  const streamOne = (bytes: Buffer) => framesIn(bytes).filter(({ stream }) => stream === 1);

  test("one that takes longer than the client is waited for is given up", async () => {
    await listen({ endedMs: 0 });
    listener.hang();
    const connection = await open();
    connection.end(call);
    expect(statuses(await connection.closed)).toEqual([]);
    await listener.answered(1);
    await listener.open(0);
  });

  test("what was asked over HTTP/2 is answered", async () => {
    await listen({ endedMs: 600_000 });
    listener.hang();
    const connection = await endOnHttp2(callFrames(listener.port, 1, testKey));
    await listener.hanging(1);
    listener.letGo();
    const frames = streamOne(await connection.closed);
    expect(frames[0]?.type).toBe(frameType.headers);
    expect(frames.at(-1)).toMatchObject({ type: frameType.data, flags: flag.endStream });
    await listener.open(0);
  });

  test.each([
    ["without a call", Buffer.alloc(0)],
    ["with a health watch", watchFrames],
  ])("HTTP/2 %s ends with its client's side", async (_name, frames) => {
    await listen();
    const connection = await endOnHttp2(frames);
    await connection.closed;
    await listener.open(0);
    expect(listener.connections.count).toBe(0);
  });
});
