/**
 * What is asked of every session over HTTP/2: that its errors end it alone, and that it outlives its streams.
 *
 * Node keeps the headers of a block with their stream until it is whole, and those of too many for good, in memory that the session
 * counts. Where the session goes before the stream its count is not zero, and Node ends the process. There are two ways to that:
 *
 * - The client leaves while an answer of the stream is on its way to the socket: both are left to the collector. A POST and half of
 *   its trailers were enough, over TLS. So whoever has a body has the session kept until the stream is collected.
 * - Both go in one turn of the event loop, in which the collector runs: Node frees the stream at the turn's end. More headers than
 *   are taken and a goodbye were enough, in cleartext. So each session is kept until the turn in which it went is over.
 */
import type { Http2SecureServer, Http2Server, ServerHttp2Session, ServerHttp2Stream } from "node:http2";

export function watchSessions(server: Http2Server | Http2SecureServer): void {
  server.on("session", (session: ServerHttp2Session) => {
    session.on("error", () => session.destroy());
    keepForTurn(session);
  });
  server.on("sessionError", () => {});
  server.prependListener("stream", keepSession);
}

/** The listener holds Node's half: at "close" the session has let go of it. */
function keepForTurn(session: ServerHttp2Session): void {
  const ofSession = nodesHalfOf(session);
  session.once("close", () => setImmediate(() => ofSession));
}

/** What each of these holds lives for as long as it does, and a cycle of the collector longer. */
const kept = new FinalizationRegistry<object>(() => {});

function keepSession(stream: ServerHttp2Stream): void {
  // Behind the end there are no trailers. A stream that is closed has neither half of one nor a session.
  const session = stream.session as ServerHttp2Session | undefined;
  if (stream.endAfterHeaders || session === undefined) return;
  const [ofStream, ofSession] = [nodesHalfOf(stream), nodesHalfOf(session)];
  if (ofStream !== undefined && ofSession !== undefined) kept.register(ofStream, ofSession);
}

/** Node's own half of a stream or of a session, which is what is collected. Undocumented; a test misses it where it is not there. */
function nodesHalfOf(of: object): object | undefined {
  const symbol = Object.getOwnPropertySymbols(of).find(({ description }) => description === "kHandle");
  return symbol && (of as Record<symbol, object | undefined>)[symbol];
}
