/**
 * Clients in cleartext who come and leave before the real process gets to read from them: it sees that they have, and has none of them
 * open when it answers who came after them.
 */
import { once } from "node:events";
import { readdirSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { flag, frame, framesIn, frameType, headerBlock, openRaw, preface, settings } from "../support/clients/raw.ts";
import { startOtpd, type Otpd } from "../support/processes/process.ts";
import { temporaryFolder } from "../support/service/world.ts";

/** As many as the system keeps for a listener, less some: all wait at once when the process goes on. */
const leavers = 2_500;
/** Without a look ahead of their turns 1,800 and more. */
const openMax = 100;

const folder = temporaryFolder();
let otpd: Otpd;
let port: number;
beforeAll(async () => {
  otpd = await startOtpd(folder);
  port = Number(new URL(otpd.url).port);
});
afterAll(async () => {
  await otpd.end();
  rmSync(folder, { recursive: true, force: true });
});

const asking = "GET /nowhere HTTP/1.1\r\nhost: otpd\r\n\r\n";
const open = () => readdirSync(`/proc/${otpd.process.pid}/fd`).length;

async function comeAndLeave(text: string, leave: (socket: Socket) => void, from: string): Promise<void> {
  const socket = connect({ port, host: "127.0.0.1", localAddress: from });
  await once(socket, "connect");
  socket.write(text, () => leave(socket));
  await once(socket, "close");
}

/** Has so many come and leave while the process stands still. */
async function standStillFor(text: string, leave: (socket: Socket) => void, from: (i: number) => string) {
  otpd.process.kill("SIGSTOP");
  let next = 0;
  const some = async () => {
    while (next < leavers) await comeAndLeave(text, leave, from(next++));
  };
  await Promise.all(Array.from({ length: 50 }, some));
}

const reset = (socket: Socket) => void socket.resetAndDestroy();
const end = (socket: Socket) => void socket.destroy();
const one = () => "127.0.0.3";
const many = (i: number) => `127.1.${i >> 8}.${i & 255}`;

// First: the log has ten such lines a second.
test("what those asked who were reset is not done: nobody's address would count for it", async () => {
  otpd.process.kill("SIGSTOP");
  for (let i = 0; i < 20; i += 1) await comeAndLeave(asking.replace("nowhere", "gone"), reset, one());
  const caller = await openRaw(port, undefined, "127.0.0.2");
  caller.write(asking.replace("nowhere", "here"));
  otpd.process.kill("SIGCONT");
  await otpd.waitFor(/"path":"\/here"/, "errors");
  expect(otpd.errors()).not.toContain('"path":"/gone"');
  caller.destroy();
});

test.each([
  ["who asked, and were reset", asking.repeat(3), reset, one],
  ["of many addresses who asked, and were reset", asking.repeat(3), reset, many],
  ["who were reset without a word", "", reset, one],
  ["who ended without a word", "", end, one],
  ["who asked, and ended, but for a few", asking.repeat(3), end, one],
])("those %s are gone when who came behind them is answered", async (_, text, leave, from) => {
  const before = open();
  await standStillFor(text, leave, from);
  const caller = await openRaw(port, undefined, "127.0.0.2");
  caller.write(asking);
  otpd.process.kill("SIGCONT");
  await caller.until((bytes) => (bytes.includes("ROUTE_NOT_FOUND") ? true : undefined));
  expect(open() - before).toBeLessThan(openMax);
  caller.destroy();
});

const request = headerBlock({ ":method": "GET", ":scheme": "http", ":path": "/nowhere", ":authority": "otpd" });
const asked: [name: string, text: string, isAnswered: (bytes: Buffer) => boolean][] = [
  ["HTTP/1", asking.repeat(3), (bytes) => bytes.toString("latin1").split("HTTP/1.1 404 ").length === 4],
  ["half a head of HTTP/1", asking.slice(0, -2), (bytes) => bytes.toString("latin1").startsWith("HTTP/1.1 400")],
  [
    "HTTP/2",
    Buffer.concat([
      Buffer.from(preface),
      settings(),
      frame(frameType.headers, flag.endHeaders | flag.endStream, 1, request),
    ]).toString("latin1"),
    (bytes) => framesIn(bytes).some(({ type, flags, stream }) => stream === 1 && type <= 1 && flags & flag.endStream),
  ],
];

test.each(asked)("who ended his side behind what he asked for by %s is answered", async (_, text, isAnswered) => {
  await standStillFor("", end, one);
  const caller = await openRaw(
    port,
    connect({ port, host: "127.0.0.1", localAddress: "127.0.0.2", allowHalfOpen: true }),
  );
  caller.socket.end(text, "latin1");
  await once(caller.socket, "finish");
  otpd.process.kill("SIGCONT");
  const bytes = await caller.closed;
  expect(isAnswered(bytes), bytes.toString("latin1")).toBe(true);
});
