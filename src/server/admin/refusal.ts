/**
 * A refusal of the operators' service: one that callers know (otp/reason.ts), or one of its own. It has the details of
 * google.rpc that every other error has.
 */
import { Code, ConnectError } from "@connectrpc/connect";
import { errorToJson } from "@connectrpc/connect/protocol-connect";
import { BadRequestSchema, ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { invalid, refuse, reasons, type Reason, type Refusal } from "../../otp/reason.ts";
import type { Sendable } from "../http/response.ts";
import { jsonOptions } from "../rpc/decoding.ts";
import { errorDomain, errorOn, httpStatus, refusalOn, toConnectError } from "../rpc/errors.ts";
import { frameOf } from "../rpc/frames.ts";
import type { Routed } from "../rpc/routes.ts";
import { inOwnSize } from "../rpc/turn-away.ts";

/** A message has lists of settings in it at most, of which texts are the longest: 32 KiB. */
export const bodyBytesMax = 65_536;

const ownReasons = {
  NOT_FOUND: { code: Code.NotFound, http: 404, sentence: "There is nothing of this name." },
  ALREADY_EXISTS: { code: Code.AlreadyExists, http: 409, sentence: "There is one of this name already." },
  TOO_MANY: { code: Code.FailedPrecondition, http: 400, sentence: "There are as many of these as there may be." },
  ENDED: { code: Code.FailedPrecondition, http: 400, sentence: "It has ended already." },
  SESSION_INVALID: { code: Code.Unauthenticated, http: 401, sentence: "The session is over. Sign in again." },
} as const;

type OwnReason = keyof typeof ownReasons;

interface OwnRefusal {
  readonly reason: OwnReason;
  /** The request's field at fault. */
  readonly field?: string;
  /** Says more than the reason's sentence. Never echoes a value. */
  readonly message?: string;
}

export type AdminRefusal = Refusal | OwnRefusal;

/** A value, or why there is none. */
export type AdminResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly refusal: AdminRefusal };

/** Refuses for a reason of callers' or of our own. */
export function refuseAdmin(
  reason: Reason | OwnReason,
  more: Omit<OwnRefusal, "reason"> = {},
): { readonly ok: false; readonly refusal: AdminRefusal } {
  return isOwn(reason) ? { ok: false, refusal: { reason, ...more } } : refuse(reason, more);
}

/** What is not there and what is another tenant's: the same words, byte for byte. */
export const notFound = refuseAdmin("NOT_FOUND");

/** An INVALID_REQUEST of a field. `rest` says what it must be, without its value. */
export function badField(field: string, rest: string): { readonly ok: false; readonly refusal: AdminRefusal } {
  return invalid(field, `${field} ${rest}.`);
}

function isOwn(reason: Reason | OwnReason): reason is OwnReason {
  return !Object.hasOwn(reasons, reason);
}

function isOwnRefusal(refusal: AdminRefusal): refusal is OwnRefusal {
  return isOwn(refusal.reason);
}

/** A refusal as Connect's error, with its details. */
export function adminError(refusal: AdminRefusal): ConnectError {
  if (!isOwnRefusal(refusal)) return toConnectError(inOwnSize(refusal, bodyBytesMax));
  const { reason, field } = refusal;
  const { code, sentence } = ownReasons[reason];
  const message = refusal.message ?? sentence;
  const metadata: Record<string, string> = field === undefined ? {} : { field };
  return new ConnectError(message, code, undefined, [
    { desc: ErrorInfoSchema, value: { reason, domain: errorDomain, metadata } },
    ...(field === undefined
      ? []
      : [{ desc: BadRequestSchema, value: { fieldViolations: [{ field, description: message }] } }]),
  ]);
}

const endOfStream = 2;

/** A refusal before any handler ran, as the call's surface shows it. */
export function refuseCall(
  { surface, type, handler }: Pick<Routed, "surface" | "type" | "handler">,
  refusal: AdminRefusal,
): Sendable {
  if (surface === "connect" && handler.method.methodKind !== "unary") {
    const error = errorToJson(adminError(refusal), jsonOptions);
    const body = frameOf(endOfStream, Buffer.from(JSON.stringify({ error })));
    return { status: 200, headers: { "content-type": type }, body };
  }
  if (!isOwnRefusal(refusal)) return refusalOn(surface, type, inOwnSize(refusal, bodyBytesMax));
  return errorOn({ surface, type, status: ownReasons[refusal.reason].http }, adminError(refusal));
}

/** The HTTP status that a refusal is logged with. */
export function statusOf(refusal: AdminRefusal): number {
  return isOwnRefusal(refusal) ? ownReasons[refusal.reason].http : httpStatus(refusal);
}
