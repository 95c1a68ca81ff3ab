/**
 * Refusals that many get at once: for want of room, or of a key. They are made once for each kind of call, since refusing
 * has to be far cheaper than serving. A few are given out in each turn, so that a client that comes again at once waits for
 * its answer, and does not take the time of those who are served. The wait is short and the crowd is bounded.
 */
import type { Refusal } from "../../otp/reason.ts";
import { write, type Sendable } from "../http/response.ts";
import type { Request, Response } from "../listener/exchange.ts";
import { refusalOn } from "./errors.ts";
import { discard } from "../http/body.ts";
import type { Routed } from "./routes.ts";
import { createTurns } from "./door.ts";

/** Refuses a call in its turn; resolves with the status of the answer, which goes to others too but for the call's id. */
export type RefuseShortly = (
  request: Request,
  response: Response,
  routed: Routed,
  refusal: Refusal,
  callId?: string,
) => Promise<number>;

/**
 * Such refusals in one turn: with 128, 4,000 streams that came again at once took a quarter of the machine's time; with 32
 * they waited 3 s for their refusal.
 */
const perTurn = 64;
/** And how many may wait for that; further ones are answered at once. */
const waitingMax = 4_096;
/** One per reason, surface and content type in use; a client can invent no more than this. */
const answersMax = 64;

/** `mark` lets a page read the answer. */
export function createShortRefusals(mark: (request: Request, response: Response) => Promise<void>): RefuseShortly {
  const answers = new Map<string, Sendable>();
  const waiting: (() => void)[] = [];
  const turns = createTurns(perTurn, (atMost) => {
    const next = waiting.splice(0, atMost);
    for (const begin of next) begin();
    return next.length;
  });

  function answerOf({ surface, type }: Routed, refusal: Refusal): Sendable {
    const name = `${refusal.reason} ${surface} ${type}`;
    const known = answers.get(name);
    if (known !== undefined) return known;
    const made = refusalOn(surface, type, refusal);
    if (answers.size < answersMax) answers.set(name, made);
    return made;
  }

  return async (request, response, routed, refusal, callId) => {
    if (waiting.length < waitingMax && (waiting.length > 0 || !turns.take())) {
      await new Promise<void>((resolve) => void waiting.push(resolve));
    }
    discard(request);
    if (request.headers.origin !== undefined) await mark(request, response);
    const answer = answerOf(routed, refusal);
    write(response, answer, callId);
    return answer.status;
  };
}
