/**
 * A request's headers as Connect is to see them, and how long they let a call take.
 */
import type { Request } from "../listener/exchange.ts";
import type { Surface } from "../http/media-type.ts";
import { innerType, mediaTypeOf } from "./media-type.ts";

/** What says how a body is to be read. A GET has none, so there they say nothing. */
const bodyHeaders = new Set(["content-type", "content-encoding", "content-length"]);
/** Names without case, which Connect knows in small letters. */
const codingHeaders = new Set(["content-encoding", "grpc-encoding"]);
const timeoutHeaders = { grpc: "grpc-timeout", connect: "connect-timeout-ms" };
/** What is not as the client meant it by the time that Connect reads it. */
const dropped = new Set([...Object.values(timeoutHeaders), "content-length"]);

type Headed = Pick<Request, "method" | "headers">;

/**
 * Makes the headers: without HTTP/2's pseudo headers, and without a deadline unless Connect is to keep one of at most
 * `deadlineMs`.
 */
export function headersOf({ method, headers: given }: Headed, surface: Surface, deadlineMs?: number): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || name.startsWith(":") || dropped.has(name)) continue;
    if (method === "GET" && bodyHeaders.has(name)) continue;
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

/** How long a call may take: as long as its headers ask for, at most `maxMs`. A deadline that makes no sense is none. */
export function timeoutMsOf({ headers }: Pick<Headed, "headers">, surface: Surface, maxMs: number): number {
  const asked = isGrpc(surface)
    ? grpcTimeoutMs(headers[timeoutHeaders.grpc])
    : connectTimeoutMs(headers[timeoutHeaders.connect]);
  return Math.min(asked ?? maxMs, maxMs);
}

function isGrpc(surface: Surface): boolean {
  return surface === "grpc" || surface === "grpc-web";
}

function connectTimeoutMs(header: string | string[] | undefined): number | undefined {
  return typeof header === "string" && /^\d{1,10}$/.test(header) ? Number(header) : undefined;
}

const grpcUnitsMs = new Map([
  ["H", 3_600_000],
  ["M", 60_000],
  ["S", 1_000],
  ["m", 1],
  ["u", 1e-3],
  ["n", 1e-6],
]);

function grpcTimeoutMs(header: string | string[] | undefined): number | undefined {
  const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(typeof header === "string" ? header : "") ?? [];
  const unitMs = grpcUnitsMs.get(unit ?? "");
  return unitMs === undefined ? undefined : Number(digits) * unitMs;
}
