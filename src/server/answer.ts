/**
 * An answer on its way out: gathered whole from Connect, and written with one call.
 */
import type { UniversalServerResponse } from "@connectrpc/connect/protocol";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { retryAfterSeconds, type Refusal } from "../otp/reason.ts";
import type { Call } from "./call.ts";
import { plainError } from "./rest.ts";

export type Request = IncomingMessage | Http2ServerRequest;
export type Response = ServerResponse | Http2ServerResponse;

/** Connect's answer to a call, whole. */
export interface Answer {
  readonly call: Call;
  readonly status: number;
  readonly header: Headers;
  readonly body: Uint8Array;
  readonly trailer: Headers | undefined;
}

export async function gather(answer: UniversalServerResponse): Promise<Omit<Answer, "call">> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of answer.body ?? []) chunks.push(chunk);
  const [only = new Uint8Array()] = chunks;
  return {
    status: answer.status,
    header: answer.header ?? new Headers(),
    body: chunks.length > 1 ? Buffer.concat(chunks) : only,
    trailer: answer.trailer,
  };
}

/** An answer as it goes out. */
export interface Sendable {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: Uint8Array;
  readonly trailers?: Record<string, string>;
}

export function sendable({ status, header, body, trailer }: Answer): Sendable {
  const headers: Record<string, string> = Object.fromEntries(header);
  headers["cache-control"] = "no-store";
  if (trailer !== undefined) return { status, headers, body, trailers: Object.fromEntries(trailer) };
  headers["content-length"] = `${body.length}`;
  return { status, headers, body };
}

export function write(response: Response, answer: Answer): void {
  const whole = sendable(answer);
  whole.headers["x-call-id"] = answer.call.id;
  writeWhole(response, whole);
}

export function answerPlain(response: Response, refusal: Refusal, more: Record<string, string> = {}): void {
  const { status, body } = plainError(refusal);
  const seconds = retryAfterSeconds(refusal);
  const headers = {
    ...more,
    ...(seconds === undefined ? {} : { "retry-after": `${seconds}` }),
    "content-type": "application/json",
    "cache-control": "no-store",
    "content-length": `${body.length}`,
  };
  writeWhole(response, { status, headers, body });
}

/** The answer of a path that is no RPC. */
export interface Page {
  /** 200 unless given. */
  readonly status?: number;
  readonly type: string;
  /** Bytes are not copied: a page of many kilobytes is in memory once, however many clients are slow to take it. */
  readonly body: string | Uint8Array;
  /** Beside those that every answer has, or instead of them. */
  readonly headers?: Readonly<Record<string, string>>;
  /** True where the client has said that it has this page already: it is told so instead of getting it again. */
  readonly unchanged?: boolean;
}

/** Writes a page, or for HEAD all of it but its body. */
export function answerPage(response: Response, page: Page, isHead: boolean): void {
  const { status = 200, type, body: given, headers: more } = page;
  if (page.unchanged === true) {
    return writeWhole(response, { status: 304, headers: { ...more }, body: new Uint8Array() });
  }
  const body = typeof given === "string" ? Buffer.from(given) : given;
  const headers = { "cache-control": "no-store", ...more, "content-type": type, "content-length": `${body.length}` };
  writeWhole(response, { status, headers, body: isHead ? body.subarray(0, 0) : body });
}

export function writeWhole(response: Response, { status, headers, body, trailers }: Sendable): void {
  if (response.destroyed) return;
  // The two responses are alike, but their overloads are not.
  const plain = response as ServerResponse;
  plain.writeHead(status, headers);
  if (trailers !== undefined) plain.addTrailers(trailers);
  plain.end(body);
}
