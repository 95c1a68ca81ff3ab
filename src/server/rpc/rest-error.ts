/**
 * An error as the REST paths show it: Connect's body, with its essentials repeated at the top level. So does whatever never
 * became a call.
 */
import type { ConnectError } from "@connectrpc/connect";
import { errorToJson } from "@connectrpc/connect/protocol-connect";
import type { Refusal } from "../../otp/reason.ts";
import { jsonOptions } from "./decoding.ts";
import { httpStatus, restErrorFields, toConnectError } from "./errors.ts";

/** The status, the headers and the whole body. `error` is the refusal as Connect's, where it is made already. */
export function restError(
  refusal: Refusal,
  error: ConnectError = toConnectError(refusal),
): { status: number; headers: Record<string, string>; body: string } {
  const { code, message, details } = errorToJson(error, jsonOptions) as Record<string, unknown>;
  return {
    status: httpStatus(refusal),
    headers: { ...Object.fromEntries(error.metadata), "content-type": "application/json" },
    body: JSON.stringify({ code, message, ...restErrorFields(refusal), details }),
  };
}
