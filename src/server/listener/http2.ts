/**
 * HTTP/2 connections, whether their first bytes or TLS say that they are. Node bounds what one of them may do, and beyond
 * that ends it or refuses its streams. So it is for a client of its own. A trusted proxy's connection carries calls of
 * many, and there one stranger would end everybody's, by leaving 50 calls a second or by not taking a few big answers.
 * So none of these bounds is in reach of one.
 */
import type { ServerResponse } from "node:http";
import { createServer, type Http2Server, type ServerHttp2Session, type ServerOptions } from "node:http2";
import type { Socket } from "node:net";
import type { Connections } from "./connections.ts";
import { isOver, type Request, type Response } from "./exchange.ts";
import { watchSessions } from "./http2-sessions.ts";

/** What one connection may do. */
export interface Http2Limits {
  readonly headerBytesMax: number;
  readonly headersMax: number;
  /** Calls at once. */
  readonly streamsMax: number;
}

export type OnRequest = (request: Request, response: Response, lasts?: () => void) => void;

export interface Http2Listeners {
  readonly onRequest: OnRequest;
  /** For a request whose client waits to be told to go on (`telling`). */
  readonly onContinue: OnRequest;
  /** Node would answer an Expect other than 100-continue with nothing in it, and a CONNECT past every count. */
  readonly onExpectation: OnRequest;
  readonly onConnect: OnRequest;
}

const commonOptions = ({ headerBytesMax, headersMax, streamsMax }: Http2Limits): ServerOptions => ({
  settings: { maxConcurrentStreams: streamsMax, maxHeaderListSize: headerBytesMax, enablePush: false },
  maxHeaderListPairs: headersMax,
  maxSettings: 32,
});

const ownOptions: ServerOptions = {
  // Megabytes a connection may hold.
  maxSessionMemory: 1,
  maxSessionInvalidFrames: 50,
  maxSessionRejectedStreams: 100,
  // Rapid reset: a client may open and drop this many streams at once, and so many more a second.
  streamResetBurst: 400,
  streamResetRate: 50,
};

/** More than anybody gets to in the life of a connection. */
const outOfReach = 0xffff_ffff;
const proxysOptions: ServerOptions = {
  // Node never takes back what it counts for an answer that is left half taken.
  maxSessionMemory: outOfReach,
  maxSessionInvalidFrames: outOfReach,
  maxSessionRejectedStreams: outOfReach,
  streamResetBurst: outOfReach,
  streamResetRate: outOfReach,
};

/** Makes what takes a connection that speaks HTTP/2. */
export function createHttp2(
  limits: Http2Limits,
  { onRequest, onContinue, onExpectation, onConnect }: Http2Listeners,
  connections: Pick<Connections, "isProxys" | "upgraded">,
): (socket: Socket) => void {
  function serverOf(options: ServerOptions): Http2Server {
    const server = createServer({ ...commonOptions(limits), ...options }, onRequest);
    server.on("checkExpectation", onExpectation);
    server.on("checkContinue", onContinue);
    server.on("connect", onConnect);
    watchSessions(server);
    return server;
  }
  const own = serverOf(ownOptions);
  const proxys = serverOf(proxysOptions);
  return (socket) => {
    const server = connections.isProxys(socket) ? proxys : own;
    server.once("session", (session: ServerHttp2Session) => {
      readForLiving(socket, session);
      connections.upgraded(socket, session);
    });
    server.emit("connection", socket);
  };
}

/**
 * Hands a session what came before it for as long as it lives. Node reads that from the socket a step later, and ends the process
 * where the session is gone by then, as where room was made for others.
 */
function readForLiving(socket: Socket, session: ServerHttp2Session): void {
  const { read } = socket;
  socket.read = (size?: number): unknown => (session.destroyed ? null : read.call(socket, size));
  // Behind that step. Whoever ends is noticed by reading on, also where the session is gone.
  process.nextTick(() => (socket.read = read));
}

/** Tells a client to go on. On HTTP/2 Node's own way throws, and ends the process, where the client has gone by then. */
export function telling(onRequest: OnRequest): OnRequest {
  return (request, response) => {
    if (!("stream" in response)) tellInTurn(response);
    else if (!isOver(response.stream)) response.writeContinue();
    onRequest(request, response);
  };
}

/** On HTTP/1 behind the answers to what came before. Node's own way writes it between head and body of an answer that has to wait for these. */
function tellInTurn(response: ServerResponse): void {
  if (response.socket !== null) return response.writeContinue();
  response.once("socket", () => {
    if (!response.headersSent) response.writeContinue();
  });
}
