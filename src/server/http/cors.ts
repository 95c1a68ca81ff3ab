/**
 * CORS: what a browser has to be told before a page may ask us, and may read what we say.
 *
 * A page is told so if any active publishable key of any tenant lists its origin, since a preflight comes without a key;
 * whether the call is let in is then up to its own key. Only that one origin is named, never all of them, and never with
 * credentials: there are no cookies here.
 */
import { cors } from "@connectrpc/connect";
import { originCharsMax } from "../../otp/origin.ts";
import { refuse, type Refusal } from "../../otp/reason.ts";
import { writeWhole } from "./response.ts";
import type { Request, Response } from "../listener/exchange.ts";

export interface Cors {
  /** Answers a preflight, on a path that there is; or resolves with why not, which is to be answered. */
  answerPreflight(request: Request, response: Response): Promise<Refusal | undefined>;
  /** Adds to an answer what lets a page of a listed origin read it, refusals too. Before anything else is written. */
  mark(request: Request, response: Response): Promise<void>;
}

const namesOf = (...names: readonly string[]) => names.join(", ");
const allowMethods = namesOf(...cors.allowedMethods);
/** What tracing in a page puts on every request that it makes, whatever the page means to send. */
const tracingHeaders = ["traceparent", "tracestate", "baggage", "sentry-trace", "x-request-id"];
const allowHeaders = namesOf(
  ...new Set([...cors.allowedHeaders, "Authorization", "Content-Type", "Idempotency-Key", ...tracingHeaders]),
);
const exposeHeaders = namesOf(...cors.exposedHeaders, "Retry-After", "Idempotency-Replayed", "X-Call-Id");
/** For how long a browser need not ask again: two hours, the most that all of them take. */
const maxAgeSeconds = 7_200;

/** True for what a browser asks before it sends a page's call. */
export function isPreflight({ method, headers }: Request): boolean {
  return method === "OPTIONS" && headers.origin !== undefined && headers["access-control-request-method"] !== undefined;
}

/** `listsOrigin` tells whether any active publishable key lists an origin; it may reject. */
export function createCors(listsOrigin: (origin: string) => Promise<boolean>): Cors {
  async function isListed(origin: string | undefined): Promise<boolean> {
    return origin !== undefined && origin.length <= originCharsMax && (await listsOrigin(origin));
  }

  return {
    async answerPreflight(request, response) {
      const { origin } = request.headers;
      if (!(await isListed(origin))) {
        const message = "No publishable API key lists this origin.";
        return refuse("ORIGIN_NOT_ALLOWED", { message }).refusal;
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
      return undefined;
    },

    async mark(request, response) {
      const { origin } = request.headers;
      if (!(await isListed(origin)) || response.headersSent) return;
      response.setHeader("access-control-allow-origin", `${origin}`);
      response.setHeader("access-control-expose-headers", exposeHeaders);
      response.setHeader("vary", "Origin");
    },
  };
}
