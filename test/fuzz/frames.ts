/**
 * HTTP/2 as no client speaks it: a valid preface, and then frames of every type in an order that seeded chance picks, some
 * whole and some not, on a connection that is left or broken off at any moment. What is asked of the server is to stay, and to
 * serve whoever comes next. A connection's bytes are made from its seed and its number alone.
 */
import { once } from "node:events";
import { flag, frame, frameType, headerBlock, openRaw, preface, settings } from "../support/clients/raw.ts";
import { Chance } from "../simulation/chance.ts";
import { startTarget } from "./target.ts";

export interface Conversation {
  readonly pieces: readonly Buffer[];
  /** How the client leaves behind the last piece: it waits for an answer first, ends its side, or breaks off. */
  readonly leaves: "after an answer" | "by its end" | "at once";
}

const paths = [
  "/livez",
  "/openapi.json",
  "/nowhere",
  "/v1/otp/send",
  "/otp.v1.OtpService/SendOtp",
  "/grpc.health.v1.Health/Check",
  "/grpc.health.v1.Health/Watch",
  "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
];
const fields: readonly (readonly [name: string, value: string])[] = [
  ["content-type", "application/grpc"],
  ["content-type", "application/json"],
  ["expect", "100-continue"],
  ["expect", "much"],
  ["content-length", "5"],
  ["grpc-timeout", "1n"],
  ["grpc-encoding", "gzip"],
  ["origin", "https://page.example"],
  ["access-control-request-method", "POST"],
  ["te", "trailers"],
  ["connection", "close"],
  [":status", "200"],
];
const windows = [0, 1, 65_535, 0x7fffffff];

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function anyHeaders(chance: Chance): Buffer {
  const given = Array.from({ length: chance.below(4) }, () => chance.pick(fields));
  const block = headerBlock({
    ":method": chance.pick(["GET", "POST", "HEAD", "OPTIONS", "CONNECT"]),
    ":scheme": "http",
    ":path": chance.pick(paths),
    ":authority": "otpd",
    ...Object.fromEntries(given),
  });
  return chance.happens(0.04) ? Buffer.concat([block, chance.bytes(8)]) : block;
}

/** A message of gRPC, or bytes that are none. */
function content(chance: Chance): Buffer {
  return chance.happens(0.5) ? Buffer.alloc(5) : Buffer.from(chance.bytes(chance.below(300)));
}

/** Frames of a request: its headers in one frame or two, and mostly what follows them. */
function request(chance: Chance, stream: number): Buffer[] {
  const end = chance.happens(0.4) ? flag.endStream : 0;
  const block = anyHeaders(chance);
  const cut = chance.happens(0.2) ? chance.below(block.length) : block.length;
  const first = frame(
    frameType.headers,
    end | (cut === block.length ? flag.endHeaders : 0),
    stream,
    block.subarray(0, cut),
  );
  const rest =
    cut === block.length ? [] : [frame(frameType.continuation, flag.endHeaders, stream, block.subarray(cut))];
  const body = chance.happens(0.6)
    ? [frame(frameType.data, chance.pick([0, flag.endStream]), stream, content(chance))]
    : [];
  return [first, ...rest, ...body];
}

function other(chance: Chance, stream: number): Buffer {
  const any = chance.pick([0, stream]);
  return chance.pick([
    () => frame(frameType.data, chance.below(2), stream, content(chance)),
    () => frame(frameType.priority, 0, stream, chance.bytes(5)),
    () => frame(frameType.reset, 0, stream, uint32(chance.below(14))),
    () => settings([chance.below(9), chance.pick(windows)]),
    () => frame(frameType.ping, 0, 0, Buffer.alloc(chance.happens(0.95) ? 8 : 7)),
    () => frame(frameType.goaway, 0, 0, Buffer.alloc(8)),
    () => frame(frameType.windowUpdate, 0, any, uint32(chance.pick(windows))),
    () => frame(frameType.continuation, flag.endHeaders, stream, anyHeaders(chance)),
    () => frame(chance.below(256), chance.below(256), any, chance.bytes(chance.below(40))),
  ])();
}

/** What a client says on one connection. */
export function makeConversation(chance: Chance): Conversation {
  const said: Buffer[] = [Buffer.from(preface, "latin1"), settings([4, chance.pick(windows)])];
  let next = 1;
  for (let left = 2 + chance.below(30); left > 0; left -= 1) {
    if (next === 1 || chance.happens(0.5)) {
      said.push(...request(chance, next));
      next += 2;
    } else {
      said.push(other(chance, 1 + 2 * chance.below(next / 2)));
    }
  }
  const whole = Buffer.concat(said);
  // Half a preface is no HTTP/2 yet, and would be waited for.
  const upTo = chance.happens(0.3) ? preface.length + chance.below(whole.length - preface.length) : whole.length;
  const cut = chance.below(upTo + 1);
  return {
    pieces: [whole.subarray(0, cut), whole.subarray(cut, upTo)],
    leaves: chance.pick(["after an answer", "after an answer", "by its end", "at once"] as const),
  };
}

/** Says it to a server, and leaves. */
export async function say({ pieces, leaves }: Conversation, port: number): Promise<void> {
  const connection = await openRaw(port);
  const { socket, closed } = connection;
  const answered = once(socket, "data").catch(() => {});
  for (const piece of pieces) {
    connection.write(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (leaves === "after an answer") await Promise.race([answered, closed]);
  if (leaves === "by its end") await new Promise<void>((resolve) => socket.end(resolve));
  else socket.resetAndDestroy();
  // After a GOAWAY of the client's the server may take until its bound on calls to end its own side.
  socket.destroy();
  await closed;
}

/** Connections at once. */
const lanes = 16;
const probeEvery = 100;

export interface FramesFired {
  readonly faults: readonly string[];
  /** Honest calls between them that were answered. */
  readonly served: number;
  readonly exitCode: number | null;
}

/** Has so many conversations of a seed with a server of its own, and an honest call behind every hundredth. */
export async function fireFrames(seed: number, count: number): Promise<FramesFired> {
  const target = await startTarget();
  let next = 0;
  let served = 0;
  async function lane(): Promise<void> {
    while (next < count && target.isAlive()) {
      const number = next++;
      await say(makeConversation(new Chance(seed * 1_000_003 + number)), target.port);
      if (number % probeEvery !== probeEvery - 1) continue;
      const headers = { authorization: `Bearer ${target.key}` };
      const answer = await fetch(`${target.url}/v1/otp/${"A".repeat(22)}`, { headers });
      if (answer.status === 404) served += 1;
    }
  }
  let exitCode: number | null = null;
  try {
    await Promise.all(Array.from({ length: lanes }, lane));
  } finally {
    exitCode = await target.end();
  }
  return { faults: target.faults, served, exitCode };
}
