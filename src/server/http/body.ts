/**
 * A request's body: read whole, or thrown away, both within bounds of size and time. A client that takes its request
 * back, or never ends it, must not keep its place in here.
 */
import { constants, type ServerHttp2Stream } from "node:http2";
import { refuse, type Refusal } from "../../otp/reason.ts";
import { isOver, type Request } from "../listener/exchange.ts";
import type { Deadlines } from "./deadlines.ts";

/** How much of a refused body is read and thrown away, so that the client can finish sending and hear the answer. */
const discardBytesMax = 1_048_576;
/** And for how long, where HTTP/2 is spoken. */
const discardMs = 2_000;

/** Reads a whole body. BODY_TOO_LARGE past `bytesMax`, DEADLINE past its time; undefined when the client has gone. */
export function readBody(
  request: Request,
  bytesMax: number,
  deadlines: Deadlines,
): Promise<Uint8Array | Refusal | undefined> {
  // Its last event has been.
  if (isGone(request)) return Promise.resolve(undefined);
  // Most have come with their headers: then nobody has to listen for them. HTTP/2 does not say so.
  if (!("stream" in request) && request.complete && request.readableLength <= bytesMax) {
    return Promise.resolve((request.read() as Buffer | null) ?? nothing);
  }
  return new Promise((resolve) => {
    const gathered = createGathered(bytesMax);
    let isDone = false;
    const finish = (read: Uint8Array | Refusal | undefined) => {
      // Each further resolve of a promise costs more than the first.
      if (isDone) return;
      isDone = true;
      deadlines.end(onLate);
      resolve(read);
    };
    const giveUp = (reason: "BODY_TOO_LARGE" | "DEADLINE") => {
      request.off("data", onData);
      discard(request);
      finish(refuse(reason).refusal);
    };
    const onLate = () => giveUp("DEADLINE");
    const onData = (chunk: Buffer) => {
      if (!gathered.add(chunk)) giveUp("BODY_TOO_LARGE");
    };
    const onGone = () => finish(undefined);
    deadlines.begin(onLate);
    request.on("data", onData);
    request.on("end", () => {
      if (!isDone) finish(gathered.bytes());
    });
    request.on("error", onGone);
    request.on("close", onGone);
  });
}

const nothing = new Uint8Array();

/**
 * What has come of a body, in bytes of its own. A piece may be of one byte, and is a view of all that was read with it: to
 * keep the pieces of an unfinished body would be to keep 64 KiB for each. `add` is false for what does not fit.
 */
function createGathered(bytesMax: number): { add(piece: Uint8Array): boolean; bytes(): Uint8Array } {
  let room = nothing;
  let length = 0;
  return {
    add(piece) {
      if (length + piece.length > bytesMax) return false;
      if (length + piece.length > room.length) {
        const larger = new Uint8Array(Math.min(bytesMax, Math.max(length + piece.length, 2 * room.length)));
        larger.set(room.subarray(0, length));
        room = larger;
      }
      room.set(piece, length);
      length += piece.length;
      return true;
    },
    bytes: () => room.subarray(0, length),
  };
}

/** A whole body as Connect takes it: piece by piece, of which it is the only one. */
export async function* inOnePiece(body: Uint8Array): AsyncGenerator<Uint8Array> {
  yield body;
}

/**
 * Answers a request without waiting for its end: what may yet come of it is thrown away, and on HTTP/2 its stream is closed
 * as soon as the answer is out.
 */
export async function answerAtOnce(request: Request, answer: () => Promise<void>): Promise<void> {
  if (!("stream" in request)) {
    discard(request);
    return answer();
  }
  const { stream } = request;
  request.resume();
  request.once("error", () => {});
  await answer();
  if (!stream.endAfterHeaders && !isGone(request)) closeOnceAnswered(stream);
}

/**
 * Closes a stream behind the last byte of its answer, if there is one. If Node is told to close it before, it waits for
 * that byte too. But the stream may be destroyed meanwhile, as all streams of a connection that breaks off are. Then Node
 * forgets it without telling nghttp2, which sends empty frames for it for ever, in one turn of the event loop, until there
 * is no memory left.
 */
function closeOnceAnswered(stream: ServerHttp2Stream): void {
  const close = () => stream.close(constants.NGHTTP2_NO_ERROR);
  if (stream.writableEnded && !stream.writableFinished) stream.once("finish", close);
  else close();
}

/** Ends a request whose client is no longer waited for: its stream, or on HTTP/1 its connection. */
export function abandon(request: Request): void {
  if ("stream" in request) request.stream.close(constants.NGHTTP2_CANCEL);
  else request.socket.destroy();
}

/** True once the client has taken its request back, or its connection has gone. */
export function isGone(request: Request): boolean {
  return "stream" in request ? isOver(request.stream) : request.destroyed;
}

/** True once a client sends no more on HTTP/1: it may only wait for its answer, or have left. On HTTP/2 it takes its request back. */
export function hasEndedItsSide(request: Request): boolean {
  return !("stream" in request) && request.socket.readableEnded;
}

/**
 * Lets a client finish what it is sending, within bounds, so that it gets to read the answer. On HTTP/1 the listener's
 * own time limit for a request still holds; on HTTP/2 the stream is closed once the answer is out.
 */
export function discard(request: Request): void {
  let bytes = 0;
  let isClosing = false;
  request.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= discardBytesMax || isClosing) return;
    if (!("stream" in request)) {
      request.destroy();
    } else if (request.stream.writableEnded) {
      // While it is read from: a stream with something unread in it never ends.
      isClosing = true;
      closeOnceAnswered(request.stream);
    }
  });
  request.once("error", () => {});
  if (!("stream" in request) || request.stream.endAfterHeaders || isGone(request)) return;
  const { stream } = request;
  const timer = setTimeout(closeOnceAnswered, discardMs, stream);
  stream.once("close", () => clearTimeout(timer));
}
