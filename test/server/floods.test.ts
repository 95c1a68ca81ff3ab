/**
 * Floods, against the real process: each ends the attacker's connection and nothing else. An honest caller is answered
 * all the while, and memory stays where it was.
 */
import { rmSync } from "node:fs";
import { constants } from "node:http2";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { firstKey, residentMiB, startOtpd, type Otpd } from "../support/processes/process.ts";
import {
  callHeaders,
  flag,
  frame,
  frameType,
  headerBlock,
  openRaw,
  preface,
  settings,
} from "../support/clients/raw.ts";
import { temporaryFolder } from "../support/service/world.ts";

const folder = temporaryFolder();
let otpd: Otpd;
let key: string;
let restingMiB: number;
beforeAll(async () => {
  // The honest caller asks as fast as it is answered.
  otpd = await startOtpd(folder, { OTP_KEY_LIMIT: "none" });
  key = await firstKey(otpd);
  // Its heap has come to its size by then: with 200 calls it grows by some 10 MiB yet.
  for (let i = 0; i < 2_000; i += 1) await probe();
  restingMiB = residentMiB(otpd.process.pid);
});
afterAll(async () => {
  await otpd.end();
  rmSync(folder, { recursive: true, force: true });
});

/** An honest call, on a connection of its own. */
async function probe(): Promise<void> {
  const answer = await fetch(`${otpd.url}/v1/otp/${"A".repeat(22)}`, { headers: { authorization: `Bearer ${key}` } });
  expect(answer.status).toBe(404);
  expect(await answer.json()).toMatchObject({ reason: "REQUEST_NOT_FOUND" });
}

interface Flood {
  readonly name: string;
  /** What comes before the flood. */
  readonly first: (string | Uint8Array)[];
  /** The flood's next piece; the number counts the pieces before it. */
  readonly next: (piece: number) => Uint8Array;
  /** Whether the attacker reads what it is sent. */
  readonly reads: boolean;
  /** What the flood may come to before it is noticed, if less than the rest. */
  readonly bytesMax?: number;
}

const hello = [preface, settings()];
const times = (count: number, make: (index: number) => Uint8Array) =>
  Buffer.concat(Array.from({ length: count }, (_, i) => make(i)));
/** Client stream ids, of which there are enough for any flood here. */
const streamOf = (n: number) => 2 * n + 1;
const cancel = Buffer.from([0, 0, 0, constants.NGHTTP2_CANCEL]);
const send = callHeaders(1);
const long = "x".repeat(15_000);

const floods: Flood[] = [
  {
    name: "streams opened and reset",
    first: hello,
    next: (piece) =>
      times(100, (i) =>
        Buffer.concat([
          frame(frameType.headers, flag.endHeaders, streamOf(piece * 100 + i), send),
          frame(frameType.reset, 0, streamOf(piece * 100 + i), cancel),
        ]),
      ),
    reads: true,
  },
  {
    name: "10,000 streams that are never ended",
    first: hello,
    next: (piece) => times(100, (i) => frame(frameType.headers, flag.endHeaders, streamOf(piece * 100 + i), send)),
    reads: true,
  },
  {
    name: "SETTINGS",
    first: hello,
    next: () => times(100, () => settings([4, 65_535])),
    reads: true,
    bytesMax: 65_536,
  },
  {
    name: "SETTINGS, unread",
    first: hello,
    next: () => times(100, () => settings([4, 65_535])),
    reads: false,
    bytesMax: 65_536,
  },
  {
    name: "PING",
    first: hello,
    next: () => times(100, () => frame(frameType.ping, 0, 0, Buffer.alloc(8))),
    reads: true,
    bytesMax: 65_536,
  },
  {
    name: "PING, unread",
    first: hello,
    next: () => times(100, () => frame(frameType.ping, 0, 0, Buffer.alloc(8))),
    reads: false,
    bytesMax: 65_536,
  },
  {
    name: "CONTINUATION without end",
    first: [...hello, frame(frameType.headers, 0, 1, send)],
    next: (piece) => frame(frameType.continuation, 0, 1, headerBlock({ [`x-${piece}`]: long })),
    reads: true,
  },
  {
    name: "empty CONTINUATION without end",
    first: [...hello, frame(frameType.headers, 0, 1, send)],
    next: () => times(100, () => frame(frameType.continuation, 0, 1)),
    reads: true,
  },
  {
    name: "header blocks of 128 KiB",
    first: hello,
    next: (piece) =>
      Buffer.concat([
        frame(frameType.headers, 0, streamOf(piece), send),
        times(7, (i) => frame(frameType.continuation, 0, streamOf(piece), headerBlock({ [`x-${i}`]: long }))),
        frame(frameType.continuation, flag.endHeaders, streamOf(piece), headerBlock({ "x-last": long })),
      ]),
    reads: true,
  },
  {
    // One entry in the compression table, and then a byte for each time it is meant again.
    name: "header blocks that unpack to 60 MB",
    first: [
      ...hello,
      frame(
        frameType.headers,
        flag.endHeaders | flag.endStream,
        1,
        Buffer.concat([send, Buffer.from([0x40]), headerBlock({ "x-bomb": "x".repeat(3_900) }).subarray(1)]),
      ),
    ],
    next: (piece) =>
      frame(
        frameType.headers,
        flag.endHeaders | flag.endStream,
        streamOf(piece + 1),
        Buffer.concat([send, Buffer.alloc(15_500, 0x80 | 62)]),
      ),
    reads: true,
  },
  {
    name: "empty DATA",
    first: [...hello, frame(frameType.headers, flag.endHeaders, 1, send)],
    next: () => times(500, () => frame(frameType.data, 0, 1)),
    reads: true,
  },
  {
    name: "WINDOW_UPDATE",
    first: hello,
    next: () => times(500, () => frame(frameType.windowUpdate, 0, 0, Buffer.from([0, 0, 0, 1]))),
    reads: true,
  },
  {
    name: "PRIORITY",
    first: hello,
    next: (piece) =>
      times(500, (i) => frame(frameType.priority, 0, streamOf(piece * 500 + i), Buffer.from([0, 0, 0, 0, 16]))),
    reads: true,
  },
  {
    name: "frames of a type that does not exist",
    first: hello,
    next: () => times(500, () => frame(200, 0, 0)),
    reads: true,
  },
  {
    name: "frames on streams that do not exist",
    first: hello,
    next: () => frame(frameType.data, 0, 99, Buffer.alloc(100)),
    reads: true,
  },
  {
    name: "frames longer than agreed",
    first: hello,
    next: () => frame(frameType.data, 0, 0, Buffer.alloc(65_536)),
    reads: true,
  },
  { name: "bytes that are no frames", first: hello, next: () => Buffer.alloc(4_096, 0xff), reads: true },
  {
    name: "an HTTP/1 header without end",
    first: ["GET / HTTP/1.1\r\nx-bomb: "],
    next: () => Buffer.alloc(4_096, "x"),
    reads: true,
  },
  {
    name: "HTTP/1 headers by the thousand",
    first: ["GET / HTTP/1.1\r\n"],
    next: (piece) => times(100, (i) => Buffer.from(`x-${piece}-${i}: y\r\n`)),
    reads: true,
  },
  { name: "an HTTP/1 request line without end", first: ["GET /"], next: () => Buffer.alloc(4_096, "x"), reads: true },
  {
    name: "empty lines before an HTTP/1 request",
    first: [],
    next: () => Buffer.from("\r\n".repeat(2_048)),
    reads: true,
  },
  {
    name: "an HTTP/1 chunk extension without end",
    first: [
      "POST /v1/otp/send HTTP/1.1\r\nhost: otpd\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n1;",
    ],
    next: () => Buffer.alloc(4_096, "x"),
    reads: true,
  },
];

/** No flood here needs more than this to be noticed. */
const floodBytesMax = 64 * 1_048_576;

test.each(floods)(
  "a flood of $name ends its connection, and nothing else",
  async ({ first, next, reads, bytesMax }) => {
    const attacker = await openRaw(Number(new URL(otpd.url).port));
    if (!reads) attacker.socket.pause();
    let over = false;
    const ended = new Promise<void>((resolve) => attacker.socket.once("close", resolve)).then(() => (over = true));
    attacker.write(...first);
    const flood = async () => {
      for (let piece = 0, bytes = 0; !over && bytes < (bytesMax ?? floodBytesMax); piece += 1) {
        const part = next(piece);
        bytes += part.length;
        if (attacker.socket.write(part)) await nextTurn();
        else await Promise.race([new Promise((resolve) => attacker.socket.once("drain", resolve)), ended]);
      }
      // A socket that neither reads nor writes does not hear of its end.
      attacker.socket.resume();
      await ended;
    };
    const honest = async () => {
      let answered = 0;
      do {
        await probe();
        answered += 1;
      } while (!over);
      return answered;
    };
    const [, answered] = await Promise.all([flood(), honest()]);
    await probe();
    expect(answered).toBeGreaterThan(0);
    expect(residentMiB(otpd.process.pid)).toBeLessThan(restingMiB + 50);
  },
);
