/**
 * Strangers by the hundred, from any address of this machine, and what they keep a connection busy with.
 */
import { flag, frame, frameType, headerBlock, openRaw, preface, settings, type RawConnection } from "./raw.ts";

/** Opens connections from one address, such as 127.0.0.2, each of which writes the same. */
export async function hold(
  port: number,
  from: string,
  count: number,
  ...first: readonly (string | Uint8Array)[]
): Promise<RawConnection[]> {
  const held = await Promise.all(Array.from({ length: count }, () => openRaw(port, undefined, from)));
  for (const connection of held) connection.write(...first);
  return held;
}

/** Resolves once each was told something. */
export async function whenAnswered(connections: readonly RawConnection[]): Promise<void> {
  await Promise.all(connections.map((each) => each.until((bytes) => (bytes.length > 0 ? true : undefined))));
}

/** An HTTP/1 request of its own. */
export const livezText = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";

export const hello: readonly (string | Uint8Array)[] = [preface, settings()];

/** The headers of a request on stream 1, with or without an end. */
export function headersFrame(method: string, path: string, type: string, isEnd = false): Buffer {
  const fields = { ":method": method, ":scheme": "http", ":path": path, ":authority": "otpd", "content-type": type };
  return frame(frameType.headers, flag.endHeaders | (isEnd ? flag.endStream : 0), 1, headerBlock(fields));
}

/** A whole gRPC health watch on stream 1. */
export const watchFrames: Buffer = Buffer.concat([
  headersFrame("POST", "/grpc.health.v1.Health/Watch", "application/grpc"),
  frame(frameType.data, flag.endStream, 1, Buffer.alloc(5)),
]);
