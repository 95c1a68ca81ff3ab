/**
 * HTTP/1 requests that are sent without waiting for answers: at most so many of a connection are under way, and the next is
 * read when an answer was taken.
 *
 * node:http parses all that it is handed before anything can stop it, which may be thousands of requests in one chunk,
 * each with its objects. So its parser is handed one request's head at a time: a chunk is cut behind each empty line,
 * and the rest stays with the socket.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Connections } from "./connections.ts";
import type { Response } from "./exchange.ts";

/** node:http's own note that it has paused a socket, and will resume it. */
function isHeldByNode(socket: Socket & { _paused?: boolean }): boolean {
  // oxlint-disable-next-line no-underscore-dangle -- undocumented; its parser must not be fed meanwhile
  return socket._paused === true;
}

/** What ends a head. The same bytes in a body only make for a smaller piece. */
const headEnd = Buffer.from("\r\n\r\n", "latin1");
const lineEnd = "\n".charCodeAt(0);
/** Pieces of a connection that are parsed in a turn of the event loop: 64 KiB of blank lines are 16,000, some 4 µs each. */
const piecesPerTurn = 64;
/** A body in chunks counts as a piece for so many of its bytes, since each chunk may hold a single one. */
const chunkedPieceBytes = 64;

/** A request of a connection that is under way. */
interface UnderWay {
  /** To be run once its answer was taken, or never will be. */
  ended(): void;
  /** Its answer lasts, and nothing is to come behind it: nobody would see that its client has left. */
  lasts(): void;
}

interface Pipeline {
  /** Notes that a request has come. */
  began(response: ServerResponse): UnderWay;
  /** Reads no more, and runs this once the whole requests that came are answered. */
  finish(run: () => void): void;
}

export interface Pipelines {
  /** Takes an HTTP/1 connection that node's parser has already. */
  take(socket: Socket): void;
  /** Notes that a request has come. */
  began(response: Response): UnderWay | undefined;
  /**
   * Runs the answer to what is no request in its turn: behind the answers to what came before it, or a client would take it
   * for one of them.
   */
  answerLast(socket: unknown, run: () => void): void;
}

/** What is told of each connection, and where its turns come from. */
type Book = Pick<Connections, "brought" | "goOn">;

/** `requestsMax` under way on each connection. */
export function createPipelines(requestsMax: number, book: Book): Pipelines {
  const bySocket = new WeakMap<Socket, Pipeline>();
  return {
    take(socket) {
      bySocket.set(socket, createPipeline(socket, requestsMax, book));
    },
    began(response) {
      return "stream" in response ? undefined : bySocket.get(response.req.socket)?.began(response);
    },
    answerLast(socket, run) {
      const pipeline = bySocket.get(socket as Socket);
      if (pipeline === undefined) run();
      else pipeline.finish(run);
    },
  };
}

/**
 * Puts itself between a socket and node's HTTP/1 parser, which has to have the socket already.
 *
 * Longer than 80 lines: short acts on what is known of one connection, which two functions would only hand to each other.
 */
function createPipeline(socket: Socket, requestsMax: number, book: Book): Pipeline {
  const feed = takeOver(socket, onData);
  const underWay = underWayOn(socket);
  let bodyBytesSeen = 0;
  let [isFull, isResting] = [false, false];
  let lasting: ServerResponse | undefined;
  let last: ServerResponse | undefined;
  let runLast: (() => void) | undefined;

  function onData(chunk: Buffer): void {
    book.brought(socket);
    if (lasting !== undefined) socket.destroy();
    for (let at = 0, pieces = 0; at < chunk.length && runLast === undefined && !socket.destroyed;) {
      // The body of the last one is let through, which is under way and could not end without it.
      const bodyBytes = bodyBytesDue(last?.req, bodyBytesSeen);
      if (underWay.size >= requestsMax && bodyBytes === 0) isFull = true;
      if (pieces >= piecesPerTurn) rest();
      // node:http pauses the socket too, for an answer that its client is slow to take, and resumes it.
      if (isFull || isResting || socket.isPaused() || isHeldByNode(socket)) {
        socket.pause();
        socket.unshift(at === 0 ? chunk : chunk.subarray(at));
        return;
      }
      const end = endOfPiece(chunk, at, bodyBytes);
      bodyBytesSeen += end - at;
      pieces += 1;
      if (bodyBytes === Number.POSITIVE_INFINITY) {
        pieces += (end - at) / chunkedPieceBytes;
        book.brought(socket, chunksIn(chunk, at, end));
        if (socket.destroyed) return;
      }
      feed.call(socket, at === 0 && end === chunk.length ? chunk : chunk.subarray(at, end));
      at = end;
    }
  }

  /** Leaves the rest for another turn. Who reads a body resumes the socket before. */
  function rest(): void {
    if (isResting) return;
    isResting = true;
    book.goOn(socket, goOn);
  }

  function runIfLast(): void {
    // One whose body breaks off has no other answer, unless its head was answered already.
    const brokenOff = last?.req.complete === false && !last.headersSent ? 1 : 0;
    if (underWay.size > brokenOff) return;
    // A call that was refused on its head has had its answer, whatever its body turns out to be.
    if (last?.req.complete === false && last.headersSent) socket.destroySoon();
    else runLast?.();
  }

  function goOn(): void {
    isResting = false;
    if (!socket.destroyed && !isHeldByNode(socket)) socket.resume();
  }

  function ended(response: ServerResponse): void {
    underWay.delete(response);
    if (lasting === response) lasting = undefined;
    // Kept until the next one it would live long enough to cost a collection of the whole heap.
    if (underWay.size === 0 && last?.req.complete === true) last = undefined;
    if (runLast !== undefined) runIfLast();
    if (!isFull || underWay.size >= requestsMax) return;
    isFull = false;
    // In a turn of its own: answers that are ready at once would keep everybody else waiting for the whole chunk.
    book.goOn(socket, goOn);
  }

  return {
    began(response) {
      const request = response.req;
      // One that breaks off after whoever listened has left would end the process.
      request.on("error", () => {});
      underWay.add(response);
      last = response;
      bodyBytesSeen = 0;
      const lasts = () => {
        lasting = response;
        if (response !== last || runLast !== undefined || socket.readableLength > 0) socket.destroy();
      };
      return { ended: ended.bind(undefined, response), lasts };
    },
    finish(run) {
      if (runLast !== undefined) return;
      runLast = run;
      if (lasting !== undefined) socket.destroy();
      else runIfLast();
    },
  };
}

type OnData = (chunk: Buffer) => void;

/** Has `onData` hear a socket instead of node's parser, and gives what feeds that. */
function takeOver(socket: Socket, onData: OnData): OnData {
  const [feed] = socket.listeners("data") as OnData[];
  if (feed === undefined) throw new Error("node:http no longer listens to its sockets' data");
  // With a listener beside its own, node:http no longer reads past the socket's events.
  socket.on("data", onData);
  socket.off("data", feed);
  return feed;
}

/** The answers of a connection that are under way. They end with it. */
function underWayOn(socket: Socket): Set<ServerResponse> {
  const underWay = new Set<ServerResponse>();
  // Where a tunnel was asked for behind them node:http does not see to it, and who waits for their end would wait for ever.
  const closeAll = () => {
    for (const response of underWay) {
      response.req.destroy();
      response.destroy();
    }
    // Not every Node tells of what has no socket.
    setImmediate(() => {
      for (const response of underWay) response.emit("close");
    });
  };
  socket.once("close", () => {
    // Behind what node:http does by itself.
    if (underWay.size > 0) setImmediate(closeAll);
  });
  return underWay;
}

/** Where the piece ends that begins `at`: behind a head, or within what is due of a body (infinite where it is chunked). */
function endOfPiece(chunk: Buffer, at: number, bodyBytes: number): number {
  const cut = chunk.indexOf(headEnd, at);
  const isChunked = bodyBytes === Number.POSITIVE_INFINITY;
  const bytesMax = isChunked ? piecesPerTurn * chunkedPieceBytes : bodyBytes === 0 ? chunk.length : bodyBytes;
  return Math.min(cut < 0 ? chunk.length : cut + headEnd.length, at + bytesMax, chunk.length);
}

/** How many chunks a piece of a body has, as far as they are not empty: each has a line for its length and one for itself. */
function chunksIn(chunk: Buffer, from: number, to: number): number {
  let lines = 0;
  for (let at = chunk.indexOf(lineEnd, from); at >= 0 && at < to; at = chunk.indexOf(lineEnd, at + 1)) lines += 1;
  return lines / 2;
}

/** What is to come of a request's body: 0 for nothing, and no bound where it comes in chunks, which end as a head does. */
function bodyBytesDue(request: IncomingMessage | undefined, bytesSeen: number): number {
  if (request === undefined || request.complete) return 0;
  const length = request.headers["content-length"];
  return length === undefined ? Number.POSITIVE_INFINITY : Math.max(0, Number(length) - bytesSeen);
}
