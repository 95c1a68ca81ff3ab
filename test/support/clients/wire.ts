/**
 * Requests as bytes: what no well-behaved client would send, over HTTP/1.1 and HTTP/2, and what came back, unread.
 */
import { Agent, request as request1 } from "node:http";
import { connect, constants } from "node:http2";
import { once } from "node:events";
import { createConnection } from "node:net";

export interface WireRequest {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Uint8Array;
  /** Sends the body in pieces, without saying its length. Over HTTP/1.1 only; HTTP/2 never says it unless told to. */
  readonly chunked?: boolean;
  /** Leaves the request open: its body never ends. */
  readonly unfinished?: boolean;
  /** The connections to use; one of its own without. */
  readonly agent?: Agent;
  /** The address of this machine that it comes from, over HTTP/1.1. */
  readonly from?: string | undefined;
}

export interface WireAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** HTTP trailers, or all of a gRPC answer that is nothing else (Trailers-Only); on gRPC-web they are in the body. */
  readonly trailers: Headers;
  readonly body: Buffer;
  readonly text: string;
}

export type Wire = (url: string, request: WireRequest) => Promise<WireAnswer>;

/** One request over HTTP/1.1. */
export const overHttp1: Wire = (url, { method = "POST", path, headers = {}, body, chunked, unfinished, agent, from }) =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url);
    const bytes = body === undefined ? undefined : Buffer.from(body as string);
    const outgoing = request1({ hostname, port, method, path, agent: agent ?? false, localAddress: from });
    for (const [name, value] of Object.entries(headers)) outgoing.setHeader(name, value);
    if (
      bytes !== undefined &&
      chunked !== true &&
      unfinished !== true &&
      outgoing.getHeader("content-length") === undefined
    ) {
      outgoing.setHeader("content-length", bytes.length);
    }
    outgoing.once("error", reject);
    outgoing.once("response", (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
      incoming.once("error", reject);
      incoming.once("end", () => {
        resolve(answerOf(incoming.statusCode ?? 0, incoming.headers, incoming.trailers, chunks));
        if (unfinished === true) outgoing.destroy();
      });
    });
    if (unfinished === true) {
      outgoing.flushHeaders();
      if (bytes !== undefined) outgoing.write(bytes);
    } else if (bytes !== undefined && chunked === true) {
      for (let at = 0; at < bytes.length; at += 4096) outgoing.write(bytes.subarray(at, at + 4096));
      outgoing.end();
    } else {
      outgoing.end(bytes);
    }
  });

/** One request over HTTP/2 with prior knowledge, on a connection of its own. */
export const overHttp2: Wire = (url, { method = "POST", path, headers = {}, body, unfinished }) =>
  new Promise((resolve, reject) => {
    const session = connect(url);
    session.once("error", reject);
    const stream = session.request({ ":method": method, ":path": path, ...headers }, { endStream: false });
    const chunks: Buffer[] = [];
    let status = 0;
    let head: Record<string, unknown> = {};
    let tail: Record<string, unknown> = {};
    stream.once("response", (incoming) => {
      status = Number(incoming[constants.HTTP2_HEADER_STATUS]);
      head = incoming;
      if ("grpc-status" in incoming) tail = incoming;
    });
    stream.once("trailers", (incoming) => (tail = incoming));
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.once("error", reject);
    stream.once("end", () => {
      resolve(answerOf(status, head, tail, chunks));
      session.destroy();
    });
    if (unfinished !== true) stream.end(body === undefined ? undefined : Buffer.from(body as string));
    else if (body !== undefined) stream.write(Buffer.from(body as string));
  });

function answerOf(
  status: number,
  head: Record<string, unknown>,
  tail: Record<string, unknown>,
  chunks: Buffer[],
): WireAnswer {
  const body = Buffer.concat(chunks);
  return { status, headers: headersFrom(head), trailers: headersFrom(tail), body, text: body.toString("utf8") };
}

function headersFrom(entries: Record<string, unknown>): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(entries)) {
    if (!name.startsWith(":")) headers.set(name, String(value));
  }
  return headers;
}

/** Puts bytes on a connection of its own; resolves with the first that come back, and breaks the connection there. */
export async function untilFirstByte(url: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = createConnection(Number(port), hostname);
  socket.write(bytes);
  const [first] = (await once(socket, "data")) as [Buffer];
  socket.destroy();
  return first.toString("latin1");
}

/** A gRPC frame: a flag, a length, a message. `length` lies about the length where given. */
export function grpcFrame(message: Uint8Array, { flag = 0, length = message.length } = {}): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(flag, 0);
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, message]);
}
