/**
 * Whether a stranger's requests wait for us, or we wait for the stranger.
 */
import { constants } from "node:http2";
import type { Response } from "./exchange.ts";

/** Whether an answer is ours to give: the request has come whole, and not all of the answer is handed to the connection. */
export function isOwed(response: Response): boolean {
  if (!("stream" in response)) return response.req.complete && !response.writableEnded;
  const { stream } = response;
  if (stream.destroyed || isGiven(response)) return false;
  // While Node tells of a stream, its state is not yet that of what its headers said.
  return stream.endAfterHeaders || stream.state.state === constants.NGHTTP2_STREAM_STATE_HALF_CLOSED_REMOTE;
}

/** How many of these answers are ours to give. */
export function owed(answers: ReadonlySet<Response>): number {
  return countOf(answers, isOwed);
}

/** How many of these answers were given in full, and are there because nobody takes them. */
export function untaken(answers: ReadonlySet<Response>): number {
  return countOf(answers, isGiven);
}

/** Whether all of an answer is handed over. Node ends the stream of a HEAD as it comes, before there is an answer. */
function isGiven(response: Response): boolean {
  if (!("stream" in response)) return response.writableEnded;
  const { headersSent, writableEnded } = response.stream;
  return headersSent && writableEnded;
}

function countOf(answers: ReadonlySet<Response>, has: (answer: Response) => boolean): number {
  let count = 0;
  for (const answer of answers) if (has(answer)) count += 1;
  return count;
}
