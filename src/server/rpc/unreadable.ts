/**
 * The answer to bytes on an HTTP/1 connection that are no request, or not in time: written in full by hand, since node has
 * made no response for it. The connection ends with it.
 */
import type { Socket } from "node:net";
import { invalid, refuse, type Refusal } from "../../otp/reason.ts";
import { restError } from "./rest-error.ts";

/** How long the answer has to leave. */
const lastAnswerMs = 1_000;

const tooLate = refuse("DEADLINE", { message: "The request was not here in time. It had no effect." }).refusal;
const malformed = answerOf("400 Bad Request", invalid(undefined, "The request is not well-formed HTTP.").refusal);
/** By node's code for what was wrong. */
const answers: ReadonlyMap<string, string> = new Map([
  [
    "HPE_HEADER_OVERFLOW",
    answerOf("431 Request Header Fields Too Large", invalid(undefined, "The headers are larger than 16 KiB.").refusal),
  ],
  ["ERR_HTTP_REQUEST_TIMEOUT", answerOf("408 Request Timeout", tooLate)],
]);

/** Takes node's `clientError`. */
export function answerUnreadable(
  error: NodeJS.ErrnoException,
  socket: Socket | { writable: boolean; destroy(): void },
): void {
  if (!socket.writable || !("end" in socket)) return void socket.destroy();
  setTimeout(() => socket.destroy(), lastAnswerMs).unref();
  socket.end(answers.get(error.code ?? "") ?? malformed);
}

function answerOf(status: string, refusal: Refusal): string {
  const { headers, body } = restError(refusal);
  const own = { connection: "close", "cache-control": "no-store", "content-length": `${Buffer.byteLength(body)}` };
  const lines = Object.entries({ ...headers, ...own }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status}\r\n${lines.join("")}\r\n${body}`;
}
