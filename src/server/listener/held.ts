/**
 * What this listener holds for strangers: their requests until the answers were taken, what they have sent that asks
 * for nothing yet, and what TLS has made of answers. It is looked at whenever somebody asks for something, with each
 * tick, and between ticks when the process grows. What the system holds for them on our account is send-queues.ts's.
 */
import type { Socket } from "node:net";
import { isOwed, owed } from "./answers-due.ts";
import { stopwatchMs } from "../../system.ts";
import { readerOf, type Connection } from "./connection.ts";
import type { Request, Response } from "./exchange.ts";
import { destroy, drop } from "./farewells.ts";
import { leftBehind } from "./heap.ts";
import { createHoldings } from "./holdings.ts";
import { handleOf } from "./handle.ts";
import type { SendQueues } from "./send-queues.ts";

export interface Held {
  /** A connection is open, and a stranger's for now. */
  opened(connection: Connection): void;
  /** Adds to what a stranger holds. Returns what gives it back. */
  hold(connection: Connection, response: Response, bytes: number): GiveBack;
  /** The same for an answer that lasts. */
  lasts(connection: Connection, response: Response, bytes: number): GiveBack;
  /** A request on a connection of many has brought a secret key: what it holds is no stranger's. */
  broughtKey(request: Request): void;
  /** Looks at what a connection has sent since its last request, and at what TLS has for it. */
  note(connection: Connection): void;
  /** A connection is nobody's any more, or no stranger's. Safe to repeat. */
  letGo(connection: Connection): void;
  /** A stranger's connection is gone. Safe to repeat. */
  gone(connection: Connection): void;
  /** Makes room where strangers hold too much, here or in the system's send queues. To be run with each tick. */
  makeRoom(): void;
  /** Ends the look at the process. */
  end(): void;
}

/** Gives back once, however often it is run: at last with the length of the request's headers, once the call is over. */
export type GiveBack = (headerBytes?: number) => void;

/** Who holds something: a connection, or an answer on a proxy's connection, which others have answers on too. */
type Holder = Connection | Response;
const isAnswer = (holder: Holder): holder is Response => "writableEnded" in holder;

/** Answers that last. They are ours to give for as long as their clients like, so they may go. */
const lasting = new WeakSet<Response>();

const isOfMany = ({ isProxys, session }: Connection) => isProxys && session !== undefined;

function mayGo(holder: Holder, bytes: number): boolean {
  if (isAnswer(holder)) return lasting.has(holder) || !isOwed(holder);
  if (isOfMany(holder)) return false;
  const { answersDue, isProxys, wire } = holder;
  // What a proxy sends ahead of its first request may be of many, and it is not told yet what it speaks.
  if (isProxys && answersDue === undefined) return false;
  // Whoever begins TLS has not been able to ask yet.
  if (wire?.isHandshakeDone === false && bytes <= helloBytes) return false;
  // What it holds may be a document that it does not take, in front of others that wait.
  if (2 * bytesOfTls(holder) >= bytes) return true;
  // Whoever mostly waits for us stays: a caller's first calls come before its key was looked up. We wait for who has not sent all of a request.
  return answersDue === undefined || 2 * owed(answersDue) <= answersDue.size;
}

function evict(holder: Holder, bytes: number): void {
  leftBehind(bytes);
  if (isAnswer(holder)) drop(holder.req);
  else destroy(holder);
}

/** What strangers may have us hold, by estimate. */
const strangersBytesMax = 4_194_304;
/** What a connection leaves behind beside that. */
const http1ConnectionBytes = 4_096;
const http2ConnectionBytes = 40_960;
/** What a request over HTTP/2 leaves behind beside its headers. */
const http2LeftBytes = 2_048;
/** So much of what is read ahead of a turn is not counted. It is a first message, and many callers may wait with theirs. */
const helloBytes = 2_048;
/** The most that a connection can have sent ahead: what is read at once. */
const bytesUnaskedMax = 65_536;
/**
 * How often the size of the process is looked at while a stranger is connected, and by how much it has to grow for what
 * strangers hold to be looked at. While no stranger is connected, twenty looks a second would be half of what an idle
 * server takes.
 */
const watchMs = 50;
const grownBytes = 2_097_152;
/** How late a look has to be for a turn of the event loop to have been long. */
const lateMs = 25;

/**
 * `onLate` runs once a turn of the event loop was long, as far as a stranger is connected.
 *
 * Longer than 80 lines: short acts on one book, which two functions would only hand to each other.
 */
export function createHeld(bySocket: ReadonlyMap<Socket, Connection>, queues: SendQueues, onLate = () => {}): Held {
  const fresh = createFresh<Holder>();
  const mayGoNow = (holder: Holder, bytes: number) => !fresh.has(holder) && mayGo(holder, bytes);
  const holdings = createHoldings<Holder>({ bytesMax: strangersBytesMax, mayGo: mayGoNow, evict });
  /** Requests on connections of many that have brought no secret key, and what gives back what they hold. */
  const ofMany = new WeakMap<Request, () => void>();

  function add(connection: Connection, bytes: number, holder: Holder = connection): void {
    const isStrangers = isAnswer(holder) || !connection.hasBroughtKey;
    if (isStrangers && !connection.socket.destroyed) holdings.add(holder, connection.address, bytes);
  }

  function hold(connection: Connection, response: Response, bytes: number): GiveBack {
    const holder = isOfMany(connection) ? response : connection;
    fresh.add(holder);
    add(connection, bytes, holder);
    let isBack = false;
    const giveBack = () => {
      if (!isBack && isAnswer(holder)) holdings.remove(holder, connection.address);
      else if (!isBack) add(connection, -bytes);
      isBack = true;
    };
    if (isAnswer(holder)) ofMany.set(response.req, giveBack);
    return (headerBytes) => {
      giveBack();
      const isStrangers = !isAnswer(holder) || ofMany.has(response.req);
      // Headers of HTTP/2 and its streams are outside of V8's heap, which then sees no need to collect.
      if (isStrangers && headerBytes !== undefined && connection.session !== undefined && !connection.socket.destroyed)
        leftBehind(http2LeftBytes + headerBytes);
      queues.given(connection);
    };
  }

  function note(connection: Connection): void {
    const bytes = bytesUnasked(connection) + bytesOfTls(connection);
    if (bytes === connection.bytesNoted) return;
    add(connection, bytes - connection.bytesNoted);
    connection.bytesNoted = bytes;
  }

  const onGrown = () => {
    for (const connection of bySocket.values()) note(connection);
    holdings.makeRoom();
  };
  const growth = watchProcess(onGrown, onLate);
  const strangers = new Set<Connection>();
  /** Tells whether it was one until now. */
  const left = (connection: Connection) => {
    const wasStranger = strangers.delete(connection);
    queues.letGo(connection);
    if (wasStranger && strangers.size === 0) growth.end();
    return wasStranger;
  };

  return {
    opened(connection) {
      strangers.add(connection);
      if (strangers.size === 1) growth.begin();
      // A proxy takes what it asks for, and resetting its connection would end the calls of many.
      if (!connection.isProxys) queues.opened(connection);
    },
    hold,
    lasts(connection, response, bytes) {
      if (isOfMany(connection) && !ofMany.has(response.req)) return () => {};
      lasting.add(response);
      return hold(connection, response, bytes);
    },
    broughtKey(request) {
      ofMany.get(request)?.();
      ofMany.delete(request);
    },
    note,
    letGo(connection) {
      holdings.remove(connection, connection.address);
      left(connection);
    },
    gone(connection) {
      const bytes = connection.session === undefined ? http1ConnectionBytes : http2ConnectionBytes;
      leftBehind(holdings.remove(connection, connection.address) + (left(connection) ? bytes : 0));
    },
    makeRoom() {
      holdings.makeRoom();
      queues.tick();
    },
    end: growth.end,
  };
}

/** Those who have asked for something in this turn: what comes in the same piece as a head, its body or its end, is not seen yet. */
function createFresh<T>(): Pick<Set<T>, "add" | "has"> {
  const fresh = new Set<T>();
  return {
    add(one) {
      if (fresh.size === 0) setImmediate(() => fresh.clear());
      return fresh.add(one);
    },
    has: (one) => fresh.has(one),
  };
}

/** Half a head, half a header block, requests ahead of their turn: whatever came since the last request. */
function bytesUnasked(connection: Connection): number {
  const { socket, wire, bytesReadAtRequest } = connection;
  const reader = readerOf(connection);
  const isAhead = reader?.ahead.isOver === false;
  const bytesRead = isAhead ? (wire?.bytesRead ?? 0) : socket.bytesRead;
  const unasked = Math.min(bytesRead - bytesReadAtRequest, bytesUnaskedMax);
  const waiting = Math.max(0, (reader?.bytesWaiting ?? 0) - (isAhead ? helloBytes : 0));
  // What is not parsed yet may have come with requests that are.
  return Math.max(unasked, isAhead ? 0 : socket.readableLength) + waiting;
}

/** What TLS has yet to send or keeps room for, and the piece of it that is on its way to the system, which is a copy. */
function bytesOfTls({ socket, wire }: Connection): number {
  if (wire === undefined) return 0;
  // No other count has what HTTP/2 writes past the socket.
  const writeQueueSize = handleOf(socket)?.writeQueueSize ?? 0;
  return wire.writableLength + Math.max(wire.roomKept, writeQueueSize);
}

/**
 * Runs `onGrown` when the process has grown, whoever made it grow, and when its size cannot be read, as where no file is
 * left. Runs `onLate` when a look was late: a turn of the event loop was long.
 */
function watchProcess(onGrown: () => void, onLate: () => void): { begin(): void; end(): void } {
  let lookedAtBytes = residentBytes() ?? 0;
  let lookedAtMs = 0;
  let watching: NodeJS.Timeout | undefined;
  const look = () => {
    const now = stopwatchMs();
    const isLate = now - lookedAtMs > watchMs + lateMs;
    lookedAtMs = now;
    if (isLate) onLate();
    const bytes = residentBytes();
    const hasGrown = bytes === undefined || bytes > lookedAtBytes + grownBytes;
    if (bytes !== undefined && (hasGrown || bytes < lookedAtBytes)) lookedAtBytes = bytes;
    if (hasGrown) onGrown();
  };
  return {
    begin() {
      lookedAtMs = stopwatchMs();
      watching = setInterval(look, watchMs).unref();
    },
    end() {
      clearInterval(watching);
    },
  };
}

function residentBytes(): number | undefined {
  try {
    return process.memoryUsage.rss();
  } catch {
    return undefined;
  }
}
