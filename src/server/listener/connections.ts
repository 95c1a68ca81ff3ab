/**
 * The connections that are open, and when each has to go. A stranger gets little: a connection that never brought a
 * request is closed after 15 s, one that never brought a valid key after 60 s without a call. One that did may stay idle
 * for long, since internal callers keep theirs. A connection past its age is told to go (GOAWAY, or `Connection: close`)
 * and finishes its calls first, so that a load balancer gets to spread callers over new instances. One that sends a lot
 * and asks for nothing (pings, settings, frames that mean nothing, header bombs) is cut.
 *
 * Room for newcomers is made at the cost of whoever holds the most without having shown a secret key. Above three quarters
 * of all connections the address that has the most strangers gives its oldest idle one for each newcomer. Nobody whom we owe an
 * answer goes; one who owes us the rest of a request, or does not take an answer, or watches, goes when there is no idle one.
 * What strangers have us hold in memory is bounded by itself (holdings.ts).
 *
 * Time is counted in ticks of one timer for all of them: a timer per connection would cost more than the connection.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type Http2ServerRequest, type Http2ServerResponse, type ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import { isOwed, untaken } from "./answers-due.ts";
import { leftBehind } from "./heap.ts";
import { createHoldings, takenFor } from "./holdings.ts";
import { sendShutdownNotice } from "./shutdown-notice.ts";
import { createStrangers } from "./strangers.ts";

/** When a connection has to go, in milliseconds; precise to a tick, and never early. */
export interface ConnectionLimits {
  /** Without having brought any request. */
  readonly halfOpenMs: number;
  /** Without a call under way, never having brought a valid key. */
  readonly strangerIdleMs: number;
  /** Without a call under way, having brought a valid key. */
  readonly idleMs: number;
  /** In any case, gracefully; 0 for never. Up to a tenth more, so that connections opened together do not end together. */
  readonly maxAgeMs: number;
  /** From a call's headers until its answer was taken. One that takes longer is cut, whoever dawdles. */
  readonly callMs: number;
  /** So long a newcomer has to bring its key, before it may have to make room for others while there still is some. */
  readonly newcomerMs: number;
  readonly tickMs: number;
  /** How many may be open. */
  readonly connectionsMax: number;
}

export interface ConnectionsOptions extends ConnectionLimits {
  /** Finds the address whose share a connection counts in, by its peer; undefined for one that many callers have. */
  readonly shareOf: (peer: string | undefined) => string | undefined;
  /** Whether a peer is a proxy, whose connections carry calls of many. */
  readonly isProxy: (peer: string | undefined) => boolean;
}

interface Connection {
  socket: Socket;
  session: ServerHttp2Session | undefined;
  /** From this tick on it is to go. */
  readonly lastTick: number;
  activeTick: number;
  /** The answer that is due on an HTTP/1 connection; with pipelining, the last one. */
  response: ServerResponse | undefined;
  callsUnderWay: number;
  /** The answers that a stranger has asked for, but those that last. */
  answersDue: Set<ServerResponse | Http2ServerResponse> | undefined;
  hasBroughtRequest: boolean;
  hasBroughtKey: boolean;
  isRetiring: boolean;
  /** What it may still send without asking for anything, in bytes, and what of its bytes was charged so far. */
  credit: number;
  bytesCharged: number;
  /** Whose it is among what strangers have us hold. */
  readonly holder: string;
  /** What came since its last request and asks for nothing yet, as far as it is in that book. */
  bytesUnasked: number;
  bytesReadAtRequest: number;
}

export interface Connections {
  /** Takes a new connection into the book, or destroys it and says false where there is no room. */
  opened(socket: Socket): boolean;
  /** Notes that a connection goes on by TLS, or destroys what nobody knows of. */
  secured(socket: Socket | undefined, secure: Socket): void;
  /** Notes that a connection speaks HTTP/2. */
  upgraded(socket: Socket, session: ServerHttp2Session): void;
  /**
   * Notes that a call has come; what it returns is to be run once the call was answered or its client has gone. On an
   * HTTP/1 connection that is to go, the call's answer says so. One that may last is not cut for taking long.
   */
  callBegan(
    request: IncomingMessage | Http2ServerRequest,
    response: ServerResponse | Http2ServerResponse,
    mayLast?: boolean,
  ): () => void;
  /** Tells whether a request's client is a stranger who leaves so many answers untaken that it is to get no further one. */
  isSated(request: IncomingMessage | Http2ServerRequest): boolean;
  /** Notes that a call brought a valid key. */
  authenticated(request: IncomingMessage | Http2ServerRequest): void;
  /** Tells every connection to go once its calls are done, as far as it can be told. Safe to repeat. */
  retireAll(): void;
  /** Takes no more calls on the connections there are, and closes those that have none under way. */
  dismissAll(): void;
  /** Closes all that is left, whatever it is doing. */
  destroyAll(): void;
  /** How many are open. */
  readonly count: number;
}

/** What a client still has, after it was told to go, for calls that it had begun to send when it was told. */
const farewellMs = 1_000;
/** An HTTP/1 connection past its age says so with its next answer. One that has none to give goes after so long. */
const lastAnswerMs = 5_000;
/** An HTTP/2 connection that cannot be told in advance ends at the first quiet moment, or after so long without one. */
const quietMs = 10_000;
/** What strangers may have us hold, by estimate. */
const strangersBytesMax = 4_194_304;
/** What a connection leaves behind beside that. */
const http1ConnectionBytes = 4_096;
const http2ConnectionBytes = 40_960;
/** Answers given and not taken, on one connection of a stranger, beyond which it gets no further one. */
const untakenMax = 16;
/** The most that a connection can have sent ahead: what is read at once. */
const bytesUnaskedMax = 65_536;
/** How often the size of the process is looked at, and by how much it has grown when everybody in it is. */
const watchMs = 50;
const grownBytes = 2_097_152;
/** All who share an address with many others. */
const manyCallers = "many";
/** How long a closing that the client has to read may take before the socket is destroyed. */
const lingerMs = 1_000;
/** What a connection may send beyond its calls: this much at once, and so much a second. */
const creditMax = 524_288;
const creditPerSecond = 16_384;
/** A call's headers and body fit four times. */
const creditPerCall = 65_536;
/** A PING is 17 bytes to send, but it has to be answered. gRPC clients send some with every call, hardly any without. */
const controlFrameBytes = 1_024;
/** The part of all connections above which room is made for newcomers. */
const roomyPart = 3 / 4;

export function createConnections(limits: ConnectionsOptions): Connections {
  const bySocket = new Map<Socket, Connection>();
  const bySession = new WeakMap<ServerHttp2Session, Connection>();
  const inTicks = (ms: number) => Math.ceil(ms / limits.tickMs);
  const halfOpenTicks = inTicks(limits.halfOpenMs);
  const strangerTicks = inTicks(limits.strangerIdleMs);
  const idleTicks = inTicks(limits.idleMs);
  const lastAnswerTicks = inTicks(lastAnswerMs);
  const quietTicks = inTicks(quietMs);
  const newcomerTicks = inTicks(limits.newcomerMs);
  const creditPerTick = (creditPerSecond * limits.tickMs) / 1_000;
  const strangers = createStrangers<Connection>({
    isNewcomer: ({ activeTick }) => tick - activeTick < newcomerTicks,
    isOwed: ({ answersDue }) => answersDue !== undefined && [...answersDue].some(isOwed),
  });
  const holdings = createHoldings<Connection>({
    bytesMax: strangersBytesMax,
    // Whoever mostly waits for us stays: a caller's first calls come before its key was looked up.
    mayGo: ({ answersDue }) => answersDue === undefined || 2 * untaken(answersDue) >= answersDue.size,
    evict({ session, socket }, bytes) {
      leftBehind(bytes);
      // Without an error, which every single stream would have to hear.
      session?.destroy();
      socket.destroy();
    },
  });
  let tick = 0;
  const ticking = setInterval(onTick, limits.tickMs).unref();
  let lookedAtBytes = process.memoryUsage.rss();
  const watching = setInterval(onWatch, watchMs).unref();

  function onTick(): void {
    tick += 1;
    for (const connection of bySocket.values()) {
      noteUnasked(connection);
      if (isNoise(connection)) cut(connection);
      else if (connection.callsUnderWay === 0 && tick - connection.activeTick > allowedTicks(connection))
        close(connection);
      else if (tick >= connection.lastTick) retire(connection, tick >= connection.lastTick + quietTicks);
    }
    // Answers that were ours to give at the last look may have been given since.
    holdings.makeRoom();
  }

  /** Looks at all of them between two ticks when the process has grown, whoever made it. */
  function onWatch(): void {
    const bytes = process.memoryUsage.rss();
    const hasGrown = bytes > lookedAtBytes + grownBytes;
    if (hasGrown || bytes < lookedAtBytes) lookedAtBytes = bytes;
    if (!hasGrown) return;
    for (const connection of bySocket.values()) noteUnasked(connection);
    holdings.makeRoom();
  }

  function allowedTicks({ hasBroughtKey, hasBroughtRequest, isRetiring }: Connection): number {
    const ticks = hasBroughtKey ? idleTicks : hasBroughtRequest ? strangerTicks : halfOpenTicks;
    return isRetiring ? Math.min(ticks, lastAnswerTicks) : ticks;
  }

  /** Charges a connection for what it sent since the last tick, and tells whether it sent far more than it asked for. */
  function isNoise(connection: Connection): boolean {
    const { bytesRead, remoteAddress } = connection.socket;
    connection.credit -= bytesRead - connection.bytesCharged;
    connection.bytesCharged = bytesRead;
    // Where one carries calls of many, a stranger's body ends its own stream (request-body.ts).
    if (connection.credit < 0 && !connection.hasBroughtKey && !limits.isProxy(remoteAddress)) return true;
    connection.credit = connection.credit < 0 ? creditMax : Math.min(creditMax, connection.credit + creditPerTick);
    return false;
  }

  function hold(connection: Connection, bytes: number): void {
    if (!connection.hasBroughtKey && !connection.socket.destroyed) holdings.add(connection, connection.holder, bytes);
  }

  /** Half a head, half a header block, requests ahead of their turn: whatever came since the last request. */
  function noteUnasked(connection: Connection): void {
    const { bytesRead, readableLength } = connection.socket;
    // What is not parsed yet may have come with requests that are.
    const bytes = Math.max(Math.min(bytesRead - connection.bytesReadAtRequest, bytesUnaskedMax), readableLength);
    if (bytes === connection.bytesUnasked) return;
    hold(connection, bytes - connection.bytesUnasked);
    connection.bytesUnasked = bytes;
  }

  function onControlFrame(connection: Connection): void {
    connection.credit -= controlFrameBytes;
    if (connection.credit < 0) cut(connection);
  }

  /**
   * Tells a connection to go. HTTP/2 in two steps: calls that were on their way here meanwhile are still answered. Where
   * the first step cannot be had it waits for a quiet moment, unless it `must`: calls that come later are then lost, though
   * the client is told that they were not taken and may be sent again.
   */
  function retire(connection: Connection, must: boolean): void {
    const { session, socket, response } = connection;
    if (connection.isRetiring) return;
    if (session === undefined) {
      if (response !== undefined && !response.headersSent) response.shouldKeepAlive = false;
    } else if (sendShutdownNotice(socket)) {
      setTimeout(() => session.close(), farewellMs).unref();
    } else if (must || connection.callsUnderWay === 0) {
      session.close();
    } else {
      return;
    }
    connection.isRetiring = true;
  }

  /** Closes a connection that has nothing under way. */
  function close({ session, socket }: Connection, withinMs = lingerMs): void {
    if (session === undefined) return void socket.destroy();
    // The session waits for its last frame to leave, which it never does when the client does not read.
    session.destroy();
    setTimeout(() => socket.destroy(), withinMs).unref();
  }

  /** Makes room for a newcomer, if somebody has to go and may. */
  function makeRoom(): void {
    if (bySocket.size <= limits.connectionsMax * roomyPart) return;
    const leaver = strangers.leaver(bySocket.size > limits.connectionsMax);
    if (leaver === undefined) return;
    forget(leaver);
    close(leaver, 0);
  }

  /** Safe to repeat. */
  function forget(connection: Connection): void {
    const isNew = bySocket.delete(connection.socket);
    strangers.remove(connection);
    if (connection.hasBroughtKey) return;
    const bytes = connection.session === undefined ? http1ConnectionBytes : http2ConnectionBytes;
    leftBehind(holdings.remove(connection, connection.holder) + (isNew ? bytes : 0));
  }

  /** Closes a connection that does harm. */
  function cut({ session, socket }: Connection): void {
    session?.destroy(new Error("the connection did harm"), constants.NGHTTP2_ENHANCE_YOUR_CALM);
    socket.destroy();
  }

  /** Ends a call that takes too long: its stream, or the connection where nothing less helps. */
  function cutCall(connection: Connection, request: IncomingMessage | Http2ServerRequest): void {
    if (!("stream" in request)) return cut(connection);
    const { stream } = request;
    stream.close(constants.NGHTTP2_CANCEL);
    const ifStuck = () => {
      if (!stream.destroyed) cut(connection);
    };
    setTimeout(ifStuck, lingerMs).unref();
  }

  function find(request: IncomingMessage | Http2ServerRequest): Connection | undefined {
    if (!("stream" in request)) return bySocket.get(request.socket);
    // A stream that is closed no longer knows its session.
    const session = request.stream.session as ServerHttp2Session | undefined;
    return session === undefined ? undefined : bySession.get(session);
  }

  return {
    opened(socket) {
      const ageTicks = limits.maxAgeMs === 0 ? Number.POSITIVE_INFINITY : inTicks(limits.maxAgeMs);
      // Spread by arrival, for want of a need for chance: neighbours end up to a tenth of the age apart.
      const spread = Number.isFinite(ageTicks) ? Math.floor((ageTicks * (bySocket.size % 10)) / 100) : 0;
      const address = limits.shareOf(socket.remoteAddress);
      const connection: Connection = {
        socket,
        session: undefined,
        lastTick: tick + ageTicks + spread,
        activeTick: tick,
        response: undefined,
        callsUnderWay: 0,
        answersDue: undefined,
        hasBroughtRequest: false,
        hasBroughtKey: false,
        isRetiring: false,
        credit: creditMax,
        bytesCharged: 0,
        holder: address ?? manyCallers,
        bytesUnasked: 0,
        bytesReadAtRequest: 0,
      };
      bySocket.set(socket, connection);
      if (address !== undefined) strangers.add(connection, address);
      makeRoom();
      if (bySocket.size > limits.connectionsMax) {
        forget(connection);
        socket.destroy();
      }
      if (socket.destroyed) return false;
      socket.once("close", () => forget(connection));
      return true;
    },
    secured(socket, secure) {
      const connection = socket && bySocket.get(socket);
      if (connection === undefined) {
        secure.destroy();
        return;
      }
      bySocket.delete(connection.socket);
      bySocket.set(secure, connection);
      connection.socket = secure;
      connection.activeTick = tick;
      connection.credit = creditMax;
      connection.bytesCharged = 0;
      connection.bytesReadAtRequest = 0;
      secure.once("close", () => forget(connection));
    },
    upgraded(socket, session) {
      const connection = bySocket.get(socket);
      if (connection === undefined) return;
      connection.session = session;
      bySession.set(session, connection);
      session.on("ping", () => onControlFrame(connection));
      session.on("remoteSettings", () => onControlFrame(connection));
    },
    callBegan(request, response, mayLast = false) {
      const connection = find(request);
      if (connection === undefined) return () => {};
      if (connection.callsUnderWay === 0) strangers.becameBusy(connection);
      connection.callsUnderWay += 1;
      if (!mayLast && !connection.hasBroughtKey) (connection.answersDue ??= new Set()).add(response);
      // Beyond a few of a stranger's it comes when the answer was taken: whoever takes none is not to send for ever.
      const isCredited = connection.hasBroughtKey || connection.callsUnderWay <= untakenMax;
      if (isCredited) connection.credit += creditPerCall;
      const bytes = connection.hasBroughtKey || mayLast ? 0 : takenFor(request);
      if (bytes > 0) hold(connection, bytes);
      connection.bytesReadAtRequest = connection.socket.bytesRead;
      connection.hasBroughtRequest = true;
      if (!("stream" in response)) {
        connection.response = response;
        if (connection.isRetiring) response.shouldKeepAlive = false;
      }
      const timer = mayLast ? undefined : setTimeout(cutCall, limits.callMs, connection, request);
      return () => {
        clearTimeout(timer);
        connection.callsUnderWay -= 1;
        connection.answersDue?.delete(response);
        if (!isCredited) connection.credit += creditPerCall;
        if (bytes > 0) hold(connection, -bytes);
        if (connection.callsUnderWay === 0) strangers.becameIdle(connection);
        connection.activeTick = tick;
        if (connection.response === response) connection.response = undefined;
      };
    },
    isSated(request) {
      const { answersDue } = find(request) ?? {};
      return answersDue !== undefined && answersDue.size >= untakenMax && untaken(answersDue) >= untakenMax;
    },
    authenticated(request) {
      const connection = find(request);
      if (connection === undefined || connection.hasBroughtKey) return;
      connection.hasBroughtKey = true;
      connection.answersDue = undefined;
      strangers.remove(connection);
      holdings.remove(connection, connection.holder);
    },
    retireAll() {
      for (const connection of bySocket.values()) retire(connection, false);
    },
    dismissAll() {
      for (const { session, socket, callsUnderWay } of bySocket.values()) {
        if (session !== undefined) session.close();
        else if (callsUnderWay === 0) socket.end();
      }
    },
    destroyAll() {
      clearInterval(ticking);
      clearInterval(watching);
      for (const { session, socket } of bySocket.values()) {
        session?.destroy();
        socket.destroy();
      }
    },
    get count() {
      return bySocket.size;
    },
  };
}
