/**
 * What a request's headers say: how it reached us, how its body is to be read, how long the call may take, and which of
 * them Connect is to see.
 *
 * Only the type of a Content-Type says how a body is to be read. Of its parameters only the charset matters, and there
 * is one; clients write the others as they like, and proxies leave a `;` behind.
 */
import type { Request } from "../listener/exchange.ts";

/** What says how a body is to be read. A GET has none, so there they say nothing. */
const bodyHeaders = new Set(["content-type", "content-encoding", "content-length"]);
/** Names without case, which Connect knows in small letters. */
const codingHeaders = new Set(["content-encoding", "grpc-encoding"]);
const timeoutHeaders = { grpc: "grpc-timeout", connect: "connect-timeout-ms" };
/** What is not as the client meant it by the time that Connect reads it. */
const dropped = new Set([...Object.values(timeoutHeaders), "content-length"]);

/** All that Connect reads of an open RPC's headers, or a watch's. The rest would be held in another copy as long as that lasts. */
const readByConnect = new Set([
  "content-type",
  "content-encoding",
  "connect-protocol-version",
  "connect-content-encoding",
  "grpc-encoding",
]);

type Headed = Pick<Request, "method" | "headers">;

/**
 * Makes the headers: without HTTP/2's pseudo headers, and without a deadline unless Connect is to keep one of at most
 * `deadlineMs`. With one, only what Connect reads is kept.
 */
export function headersOf({ method, headers: given }: Headed, surface: Surface, deadlineMs?: number): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || name.startsWith(":") || dropped.has(name)) continue;
    if (method === "GET" && bodyHeaders.has(name)) continue;
    if (deadlineMs !== undefined && !readByConnect.has(name)) continue;
    if (name === "content-type") headers.set(name, innerType(mediaTypeOf(String(value)).type));
    else if (codingHeaders.has(name)) headers.set(name, String(value).toLowerCase());
    else headers.set(name, Array.isArray(value) ? value.join(", ") : value);
  }
  if (deadlineMs === undefined) return headers;
  const timeoutMs = Math.ceil(timeoutMsOf({ headers: given }, surface, deadlineMs));
  if (isGrpc(surface)) headers.set(timeoutHeaders.grpc, `${timeoutMs}m`);
  else headers.set(timeoutHeaders.connect, `${timeoutMs}`);
  return headers;
}

/** How long a call may take: as long as its headers ask for, at most `maxMs`. A deadline that makes no sense is ignored. */
export function timeoutMsOf({ headers }: Pick<Headed, "headers">, surface: Surface, maxMs: number): number {
  const given = headers[isGrpc(surface) ? timeoutHeaders.grpc : timeoutHeaders.connect];
  if (typeof given !== "string") return maxMs;
  const asked = isGrpc(surface) ? grpcTimeoutMs(given) : /^\d{1,10}$/.test(given) ? Number(given) : undefined;
  return Math.min(asked ?? maxMs, maxMs);
}

/** How messages are compressed: not at all, by gzip, or by something that is not served. */
export type Encoding = "identity" | "gzip" | "unknown";

export function encodingOf(surface: Surface, headers: Headed["headers"]): Encoding {
  const name = isGrpc(surface) ? "grpc-encoding" : "content-encoding";
  const given = String(headers[name] ?? "identity").toLowerCase();
  return given === "identity" || given === "gzip" ? given : "unknown";
}

/** True for the two surfaces whose messages come in frames and whose ends are trailers. */
export function isGrpc(surface: Surface): boolean {
  return surface === "grpc" || surface === "grpc-web";
}

const grpcUnitsMs = new Map([
  ["H", 3_600_000],
  ["M", 60_000],
  ["S", 1_000],
  ["m", 1],
  ["u", 1e-3],
  ["n", 1e-6],
]);

function grpcTimeoutMs(header: string): number | undefined {
  const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(header) ?? [];
  const unitMs = grpcUnitsMs.get(unit ?? "");
  return unitMs === undefined ? undefined : Number(digits) * unitMs;
}

// ---- media types ----------------------------------------------------------------------------------------------------

/** How a call reached us. */
export type Surface = "rest" | "connect" | "grpc" | "grpc-web";

export interface MediaType {
  /** In lower case, without parameters; "" where there is none, more than one, or one of more than 256 characters. */
  readonly type: string;
  /** A charset that is not UTF-8, as far as its name may be repeated; undefined without one. */
  readonly otherCharset: string | undefined;
}

const json: MediaType = { type: "application/json", otherCharset: undefined };
const none: MediaType = { type: "", otherCharset: undefined };
/** A longer one is not looked at: 4,000 semicolons take 1 ms, and HTTP/2 lets a client repeat them in a byte. */
const mediaTypeCharsMax = 256;

export function mediaTypeOf(header: string | undefined): MediaType {
  if (header === json.type) return json;
  if (header !== undefined && header.length > mediaTypeCharsMax) return none;
  const [first = "", ...parameters] = (header ?? "").split(";");
  const type = first.trim().toLowerCase();
  const charsets = parameters.flatMap((parameter) => {
    const [name = "", value = ""] = parameter.split("=", 2);
    return name.trim().toLowerCase() === "charset" ? [value.trim().replaceAll('"', "")] : [];
  });
  const other = charsets.find((charset) => !/^utf-?8$/i.test(charset));
  return {
    type: /^[a-z0-9.+-]+\/[a-z0-9.+-]+$/.test(type) ? type : "",
    otherCharset: other === undefined || /^[a-z0-9._:+-]{1,40}$/i.test(other) ? other : "that it names",
  };
}

/** The surface of a media type on the paths of RPCs. */
export function surfaceOf(type: string): "connect" | "grpc" | "grpc-web" {
  if (type.startsWith("application/grpc-web")) return "grpc-web";
  return type.startsWith("application/grpc") ? "grpc" : "connect";
}

/** True for gRPC-web in base64. */
export function isGrpcWebText(type: string): boolean {
  return type === "application/grpc-web-text" || type === "application/grpc-web-text+proto";
}

/** The type of what a body holds once it is out of base64. */
export function innerType(type: string): string {
  return isGrpcWebText(type) ? "application/grpc-web+proto" : type;
}
