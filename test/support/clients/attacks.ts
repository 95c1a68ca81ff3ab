/**
 * Strangers who have the server hold things: requests without an end, answers that nobody takes, heads half sent. None of
 * them has a key.
 */
import { connect, type Socket } from "node:net";
import { flag, frame, frameType, headerBlock, preface, settings } from "./raw.ts";

export interface Attack {
  readonly name: string;
  /** What each connection sends. */
  readonly bytes: Buffer;
  readonly connections: number;
  /** Whether the attacker reads what it is sent. */
  readonly reads?: boolean;
  /** Whether the server ends each connection: then few are open at once, and nothing of them may stay. */
  readonly isEnded?: boolean;
}

const latin1 = (text: string) => Buffer.from(text, "latin1");
const get = (path: string, more = "") => `GET ${path} HTTP/1.1\r\nhost: otpd\r\n${more}\r\n`;
const stream =
  (path: string, flags: number, more: Record<string, string> = {}) =>
  (_: unknown, i: number) =>
    frame(
      frameType.headers,
      flags,
      2 * i + 1,
      headerBlock({ ":method": "GET", ":scheme": "http", ":path": path, ":authority": "127.0.0.1", ...more }),
    );
const streams = (first: readonly [number, number][], count: number, make: (_: unknown, i: number) => Buffer) =>
  Buffer.concat([latin1(preface), settings(...first), ...Array.from({ length: count }, make)]);
const whole = flag.endHeaders | flag.endStream;
const long = "x".repeat(12_000);
const check = { ":method": "POST", "content-type": "application/grpc" };
const checkPath = "/grpc.health.v1.Health/Check";

/** Requests one after the other, whose answers are never read. */
export const pipelined = (connections: number, path = "/livez"): Attack => ({
  name: `${connections} connections of 5,000 pipelined requests for ${path}, never read`,
  bytes: latin1(get(path).repeat(5_000)),
  connections,
});

/** Streams whose answers have no window. */
export const windowless = (connections: number, path: string): Attack => ({
  name: `${connections} connections of 100 streams for ${path} without a window`,
  bytes: streams([[4, 0]], 100, stream(path, whole)),
  connections,
  reads: true,
});

export const windowlessLong = (connections: number): Attack => ({
  name: `${connections} connections of 50 streams with 12 kB of headers without a window`,
  bytes: streams([[4, 0]], 50, stream("/nowhere", whole, { "x-long": long })),
  connections,
  reads: true,
});

/** Streams with long headers as fast as they are taken, whose answers are taken too. */
export const longHeaders = (connections: number): Attack => ({
  name: `${connections} connections of 3,000 streams with 12 kB of headers`,
  bytes: streams([], 3_000, stream("/livez", whole, { "x-long": long })),
  connections,
  reads: true,
});

/** GETs that never end. */
export const unfinished = (connections: number): Attack => ({
  name: `${connections} connections of 100 GETs without an end`,
  bytes: streams([], 100, stream("/.well-known/jwks.json", flag.endHeaders)),
  connections,
  reads: true,
});

/** Health checks whose message never comes. */
export const unfinishedChecks = (connections: number): Attack => ({
  name: `${connections} connections of 100 health checks without an end`,
  bytes: streams([], 100, stream(checkPath, flag.endHeaders, check)),
  connections,
  reads: true,
});

/** Health checks whose bodies come a byte at a time, and not to their end. */
export const bytewiseChunks = (connections: number): Attack => ({
  name: `${connections} connections of a health check in 900 chunks of a byte, without an end`,
  bytes: latin1(
    `POST ${checkPath} HTTP/1.1\r\nhost: otpd\r\ncontent-type: application/proto\r\ntransfer-encoding: chunked\r\n\r\n${"1\r\nx\r\n".repeat(900)}`,
  ),
  connections,
});

/** The same over HTTP/2, each byte with 32 kB of what means nothing, and a request that pays for it. */
export const bytewisePieces = (connections: number): Attack => {
  const filler = frame(0xfa, 0, 0, Buffer.alloc(16_000));
  const paying = stream("/livez", whole);
  const rounds = Array.from({ length: 400 }, (_, i) => [
    frame(frameType.data, 0, 1, Buffer.from("x")),
    paying(undefined, i + 1),
    filler,
    filler,
  ]);
  return {
    name: `${connections} connections of a health check in 400 pieces of a byte, without an end`,
    bytes: Buffer.concat([streams([], 1, stream(checkPath, flag.endHeaders, check)), ...rounds.flat()]),
    connections,
    reads: true,
  };
};

/** Health watches whose message is of nothing but fields that nobody knows, as many as fit: a watch has it for as long as it lasts. */
export const unknownFields = (connections: number): Attack => {
  const fields = Buffer.from("1000".repeat(2_040), "hex");
  const open = stream("/grpc.health.v1.Health/Watch", flag.endHeaders, check);
  const message = Buffer.concat([Buffer.from([0, 0, 0, fields.length >> 8, fields.length & 0xff]), fields]);
  return {
    name: `${connections} connections of 15 health watches of 2,040 unknown fields`,
    bytes: streams([], 15, (_, i) =>
      Buffer.concat([open(_, i), frame(frameType.data, flag.endStream, 2 * i + 1, message)]),
    ),
    connections,
    reads: true,
  };
};

/** Questions to reflection, as many as each stream may send unread: no answer has a window. Who brings so much is cut. */
export const questions = (connections: number, streamsEach = 64): Attack => {
  const question = Buffer.from([0, 0, 0, 0, 3, 0x3a, 1, 0x2a]);
  const piece = Buffer.alloc(16_376, question);
  const open = stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", flag.endHeaders, check);
  return {
    name: `${connections} connections of questions to reflection, 8,188 on each of ${streamsEach} streams`,
    bytes: streams([[4, 0]], streamsEach, (_, i) =>
      Buffer.concat([open(_, i), ...Array.from({ length: 4 }, () => frame(frameType.data, 0, 2 * i + 1, piece))]),
    ),
    connections,
    reads: true,
    isEnded: true,
  };
};

/** Health checks without an end, of as many short headers as fit. */
export const shortHeaders = (connections: number): Attack => ({
  name: `${connections} connections of a health check of 700 short headers, without an end`,
  bytes: latin1(
    `POST ${checkPath} HTTP/1.1\r\nhost: otpd\r\ncontent-type: application/proto\r\ncontent-length: 5\r\n${Array.from({ length: 700 }, (_, i) => `x${i.toString(36)}:\r\n`).join("")}\r\n`,
  ),
  connections,
});

export const halfHeads = (connections: number): Attack => ({
  name: `${connections} connections of half a head`,
  bytes: latin1(get("/livez", `x-long: ${long}`)),
  connections,
});

/** Sessions that end by an error, and whose client has acknowledged nothing. */
export const errors = (connections: number): Attack => ({
  name: `${connections} connections that end by an error of HTTP/2`,
  bytes: streams([], 1, () => frame(frameType.windowUpdate, 0, 0, Buffer.alloc(4))),
  connections,
  reads: true,
  isEnded: true,
});

export const halfBlocks = (connections: number): Attack => ({
  name: `${connections} connections of half a header block`,
  bytes: streams([], 1, stream("/livez", flag.endStream, { "x-long": long })),
  connections,
});

export const idle = (connections: number, speaks: "nothing" | "HTTP/1" | "HTTP/2"): Attack => ({
  name: `${connections} idle connections that have spoken ${speaks}`,
  bytes:
    speaks === "nothing"
      ? latin1("")
      : speaks === "HTTP/1"
        ? latin1(get("/livez"))
        : streams([], 1, stream("/livez", whole)),
  connections,
  reads: true,
});

/** Makes the attack's connections and sends; resolves once all are open, were refused, or have ended where the server ends them. */
export async function begin(
  { bytes, connections, reads = false, isEnded = false }: Attack,
  port: number,
): Promise<() => void> {
  const sockets: Socket[] = [];
  const open = () =>
    new Promise<void>((resolve) => {
      const socket = connect(port, "127.0.0.1", () => {
        socket.write(bytes);
        if (!isEnded) resolve();
      });
      if (reads) socket.resume();
      else socket.pause();
      // Whoever is cut has had what there was.
      if (isEnded) socket.on("end", () => socket.destroy());
      socket.on("error", () => resolve()).on("close", () => resolve());
      sockets.push(socket);
    });
  const some = async () => {
    while (sockets.length < connections) await open();
  };
  await Promise.all(Array.from({ length: isEnded ? 10 : 50 }, some));
  return () => {
    for (const socket of sockets) socket.destroy();
  };
}
