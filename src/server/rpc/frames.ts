/**
 * How a message is wrapped on its way here: in the frames of gRPC and gRPC-web, in base64, in gzip. Each fault has the code
 * that its protocol gives it; a body is whole, so it is judged at once and before anything of it is decoded.
 */
import type { UniversalServerResponse } from "@connectrpc/connect/protocol";
import type { IncomingHttpHeaders } from "node:http";
import { gunzipSync } from "node:zlib";
import { invalid, ok, refuse, type Refusal, type Result, type StatusCode } from "../../otp/reason.ts";
import type { Sendable } from "../http/response.ts";
import { encodingOf, isGrpc, type Surface } from "../http/headers.ts";

/** What a gRPC frame adds to its message: a flag and a length. */
export const envelopeBytes = 5;
const isCompressed = 1;

/** An encoding that is not served, whatever message it is of. */
export const unknownEncoding: Refusal = {
  reason: "MEDIA_TYPE_UNSUPPORTED",
  code: "UNIMPLEMENTED",
  message: "The compression is not served here. Use gzip, or none.",
};

/** Takes the one message of a unary call out of what it is wrapped in. `bytesMax` is the most that it may have. Pure. */
export function unwrap(
  surface: Surface,
  headers: IncomingHttpHeaders,
  body: Uint8Array,
  bytesMax: number,
): Result<Uint8Array> {
  const isGzip = encodingOf(surface, headers) === "gzip";
  if (!isGrpc(surface)) return isGzip ? inflate(body, bytesMax) : ok(body);

  let message: Uint8Array | undefined;
  for (let at = 0; at < body.length;) {
    if (at + envelopeBytes > body.length) return fault("A frame is cut short.");
    const view = new DataView(body.buffer, body.byteOffset + at, envelopeBytes);
    const length = view.getUint32(1);
    if (length > bytesMax) return refuse("BODY_TOO_LARGE");
    const end = at + envelopeBytes + length;
    if (end > body.length) return fault("A frame is cut short.");
    const flags = view.getUint8(0);
    // gRPC-web's frame of trailers is for answers.
    if ((flags & ~isCompressed) !== 0) return fault("A frame has a flag that gRPC has not.", "INTERNAL");
    const flagged = (flags & isCompressed) !== 0;
    if (flagged && !isGzip)
      return fault("A frame says that it is compressed, and the call names no encoding.", "INTERNAL");
    if (message !== undefined) return fault("The call has several messages: it takes one.", "UNIMPLEMENTED");
    const held = body.subarray(at + envelopeBytes, end);
    const inflated: Result<Uint8Array> = flagged ? inflate(held, bytesMax) : ok(held);
    if (!inflated.ok) return inflated;
    message = inflated.value;
    at = end;
  }
  return message === undefined ? fault("The call has no message: it takes one.", "UNIMPLEMENTED") : ok(message);
}

function fault(message: string, code?: StatusCode): Result<never> {
  return code === undefined ? invalid(undefined, message) : refuse("INVALID_REQUEST", { code, message });
}

function inflate(bytes: Uint8Array, bytesMax: number): Result<Uint8Array> {
  if (bytes.length === 0) return ok(bytes);
  try {
    return ok(gunzipSync(bytes, { maxOutputLength: bytesMax }));
  } catch (error) {
    return error instanceof RangeError ? refuse("BODY_TOO_LARGE") : fault("The message is not in gzip, as it says.");
  }
}

/** A frame of its own. */
export function frameOf(flag: number, message: Uint8Array): Uint8Array {
  const head = Buffer.alloc(envelopeBytes);
  head.writeUInt8(flag);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

const empty = { json: Buffer.from("{}"), binary: Buffer.alloc(0) };
const emptyFrames = { json: frameOf(0, empty.json), binary: frameOf(0, empty.binary) };

/** The body of an empty message, uncompressed. */
export function emptyBody(surface: Surface, type: string): Uint8Array {
  return (isGrpc(surface) ? emptyFrames : empty)[type.endsWith("json") ? "json" : "binary"];
}

/** How many bytes of base64 hold so many: a client may pad each of its pieces. */
export function textBytes(bytes: number): number {
  return Math.ceil(bytes / 3) * 4 + paddedPieces * 4;
}
const paddedPieces = 16;

/** Reads gRPC-web's text: base64, in pieces of which each may end in padding. Undefined for anything else. Pure. */
export function fromText(body: Uint8Array): Uint8Array | undefined {
  const text = Buffer.from(body.buffer, body.byteOffset, body.length).toString("latin1");
  if (!/^(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)*$/.test(text)) return undefined;
  return Buffer.concat(text.split(/(?<==)(?!=)/).map((piece) => Buffer.from(piece, "base64")));
}

/** What stands for a text that is no base64: half a frame. */
export const notText = Buffer.of(0);

const textType = "application/grpc-web-text+proto";

/** An answer of gRPC-web as text. */
export function asText({ headers, body, ...rest }: Sendable): Sendable {
  return { ...rest, headers: { ...headers, "content-type": textType }, body: toText(body) };
}

/** The same for one that comes piece by piece: each is padded by itself. */
export function streamedAsText({ header, body, ...rest }: UniversalServerResponse): UniversalServerResponse {
  const headers = new Headers(header);
  headers.set("content-type", textType);
  async function* pieces() {
    for await (const chunk of body ?? []) yield Buffer.from(toText(chunk));
  }
  return { ...rest, header: headers, body: pieces() };
}

function toText(bytes: string | Uint8Array): string {
  return Buffer.from(bytes as Uint8Array).toString("base64");
}
