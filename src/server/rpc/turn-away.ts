/**
 * The answer to a request that never becomes a call: in the form of REST or of gRPC, with an id of its own that the log
 * has too.
 */
import type { TurnedAway } from "../../observe/turned-away.ts";
import type { Refusal } from "../../otp/reason.ts";
import { write } from "../http/response.ts";
import type { Request, Response } from "../listener/exchange.ts";
import { refusalBefore } from "./errors.ts";
import type { Surface } from "../http/headers.ts";
import { pathOf } from "./routes.ts";

/** Answers a request with a refusal. The body is left to the caller to discard. */
export type TurnAway = (request: Request, response: Response, refusal: Refusal, more?: More) => void;

export interface More {
  /** Beside those of the refusal. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The surface that it came by, where it led to an RPC. */
  readonly surface?: Surface;
  /** Instead of that of the reason. */
  readonly status?: number;
}

/** `newId` makes the answers' ids; `onTurnedAway` gets each request that is answered so. */
export function createTurnAway(newId: () => string, onTurnedAway?: (request: TurnedAway) => void): TurnAway {
  return (request, response, refusal, more = {}) => {
    const id = newId();
    const made = refusalBefore(request, refusal, more.surface);
    const { status = made.status } = more;
    write(response, { ...made, status, headers: { ...more.headers, ...made.headers } }, id);
    const { method = "" } = request;
    const { reason } = refusal;
    const why = reason === "ORIGIN_NOT_ALLOWED" ? { origin: request.headers.origin } : {};
    onTurnedAway?.({ id, reason, status, method, path: pathOf(request), ...why });
  };
}

/** Says of what is too large how much may come here: the reason's own sentence is about calls of OtpService. */
export function inOwnSize(refusal: Refusal, bytesMax: number): Refusal {
  if (refusal.reason !== "BODY_TOO_LARGE") return refusal;
  return { ...refusal, message: `The body is larger than ${bytesMax / 1_024} KiB.` };
}
