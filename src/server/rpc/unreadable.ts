/**
 * The answer to bytes on an HTTP/1 connection that are no request, come too late, or ask for a tunnel. It is written by
 * hand, since node has made no response for it. The connection ends with it.
 */
import type { TurnedAway } from "../../observe/turned-away.ts";
import { invalid, refuse, type Refusal } from "../../otp/reason.ts";
import { tunnelCode, type RequestHandler } from "../listener/exchange.ts";
import { restError } from "./errors.ts";
import { tunnel } from "./unserved.ts";

/** How long the answer has to leave. */
const lastAnswerMs = 1_000;

const tooLate = refuse("DEADLINE", { message: "The request was not here in time. It had no effect." }).refusal;
const tooLarge = invalid(undefined, "The headers are larger than 16 KiB.").refusal;
const malformed = answerOf(400, "Bad Request", invalid(undefined, "The request is not well-formed HTTP.").refusal);
/** By node's code for what was wrong. */
const answers: ReadonlyMap<string, UnreadableAnswer> = new Map([
  ["HPE_HEADER_OVERFLOW", answerOf(431, "Request Header Fields Too Large", tooLarge)],
  ["ERR_HTTP_REQUEST_TIMEOUT", answerOf(408, "Request Timeout", tooLate)],
  [tunnelCode, answerOf(405, "Method Not Allowed", tunnel.refusal, tunnel.headers)],
]);

interface UnreadableAnswer {
  readonly refusal: Refusal;
  readonly status: number;
  /** All of it, with the id of this one. */
  readonly textWith: (id: string) => string;
}

/** Takes node's `clientError`. `newId` makes the answers' ids, `onTurnedAway` gets each that is answered. */
export function createAnswerUnreadable(
  newId: () => string,
  onTurnedAway?: (request: TurnedAway) => void,
): RequestHandler["answerUnreadable"] {
  return (error, socket) => {
    if (!socket.writable || !("end" in socket)) {
      socket.destroy();
      return;
    }
    const { refusal, status, textWith } = answers.get(error.code ?? "") ?? malformed;
    const id = newId();
    const destroying = setTimeout(() => socket.destroy(), lastAnswerMs).unref();
    socket.once("close", () => clearTimeout(destroying));
    socket.end(textWith(id));
    // Its first line may be anything, or not be there.
    onTurnedAway?.({ id, reason: refusal.reason, status, method: "?", path: "?" });
  };
}

function answerOf(status: number, phrase: string, refusal: Refusal, more = {}): UnreadableAnswer {
  const { headers, body } = restError(refusal);
  const own = { connection: "close", "cache-control": "no-store", "content-length": `${Buffer.byteLength(body)}` };
  const lines = Object.entries<string>({ ...headers, ...more, ...own }).map(([name, value]) => `${name}: ${value}\r\n`);
  const rest = `${lines.join("")}\r\n${body}`;
  return { refusal, status, textWith: (id) => `HTTP/1.1 ${status} ${phrase}\r\nx-call-id: ${id}\r\n${rest}` };
}
