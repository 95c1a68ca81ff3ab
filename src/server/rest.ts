/**
 * What the REST paths answer: the same handlers as the RPCs, by another name (rest-routes.ts). The answer is Connect's,
 * and an error's essentials are repeated at the top level of the body.
 */
import { errorToJson } from "@connectrpc/connect/protocol-connect";
import type { Refusal } from "../otp/reason.ts";
import { httpStatus, restErrorFields, toConnectError } from "./status.ts";

/** Repeats the essentials of a refusal at the top level of Connect's error body. */
export function restErrorBody(connectBody: Uint8Array, refusal: Refusal): Buffer {
  const { code, message, details } = JSON.parse(Buffer.from(connectBody).toString("utf8")) as Record<string, unknown>;
  return Buffer.from(JSON.stringify({ code, message, ...restErrorFields(refusal), details }));
}

/** The whole answer to a request that never became a call: an unknown path, method or type, or an oversize body. */
export function plainError(refusal: Refusal): { status: number; body: Buffer } {
  const { code, message, details } = errorToJson(toConnectError(refusal), undefined) as Record<string, unknown>;
  const body = { code, message, ...restErrorFields(refusal), details };
  return { status: httpStatus(refusal.reason), body: Buffer.from(JSON.stringify(body)) };
}
