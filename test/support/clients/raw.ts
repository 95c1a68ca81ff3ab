/**
 * Bytes on a socket, made by hand: what no client library would send, and what one would hide. HTTP/2 frames as RFC 9113
 * defines them, with header blocks that never touch the compression table.
 */
import { connect, type Socket } from "node:net";

export const frameType = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const flag = { ack: 1, endStream: 1, endHeaders: 4 } as const;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** A connection whose every byte the test decides. Errors end it, and are not thrown. */
export interface RawConnection {
  readonly socket: Socket;
  write(...parts: (string | Uint8Array)[]): void;
  /** All that has come so far, as latin1. */
  text(): string;
  /** Resolves with what `pick` first returns other than undefined; rejects when the connection ends without it. */
  until<T>(pick: (bytes: Buffer) => T | undefined): Promise<T>;
  /** Resolves with all that came once the other side has closed, whatever way. */
  readonly closed: Promise<Buffer>;
  destroy(): void;
}

/** Opens a connection to 127.0.0.1, by any address of this machine's own, such as 127.0.0.2. */
export async function openRaw(port: number, secured?: Socket, from?: string): Promise<RawConnection> {
  const socket = secured ?? connect({ port, host: "127.0.0.1", localAddress: from });
  let bytes: Buffer = Buffer.alloc(0);
  let ended = false;
  const waiters = new Set<() => void>();
  const changed = () => {
    for (const check of waiters) check();
  };
  const { promise: closed, resolve } = Promise.withResolvers<Buffer>();
  socket.on("data", (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk]);
    changed();
  });
  const onEnd = () => {
    ended = true;
    changed();
    resolve(bytes);
    socket.destroy();
  };
  socket.on("end", onEnd).on("close", onEnd).on("error", onEnd);
  if (secured === undefined)
    await new Promise<void>((done) => socket.once("connect", done).once("close", () => done()));
  return {
    socket,
    write(...parts) {
      if (!socket.destroyed) socket.write(Buffer.concat(parts.map((part) => Buffer.from(part as string, "latin1"))));
    },
    text: () => bytes.toString("latin1"),
    until(pick) {
      return new Promise((done, fail) => {
        const check = () => {
          const picked = pick(bytes);
          if (picked === undefined && !ended) return;
          waiters.delete(check);
          if (picked === undefined)
            fail(new Error(`the connection ended after ${JSON.stringify(bytes.toString("latin1"))}`));
          else done(picked);
        };
        waiters.add(check);
        check();
      });
    },
    closed,
    destroy: () => socket.destroy(),
  };
}

// ---- HTTP/2 ---------------------------------------------------------------------------------------------------------

export const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

export function frame(type: number, flags: number, stream: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A SETTINGS frame of pairs such as `[4, 0]` for an initial window of nothing. */
export function settings(...pairs: (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(pairs.length * 6);
  for (const [at, [id, value]] of pairs.entries()) {
    payload.writeUInt16BE(id, at * 6);
    payload.writeUInt32BE(value, at * 6 + 2);
  }
  return frame(frameType.settings, 0, 0, payload);
}

/** A header block of literals (RFC 7541, 6.2.2), names and values below 16 KiB. */
export function headerBlock(headers: Record<string, string>): Buffer {
  const text = (value: string) => {
    const bytes = Buffer.from(value, "latin1");
    return Buffer.concat([hpackInteger(bytes.length, 7), bytes]);
  };
  return Buffer.concat(Object.entries(headers).flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]));
}

function hpackInteger(value: number, bits: number): Buffer {
  const most = (1 << bits) - 1;
  if (value < most) return Buffer.from([value]);
  const bytes = [most];
  for (let rest = value - most; ; rest >>= 7) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest & 127) | 128);
  }
}

/** The whole frames within what has come. */
export function framesIn(bytes: Buffer): Frame[] {
  const frames: Frame[] = [];
  for (let at = 0; at + 9 <= bytes.length;) {
    const length = bytes.readUIntBE(at, 3);
    if (at + 9 + length > bytes.length) break;
    frames.push({
      type: bytes.readUInt8(at + 3),
      flags: bytes.readUInt8(at + 4),
      stream: bytes.readUInt32BE(at + 5) & 0x7fffffff,
      payload: bytes.subarray(at + 9, at + 9 + length),
    });
    at += 9 + length;
  }
  return frames;
}

/** The headers of a call by Connect JSON. */
export function callHeaders(port: number, more: Record<string, string> = {}): Buffer {
  return headerBlock({
    ":method": "POST",
    ":scheme": "http",
    ":path": "/otp.v1.OtpService/SendOtp",
    ":authority": `127.0.0.1:${port}`,
    "content-type": "application/json",
    ...more,
  });
}

/** A whole call by Connect JSON on a stream. */
export function callFrames(port: number, stream: number, key: string, body = '{"phone":"+31612345678"}'): Buffer {
  return Buffer.concat([
    frame(frameType.headers, flag.endHeaders, stream, callHeaders(port, { authorization: `Bearer ${key}` })),
    frame(frameType.data, flag.endStream, stream, Buffer.from(body)),
  ]);
}

/** The same call as text on HTTP/1.1. */
export function callText(key: string, body = '{"phone":"+31612345678"}'): string {
  return `POST /v1/otp/send HTTP/1.1\r\nhost: otpd\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}
