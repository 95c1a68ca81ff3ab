/**
 * An answer on its way out: gathered whole from Connect, and written with one call; or written as it comes.
 */
import type { UniversalServerResponse } from "@connectrpc/connect/protocol";
import { universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type { ServerResponse } from "node:http";
import type { Http2ServerResponse } from "node:http2";
import { isOver, type Response } from "../listener/exchange.ts";

export interface Sendable {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** A text goes out in one piece with the headers. */
  readonly body: string | Uint8Array;
  readonly trailers?: Readonly<Record<string, string>>;
}

/** Connect's answer to a call, whole. */
export async function gather({ status, header, body, trailer }: UniversalServerResponse): Promise<Sendable> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body ?? []) chunks.push(chunk);
  const [only = new Uint8Array()] = chunks;
  const headers = Object.fromEntries(header ?? []);
  const whole = { status, headers, body: chunks.length > 1 ? Buffer.concat(chunks) : only };
  return trailer === undefined ? whole : { ...whole, trailers: Object.fromEntries(trailer) };
}

/** Writes the answer to a call, or one that is the same for many. */
export function write(response: Response, { headers, ...rest }: Sendable, callId?: string): void {
  const { body, trailers } = rest;
  writeWhole(response, {
    ...rest,
    headers: {
      ...headers,
      "cache-control": "no-store",
      ...(trailers === undefined ? { "content-length": `${Buffer.byteLength(body)}` } : {}),
      ...(callId === undefined ? {} : { "x-call-id": callId }),
    },
  });
}

/**
 * Writes an answer as it comes, until it ends or its client has gone. Connect's half waits for room on a response that is over, and for
 * an "end" that no response of Node's ever tells: then the answer ends here, and with it the timer that Connect has for it.
 */
export async function writeAsItComes(response: Response, answer: UniversalServerResponse): Promise<void> {
  const pieces = answer.body?.[Symbol.asyncIterator]();
  const gone = Promise.withResolvers<void>();
  response.once("close", gone.resolve);
  const body = pieces && { body: { [Symbol.asyncIterator]: () => pieces } };
  await Promise.race([gone.promise, universalResponseToNodeResponse({ ...answer, ...body }, response)]);
  await pieces?.return?.();
}

/** The answer of a path that is no RPC. */
export interface PageAnswer {
  /** 200 unless given. */
  readonly status?: number;
  readonly type: string;
  /** Bytes are not copied: a page of many kilobytes is in memory once, however many clients are slow to take it. */
  readonly body: string | Uint8Array;
  /** Beside those that every answer has, or instead of them. */
  readonly headers?: Readonly<Record<string, string>>;
  /** True where the client has said that it has this page already: it hears that instead of getting it again. */
  readonly unchanged?: boolean;
}

/** Writes a page, or for HEAD all of it but its body. */
export function answerPage(response: Response, page: PageAnswer, isHead: boolean): void {
  const { status = 200, type, body: given, headers: more } = page;
  if (page.unchanged === true) {
    return writeWhole(response, { status: 304, headers: { ...more }, body: new Uint8Array() });
  }
  const body = typeof given === "string" ? Buffer.from(given) : given;
  const headers = { "cache-control": "no-store", ...more, "content-type": type, "content-length": `${body.length}` };
  writeWhole(response, { status, headers, body: isHead ? body.subarray(0, 0) : body });
}

/** True once there is nobody any more to answer. A response of HTTP/2 does not say so itself. */
export function isClosed(response: Response): boolean {
  return "stream" in response ? isOver(response.stream) : response.destroyed;
}

export function writeWhole(response: Response, answer: Sendable): void {
  if (isClosed(response)) return;
  const { status, headers, body, trailers } = answer;
  if ("stream" in response && (trailers === undefined || body.length === 0)) return endInOnePiece(response, answer);
  // The two responses are alike, but their overloads are not.
  const plain = response as ServerResponse;
  plain.writeHead(status, headers);
  if (trailers !== undefined) plain.addTrailers(trailers);
  plain.end(body);
}

/**
 * Writes an answer whose last frame with something in it ends the stream. Node's response would end it with an empty frame
 * behind that: a frame more, which some proxies hold back. Without a body it is one HEADERS frame, trailers and all, which
 * gRPC calls Trailers-Only. Only an answer that begins with its end lets a client's library retry the call: headers before
 * it commit the call to this answer.
 */
function endInOnePiece(response: Http2ServerResponse, { status, headers, body, trailers }: Sendable): void {
  const { stream, req } = response;
  const endStream = body.length === 0 || req.method === "HEAD";
  response.statusCode = status;
  stream.respond({ ":status": status, ...response.getHeaders(), ...headers, ...trailers }, { endStream });
  if (!endStream) stream.end(body);
}
