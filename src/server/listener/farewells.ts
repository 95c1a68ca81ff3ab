/**
 * How a connection ends: it is told to go and finishes its calls, it is closed while it has none, or it is cut.
 */
import { constants, type ServerHttp2Stream } from "node:http2";
import { isOwed } from "./answers-due.ts";
import type { Connection } from "./connection.ts";
import type { Request } from "./exchange.ts";
import { sendShutdownNotice } from "./shutdown-notice.ts";

/** What a client still has, after it was told to go, for calls that it had begun to send when it was told. */
const farewellMs = 1_000;
/** How long a closing that the client has to read may take before the socket is destroyed. */
const lingerMs = 1_000;

/**
 * Tells a connection to go. HTTP/2 in two steps: calls that were on their way here meanwhile are still answered. Where
 * the first step cannot be had it waits for a quiet moment, unless it `must`: calls that come later are then lost, though
 * the client is told that they were not taken and may be sent again.
 */
export function retire(connection: Connection, { must = false } = {}): void {
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

/**
 * Ends a connection whose client has ended its own side, behind the answers that it has asked for; HTTP/1 does so by itself. One that
 * lasts ends now: the client may be gone, which shows only once something is written.
 */
export function finish({ session, lasting }: Connection): void {
  session?.close();
  for (const answer of lasting ?? []) answer.destroy();
}

/** Takes no more calls on a connection, and closes it if it has none under way. */
export function dismiss({ session, socket, callsUnderWay }: Connection): void {
  if (session !== undefined) session.close();
  else if (callsUnderWay === 0) socket.end();
}

/** Closes a connection that has nothing under way. */
export function close({ session, socket }: Connection, withinMs = lingerMs): void {
  if (session === undefined) return void socket.destroy();
  // The session waits for its last frame to leave, which it never does when the client does not read.
  session.destroy();
  setTimeout(() => socket.destroy(), withinMs).unref();
}

/** Closes a connection that does harm. */
export function cut({ session, socket, wire }: Connection): void {
  wire?.stop();
  session?.destroy(new Error("the connection did harm"), constants.NGHTTP2_ENHANCE_YOUR_CALM);
  socket.destroy();
}

/** Ends a stream that does harm, with its connection unless that carries calls of many. */
export function cutStream(connection: Connection, stream: ServerHttp2Stream): void {
  if (connection.isProxys) stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  else cut(connection);
}

/** Ends the stream of a request over HTTP/2, and nothing else. */
export function drop(request: Request): void {
  if ("stream" in request) request.stream.close(constants.NGHTTP2_CANCEL);
}

/** Ends a call that takes too long: its stream, or the connection where nothing less helps. */
export function cutCall(connection: Connection, request: Request): void {
  if (!("stream" in request)) return cut(connection);
  const { stream } = request;
  stream.close(constants.NGHTTP2_CANCEL);
  const ifStuck = () => {
    if (!stream.destroyed) cut(connection);
  };
  setTimeout(ifStuck, lingerMs).unref();
}

/** Ends what a stranger keeps open: requests that are not whole, and answers that are given and not taken. */
export function endUndone(connection: Connection): void {
  const due = [...(connection.answersDue ?? [])];
  // HTTP/1 can end them only together with what is owed on the connection.
  if (connection.session === undefined && due.some(isOwed)) return;
  for (const answer of due) if (!isOwed(answer)) cutCall(connection, answer.req);
}

/** Closes a connection whatever it is doing. Without an error, which every single stream would have to hear. */
export function destroy({ session, socket }: Connection): void {
  session?.destroy();
  socket.destroy();
}
