/**
 * The connections that are open, and when each has to go. A stranger gets little: a connection that never brought a
 * request is closed after 15 s, one that never brought a valid key after 60 s without a call. One that did may stay idle
 * for long, since internal callers keep theirs. A connection past its age is told to go (GOAWAY, or `Connection: close`)
 * and finishes its calls first, so that a load balancer gets to spread callers over new instances.
 *
 * Time is counted in ticks of one timer for all of them: a timer per connection would cost more than the connection.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse, ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";

/** When a connection has to go, in milliseconds; precise to a tick. */
export interface ConnectionLimits {
  /** Without having brought any request. */
  readonly halfOpenMs: number;
  /** Without a call under way, never having brought a valid key. */
  readonly strangerIdleMs: number;
  /** Without a call under way, having brought a valid key. */
  readonly idleMs: number;
  /** In any case, gracefully; 0 for never. Up to a tenth more, so that connections opened together do not end together. */
  readonly maxAgeMs: number;
  readonly tickMs: number;
}

interface Connection {
  readonly socket: Socket;
  session: ServerHttp2Session | undefined;
  /** From this tick on it is to go. */
  readonly lastTick: number;
  activeTick: number;
  /** The answer that is due on an HTTP/1 connection. */
  response: ServerResponse | undefined;
  callsUnderWay: number;
  hasBroughtRequest: boolean;
  hasBroughtKey: boolean;
  isRetiring: boolean;
}

export interface Connections {
  /** Takes a new connection into the book. */
  opened(socket: Socket): void;
  /** Notes that a connection speaks HTTP/2. */
  upgraded(socket: Socket, session: ServerHttp2Session): void;
  /** Notes that a call has come. On an HTTP/1 connection that is to go, its answer says so. */
  callBegan(request: IncomingMessage | Http2ServerRequest, response: ServerResponse | Http2ServerResponse): void;
  /** Notes that a call brought a valid key. */
  authenticated(request: IncomingMessage | Http2ServerRequest): void;
  /** Notes that a call was answered, or its client has gone. */
  callEnded(request: IncomingMessage | Http2ServerRequest): void;
  /** Tells every connection to go once its calls are done; idle ones go at once. */
  retireAll(): void;
  /** Closes all that is left, whatever it is doing. */
  destroyAll(): void;
  /** How many are open. */
  readonly count: number;
}

/** What a client still has, after it was told to go, for calls that it had begun to send when it was told. */
const farewellMs = 300;

export function createConnections(limits: ConnectionLimits): Connections {
  const bySocket = new Map<Socket, Connection>();
  const bySession = new WeakMap<ServerHttp2Session, Connection>();
  const inTicks = (ms: number) => Math.ceil(ms / limits.tickMs);
  const [halfOpenTicks, strangerTicks, idleTicks] = [limits.halfOpenMs, limits.strangerIdleMs, limits.idleMs].map(
    inTicks,
  ) as [number, number, number];
  let tick = 0;
  const timer = setInterval(onTick, limits.tickMs);
  timer.unref();

  function onTick(): void {
    tick += 1;
    for (const connection of bySocket.values()) {
      if (connection.callsUnderWay > 0) {
        if (tick >= connection.lastTick) retire(connection);
        continue;
      }
      const allowed = connection.hasBroughtKey
        ? idleTicks
        : connection.hasBroughtRequest
          ? strangerTicks
          : halfOpenTicks;
      if (tick - connection.activeTick > allowed) close(connection);
      else if (tick >= connection.lastTick) retire(connection);
    }
  }

  /** Tells a connection to go, in two steps: calls that were on their way here meanwhile are still answered. */
  function retire(connection: Connection): void {
    if (connection.isRetiring) return;
    connection.isRetiring = true;
    const { session, response } = connection;
    if (session !== undefined && !session.closed) session.goaway();
    if (response !== undefined && !response.headersSent) response.shouldKeepAlive = false;
    setTimeout(farewell, farewellMs, connection).unref();
  }

  /** The second step: HTTP/2 takes no more streams; HTTP/1 ends with its next answer, or now if it has none to give. */
  function farewell({ session, socket, callsUnderWay }: Connection): void {
    if (session !== undefined) session.close();
    else if (callsUnderWay === 0) socket.end();
  }

  /** Closes a connection that has nothing under way. */
  function close({ session, socket }: Connection): void {
    if (session === undefined) socket.destroy();
    else session.destroy();
  }

  function find(request: IncomingMessage | Http2ServerRequest): Connection | undefined {
    if (!("stream" in request)) return bySocket.get(request.socket);
    const session = request.stream.session as ServerHttp2Session | undefined;
    return session === undefined ? undefined : bySession.get(session);
  }

  return {
    opened(socket) {
      const ageTicks = limits.maxAgeMs === 0 ? Number.POSITIVE_INFINITY : inTicks(limits.maxAgeMs);
      // Spread by arrival, for want of a need for chance: neighbours end up to a tenth of the age apart.
      const spread = Number.isFinite(ageTicks) ? Math.floor((ageTicks * (bySocket.size % 10)) / 100) : 0;
      const connection: Connection = {
        socket,
        session: undefined,
        lastTick: tick + ageTicks + spread,
        activeTick: tick,
        response: undefined,
        callsUnderWay: 0,
        hasBroughtRequest: false,
        hasBroughtKey: false,
        isRetiring: false,
      };
      bySocket.set(socket, connection);
      socket.once("close", () => bySocket.delete(socket));
    },
    upgraded(socket, session) {
      const connection = bySocket.get(socket);
      if (connection === undefined) return;
      connection.session = session;
      bySession.set(session, connection);
    },
    callBegan(request, response) {
      const connection = find(request);
      if (connection === undefined) return;
      connection.callsUnderWay += 1;
      connection.hasBroughtRequest = true;
      if ("stream" in response) return;
      connection.response = response;
      if (connection.isRetiring) response.shouldKeepAlive = false;
    },
    authenticated(request) {
      const connection = find(request);
      if (connection !== undefined) connection.hasBroughtKey = true;
    },
    callEnded(request) {
      const connection = find(request);
      if (connection === undefined) return;
      connection.callsUnderWay -= 1;
      connection.activeTick = tick;
      connection.response = undefined;
    },
    retireAll() {
      for (const connection of bySocket.values()) retire(connection);
    },
    destroyAll() {
      clearInterval(timer);
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
