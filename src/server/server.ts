/**
 * The listener: HTTP/1.1 and HTTP/2 without TLS on one port, told apart by a connection's first bytes. A client that
 * speaks HTTP/2 opens with a fixed preface; whatever differs from it is HTTP/1.1.
 *
 * By hand, because the library for it loses the slow-loris timeouts, the peer's address on HTTP/2 and a clean close.
 */
import { createServer as createHttp1Server, type Server as Http1Server } from "node:http";
import { createServer as createHttp2Server, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import type { Gateway } from "./gateway.ts";

export interface ServerOptions {
  readonly gateway: Gateway;
  readonly host: string;
  /** 0 for one that is free. */
  readonly port: number;
  /** Runs when the address is known, before any connection is taken. */
  readonly beforeAccept?: (address: { host: string; port: number }) => void;
  readonly onFault: (error: unknown) => void;
}

export interface RunningServer {
  readonly host: string;
  readonly port: number;
  /** Takes no more connections, lets calls under way finish, then closes what is left after `graceMs`. */
  stop(graceMs: number): Promise<void>;
}

const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");
/** A connection that has not sent a request's headers by then is closed. */
const headersTimeoutMs = 15_000;
/** A request must be complete by then. */
const requestTimeoutMs = 15_000;
const keepAliveMs = 60_000;
const headerBytesMax = 16_384;
const connectionsMax = 10_000;
const streamsMax = 100;

/** Starts to listen. Rejects when the address cannot be had. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { gateway, host, port, beforeAccept, onFault } = options;
  const sessions = new Set<ServerHttp2Session>();
  const http2 = createHttp2Server({
    maxHeaderListPairs: 100,
    maxSessionMemory: 1,
    settings: { maxConcurrentStreams: streamsMax, maxHeaderListSize: headerBytesMax, enablePush: false },
  });
  http2.on("request", gateway.handle);
  http2.on("session", (session) => {
    sessions.add(session);
    session.setTimeout(keepAliveMs, () => session.close());
    session.once("close", () => sessions.delete(session));
    session.on("error", () => session.destroy());
  });

  const http1 = createHttp1Server({
    headersTimeout: headersTimeoutMs,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveMs,
    connectionsCheckingInterval: 1_000,
    maxHeaderSize: headerBytesMax,
  });
  http1.maxConnections = connectionsMax;
  http1.on("request", gateway.handle);
  http1.on("clientError", onClientError);
  tellApart(http1, http2);

  await listen(http1, host, port, beforeAccept);
  http1.on("error", onFault);
  const address = http1.address() as AddressInfo;
  return {
    host,
    port: address.port,
    async stop(graceMs) {
      const closed = new Promise<void>((resolve) => http1.close(() => resolve()));
      const done = gateway.drain();
      http1.closeIdleConnections();
      // GOAWAY: no new streams, those open may finish.
      for (const session of sessions) session.close();
      let timer: NodeJS.Timeout | undefined;
      await Promise.race([done, new Promise((resolve) => (timer = setTimeout(resolve, graceMs)))]);
      clearTimeout(timer);
      // Answers written last are still on their way out of the sockets.
      await new Promise((resolve) => setTimeout(resolve, 20));
      http1.closeIdleConnections();
      const force = setTimeout(() => {
        http1.closeAllConnections();
        for (const session of sessions) session.destroy();
      }, 250);
      await closed;
      clearTimeout(force);
    },
  };
}

/** Puts a look at the first bytes before the HTTP/1 server's own handling of a connection. */
function tellApart(http1: Http1Server, http2: Http2Server): void {
  const [takeHttp1] = http1.listeners("connection") as ((socket: Socket) => void)[];
  if (takeHttp1 === undefined) throw new Error("node:http no longer listens for its own connections");
  http1.removeAllListeners("connection");
  http1.on("connection", (socket: Socket) => {
    socket.setNoDelay(true);
    const silent = setTimeout(() => socket.destroy(), headersTimeoutMs);
    const onError = () => socket.destroy();
    socket.once("error", onError);
    let seen: Buffer = Buffer.alloc(0);
    const onReadable = () => {
      const chunk = socket.read() as Buffer | null;
      if (chunk === null) return;
      seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
      const compared = Math.min(seen.length, preface.length);
      const matches = seen.subarray(0, compared).equals(preface.subarray(0, compared));
      if (matches && compared < preface.length) return;
      clearTimeout(silent);
      socket.off("readable", onReadable);
      socket.off("error", onError);
      socket.unshift(seen);
      if (matches) http2.emit("connection", socket);
      else takeHttp1.call(http1, socket);
      // Reading by hand has stopped the flow; the new owner starts it again.
      if (!matches) socket.resume();
    };
    socket.on("readable", onReadable);
    socket.once("close", () => clearTimeout(silent));
  });
}

function onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable) return void socket.destroy();
  const status =
    error.code === "HPE_HEADER_OVERFLOW"
      ? "431 Request Header Fields Too Large"
      : error.code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? "408 Request Timeout"
        : "400 Bad Request";
  socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
}

function listen(
  server: Http1Server,
  host: string,
  port: number,
  beforeAccept: ServerOptions["beforeAccept"],
): Promise<void> {
  return new Promise((resolve, reject) => {
    // A known port is announced before it accepts; one that is given by the system, as soon as it is known.
    if (port !== 0) beforeAccept?.({ host, port });
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      if (port === 0) beforeAccept?.({ host, port: (server.address() as AddressInfo).port });
      resolve();
    });
  });
}
