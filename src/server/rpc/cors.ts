/**
 * CORS: what a browser has to hear before a page may ask us, and may read what we say.
 *
 * A preflight comes without a key. So a page may if any active publishable key of any tenant lists its origin; whether the
 * call is let in is then up to its own key. Only that one origin is named, never all of them, and never with credentials:
 * there are no cookies here. Unless the call's own key lists the origin, it has to be looked up, and anybody can name one, with a
 * key or without: each address has so many looked up at once.
 */
import { cors } from "@connectrpc/connect";
import { isPublishable, type ApiKey } from "../../otp/keys/api-key.ts";
import { originCharsMax, originUnlisted } from "../../otp/keys/origin.ts";
import { answerAtOnce, discard } from "../http/body.ts";
import { writeWhole } from "../http/response.ts";
import type { Request, Response } from "../listener/exchange.ts";
import { reasonOf, type Budget } from "./budget.ts";
import type { Places } from "./door.ts";
import { refuseForNow, refusalOfFault } from "./faults.ts";
import { rpcRows } from "./rpcs.ts";
import type { TurnAway } from "./turn-away.ts";

export interface CorsOptions {
  readonly places: Places;
  readonly turnAway: TurnAway;
  /** Finds the address that a client's look-ups count for; undefined for one that many have. */
  readonly ownAddressOf: (request: Request) => string | undefined;
  /** Tells whether any active publishable key lists an origin; it may reject. */
  readonly listsOrigin: (origin: string) => Promise<boolean>;
  readonly pageCalls: Budget;
  /** Origins that are looked up at once so that a page may read its answer, whatever became of the call. */
  readonly originLooks: Budget;
  readonly onFault: (error: unknown) => void;
}

type Answer = (request: Request, response: Response) => Promise<void>;

export interface Cors {
  /**
   * Adds to an answer what lets a page of a listed origin read it, refusals too. Where the page's own key does not list it,
   * that is left out if the address has as many origins being looked up as it may. Before anything else is written. A fault of
   * the store is for the call itself to tell.
   */
  readonly mark: (request: Request, response: Response, key?: ApiKey) => Promise<void>;
  /** Answers a preflight, on a path that there is. There is no key yet, and it has no place of a call. */
  readonly preflight: Answer;
}

const namesOf = (...names: readonly string[]) => names.join(", ");
const allowMethods = namesOf(...new Set(rpcRows.map(({ method }) => method)));
/** What tracing in a page puts on every request that it makes, whatever the page means to send. */
const tracingHeaders = ["traceparent", "tracestate", "baggage", "sentry-trace", "x-request-id"];
const allowHeaders = namesOf(
  ...new Set([...cors.allowedHeaders, "Authorization", "Content-Type", "Idempotency-Key", ...tracingHeaders]),
);
const exposeHeaders = namesOf(...cors.exposedHeaders, "Retry-After", "Idempotency-Replayed", "X-Call-Id");
/** For how long a browser need not ask again: two hours, the most that all of them take. */
const maxAgeSeconds = 7_200;

/** The method of the call that a browser asks about before a page sends it; undefined where OPTIONS is no such question. */
export function methodAskedBy({ headers }: Request): string | undefined {
  return headers.origin === undefined ? undefined : headers["access-control-request-method"];
}

function letRead(response: Response, origin: string): void {
  response.setHeader("access-control-allow-origin", origin);
  response.setHeader("access-control-expose-headers", exposeHeaders);
  response.setHeader("vary", "Origin");
}

export function createCors(options: CorsOptions): Cors {
  const { listsOrigin, places, pageCalls, originLooks, turnAway, ownAddressOf, onFault } = options;

  async function isListed(origin: string | undefined): Promise<boolean> {
    return origin !== undefined && origin.length <= originCharsMax && (await listsOrigin(origin));
  }

  async function answer(request: Request, response: Response): Promise<void> {
    const { origin } = request.headers;
    try {
      if (!(await isListed(origin))) return turnAway(request, response, originUnlisted);
    } catch (error) {
      onFault(error);
      return turnAway(request, response, refusalOfFault(error));
    }
    writeWhole(response, {
      status: 204,
      headers: {
        "access-control-allow-origin": `${origin}`,
        "access-control-allow-methods": allowMethods,
        "access-control-allow-headers": allowHeaders,
        "access-control-max-age": `${maxAgeSeconds}`,
        vary: "Origin",
      },
      body: new Uint8Array(),
    });
  }

  return {
    async mark(request, response, key) {
      const { origin } = request.headers;
      if (origin === undefined) return;
      if (key !== undefined && isPublishable(key.kind) && key.origins.includes(origin))
        return letRead(response, origin);
      const grant = originLooks.take(ownAddressOf(request));
      if (typeof grant === "string") return;
      try {
        if ((await isListed(origin)) && !response.headersSent) letRead(response, origin);
      } catch (error) {
        onFault(error);
      } finally {
        grant.giveBack();
      }
    },

    async preflight(request, response) {
      const grant = places.isDraining ? undefined : pageCalls.take(ownAddressOf(request));
      if (grant === undefined || typeof grant === "string") {
        discard(request);
        return turnAway(request, response, refuseForNow(grant === undefined ? "SHUTTING_DOWN" : reasonOf(grant)));
      }
      const place = places.begin();
      try {
        await answerAtOnce(request, () => answer(request, response));
      } finally {
        places.end(place);
        grant.giveBack();
      }
    },
  };
}
