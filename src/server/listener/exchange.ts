/**
 * One HTTP exchange as node has it, on either version, and who answers it. The listener knows nothing else of what is asked.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse, ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";

export type Request = IncomingMessage | Http2ServerRequest;
export type Response = ServerResponse | Http2ServerResponse;

/** Whether a stream is closed: nobody is there to take an answer. */
export function isOver(stream: ServerHttp2Stream): boolean {
  return stream.closed || stream.destroyed;
}

/** The connection that a request came by; undefined for a stream that is closed, which no longer knows. */
export function connectionOf(request: Request): object | undefined {
  return "stream" in request ? request.stream.session : request.socket;
}

/**
 * An Expect that asks for anything but 100-continue, a CONNECT, HTTP/1.1 without a Host or with several, or a body in another
 * Transfer-Encoding than the chunks of HTTP/1.1; and on HTTP/1 more than 100 headers.
 */
export type Unserved = "expectation" | "tunnel" | "not one host" | "framing" | "too many headers";

/** As the code of an error, which node has none for. */
export const tunnelCode = "OTPD_TUNNEL";

/** What a listener hands its requests to. */
export interface RequestHandler {
  /** Answers one request. Never throws. Once its answer is to last, which nobody dawdles over, `lasts` is run. */
  handle(request: Request, response: Response, lasts?: () => void): unknown;
  /** Answers a request that nobody serves, wherever it leads. */
  refuseUnserved(request: Request, response: Response, what: Unserved): void;
  /**
   * Answers bytes that are no request, or not in time (node's `clientError`), or a CONNECT on HTTP/1 (`tunnelCode`): node has made no
   * response for any of them.
   */
  answerUnreadable(
    error: { readonly code?: string | undefined },
    socket: Socket | { writable: boolean; destroy(): void },
  ): void;
  /** From now on every new call is refused as SHUTTING_DOWN; resolves when the last one under way is answered. */
  drain(): Promise<void>;
}
