/**
 * Paths that are no RPC. A page is read by GET or HEAD: it waits for no body, so a client that never ends its request holds
 * up nothing. What acts, as a provider's report does, has a body: it is read within a budget of its own, and takes one of
 * the places of calls once it is whole.
 */
import { refuse, type Reason, type Refusal, type Result } from "../../otp/reason.ts";
import { peerOf } from "../rpc/authorize.ts";
import { answerPage, type Page, type Request, type Response } from "../http/response.ts";
import { createBudget, reasonOf, type BudgetLimits } from "../rpc/budget.ts";
import type { Places } from "../rpc/places.ts";
import { abandon, answerAtOnce, discard, readBody } from "../http/body.ts";
import { allowing, methodNotAllowed } from "../rpc/route.ts";
import type { TurnAway } from "../rpc/turn-away.ts";

/** A path that is no RPC: what it answers to, and how. */
export interface Visit {
  readonly methods: readonly string[];
  /** True for one that is answered also during a stop: it is asked how things are. */
  readonly isUrgent?: boolean;
  /** True for one that does something: it takes a place as a call does. */
  readonly acts?: boolean;
  /** Answers one request, given whole. A refusal is answered as on REST. */
  answer(request: {
    readonly method: string;
    readonly target: string;
    readonly headers: Readonly<Record<string, string | string[] | undefined>>;
    /** Empty for GET and HEAD. */
    readonly body: Uint8Array;
    /** The address at the other end of the connection, where it is known. */
    readonly peer: string | undefined;
  }): Promise<Result<Page>>;
}

export interface ReceptionOptions {
  readonly places: Places;
  readonly turnAway: TurnAway;
  /** Finds the address whose share a client's bodies count in; undefined for one that many have. */
  readonly shareOf: (request: Request) => string | undefined;
  /** How many bodies are read at once. */
  readonly bodies: BudgetLimits;
  readonly bodyBytesMax: number;
  /** How long a body may take. */
  readonly bodyMs: number;
  /** Makes what a caller is told of a fault that only the operator is to know. */
  readonly faultRefusal: (error: unknown) => Refusal;
}

export interface Reception {
  /** Answers a request to a path that is no RPC. */
  receive(visit: Visit, request: Request, response: Response): Promise<void>;
}

/** A full house is worth another try so much later. */
const retryAfterMs = 1_000;
const empty = new Uint8Array();

export function createReception(options: ReceptionOptions): Reception {
  const { places, turnAway, shareOf, bodyBytesMax, bodyMs, faultRefusal } = options;
  const bodies = createBudget(options.bodies);

  /** Sends a request away that may come again a little later. */
  function sendAway(request: Request, response: Response, reason: Reason): void {
    discard(request);
    turnAway(request, response, refuse(reason, { retryAfterMs }).refusal);
  }

  async function receive(visit: Visit, request: Request, response: Response): Promise<void> {
    const method = request.method ?? "";
    if (!visit.methods.includes(method)) {
      discard(request);
      const refused = methodNotAllowed(visit.methods);
      return turnAway(request, response, refused.refusal, allowing(refused));
    }
    const show = async (body: Uint8Array) => {
      const { url: target = "", headers } = request;
      const answer = await visit.answer({ method, target, headers, body, peer: peerOf(request) });
      if (!answer.ok) return turnAway(request, response, answer.refusal);
      answerPage(response, answer.value, method === "HEAD");
    };
    if (places.isDraining && visit.isUrgent !== true) return sendAway(request, response, "SHUTTING_DOWN");
    if (method !== "GET" && method !== "HEAD") return readAndShow(request, response, show);
    return answerAtOnce(request, async () => {
      if (visit.acts === true) return withPlace(request, response, () => show(empty));
      try {
        await show(empty);
      } catch (error) {
        turnAway(request, response, faultRefusal(error));
      }
    });
  }

  /** Reads a body within the budget of them, and takes a place once it is whole. */
  async function readAndShow(
    request: Request,
    response: Response,
    show: (body: Uint8Array) => Promise<void>,
  ): Promise<void> {
    const share = bodies.take(shareOf(request));
    if (typeof share === "string") return sendAway(request, response, reasonOf(share));
    share.yieldTo(() => abandon(request));
    const place = places.begin();
    try {
      const body = await readBody(request, bodyBytesMax, bodyMs);
      if (body === undefined) return;
      if (body === "too large") return turnAway(request, response, refuse("BODY_TOO_LARGE").refusal);
      if (body === "too slow") return turnAway(request, response, refuse("DEADLINE").refusal);
      share.giveBack();
      await withPlace(request, response, () => show(body), place);
    } finally {
      share.giveBack();
      place.end();
    }
  }

  async function withPlace(
    request: Request,
    response: Response,
    act: () => Promise<void>,
    place = places.begin(),
  ): Promise<void> {
    try {
      if (!place.take()) return sendAway(request, response, "STORE_UNAVAILABLE");
      await act();
    } catch (error) {
      turnAway(request, response, faultRefusal(error));
    } finally {
      place.end();
    }
  }

  return { receive };
}
