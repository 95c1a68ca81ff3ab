/**
 * What a browser needs before a page may ask us, and may read what we say. The origin has to be looked up, and anybody can
 * name one, with a key or without: each address has so many looked up at once.
 */
import { refuse, type Refusal } from "../../otp/reason.ts";
import type { Request, Response } from "../listener/exchange.ts";
import { reasonOf, type Budget } from "./budget.ts";
import type { Cors } from "../http/cors.ts";
import { retryAfterMs, type Places } from "./places.ts";
import { answerAtOnce, discard } from "../http/body.ts";
import type { TurnAway } from "./turn-away.ts";

export interface PageAnswersOptions {
  readonly cors: Cors;
  readonly places: Places;
  readonly pageCalls: Budget;
  /** Origins that are looked up at once so that a page may read its answer, whatever became of the call. */
  readonly originLooks: Budget;
  readonly turnAway: TurnAway;
  /** Finds the address whose share a client counts in; undefined for one that many have. */
  readonly shareOf: (request: Request) => string | undefined;
  readonly onFault: (error: unknown) => void;
  /** Makes what a caller is told of a fault that only the operator is to know. */
  readonly faultRefusal: (error: unknown) => Refusal;
}

type Answer = (request: Request, response: Response) => Promise<void>;

export interface PageAnswers {
  /**
   * Lets a page read the answer, unless the address has as many origins being looked up as it may. Whatever is wrong with
   * the store, the call itself is told.
   */
  readonly mark: Answer;
  /** Answers what a browser asks before it sends a page's call. There is no key yet, and it has no place of a call. */
  readonly preflight: Answer;
}

export function createPageAnswers(options: PageAnswersOptions): PageAnswers {
  const { cors, places, pageCalls, originLooks, turnAway, shareOf, onFault, faultRefusal } = options;

  return {
    async mark(request, response) {
      if (request.headers.origin === undefined) return;
      const share = originLooks.take(shareOf(request));
      if (typeof share === "string") return;
      try {
        await cors.mark(request, response);
      } catch (error) {
        onFault(error);
      } finally {
        share.giveBack();
      }
    },

    async preflight(request, response) {
      const share = places.isDraining ? undefined : pageCalls.take(shareOf(request));
      if (share === undefined || typeof share === "string") {
        discard(request);
        const reason = share === undefined ? "SHUTTING_DOWN" : reasonOf(share);
        return turnAway(request, response, refuse(reason, { retryAfterMs }).refusal);
      }
      const place = places.begin();
      const answer = async () => {
        const refusal = await cors.answerPreflight(request, response).catch(faultRefusal);
        if (refusal !== undefined) turnAway(request, response, refusal);
      };
      try {
        await answerAtOnce(request, answer);
      } finally {
        place.end();
        share.giveBack();
      }
    },
  };
}
