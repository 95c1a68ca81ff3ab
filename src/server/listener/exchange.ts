/**
 * One HTTP exchange as node has it, on either version, and who answers it. The listener knows nothing else of what is asked.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { Socket } from "node:net";

export type Request = IncomingMessage | Http2ServerRequest;
export type Response = ServerResponse | Http2ServerResponse;

/** What a listener hands its requests to. */
export interface RequestHandler {
  /** Answers one request. Never throws. Once its answer is to last, which nobody dawdles over, `lasts` is run. */
  handle(request: Request, response: Response, lasts?: () => void): unknown;
  /** Answers a request whose Expect asks for what is not served. */
  refuseExpectation(request: Request, response: Response): void;
  /** Answers bytes that are no request, or not in time (node's `clientError`). */
  answerUnreadable(error: NodeJS.ErrnoException, socket: Socket | { writable: boolean; destroy(): void }): void;
  /** From now on every new call is refused as SHUTTING_DOWN; resolves when the last one under way is answered. */
  drain(): Promise<void>;
}
