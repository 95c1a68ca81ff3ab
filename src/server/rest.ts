/**
 * The REST paths: the same handlers as the RPCs, by another name. A path is rewritten to its RPC; the answer is
 * Connect's, and an error's essentials are repeated at the top level of the body.
 */
import { errorToJson } from "@connectrpc/connect/protocol-connect";
import type { Refusal } from "../otp/reason.ts";
import { httpStatus, restErrorFields, toConnectError } from "./status.ts";

/** One REST path. */
interface RestRoute {
  readonly method: "GET" | "POST";
  readonly path: RegExp;
  readonly rpc: string;
}

/** Everything that `/v1` answers to. `{request_id}` takes whatever is one path segment and not a path of its own. */
const routes: readonly RestRoute[] = [
  { method: "POST", path: /^\/v1\/otp\/send$/, rpc: "SendOtp" },
  { method: "POST", path: /^\/v1\/otp\/verify$/, rpc: "VerifyOtp" },
  { method: "POST", path: /^\/v1\/otp\/resend$/, rpc: "ResendOtp" },
  { method: "POST", path: /^\/v1\/otp\/cancel$/, rpc: "CancelOtp" },
  { method: "GET", path: /^\/v1\/otp\/([^/]{1,256})$/, rpc: "GetOtp" },
];

/** What a path leads to: an RPC, with the body that the path itself carries; or the methods it does take. */
export type RestMatch =
  | { readonly kind: "rpc"; readonly rpc: string; readonly body: Uint8Array | undefined }
  | { readonly kind: "method-not-allowed"; readonly allow: string };

/** Finds the route of a path without its query; undefined when `/v1` has none. */
export function matchRest(method: string, path: string): RestMatch | undefined {
  for (const route of routes) {
    const found = route.path.exec(path);
    if (found === null) continue;
    const segment = found[1];
    if (route.method === method) {
      const body =
        segment === undefined ? undefined : Buffer.from(JSON.stringify({ request_id: decodeSegment(segment) }));
      return { kind: "rpc", rpc: route.rpc, body };
    }
    // A POST to /v1/otp/verfy is a typo, not a wrong method on a verification.
    const isTypo = segment !== undefined && segment.length !== requestIdChars;
    return isTypo ? undefined : { kind: "method-not-allowed", allow: route.method };
  }
  return undefined;
}

const requestIdChars = 22;

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    // Not a spelling of any id: it is looked up as it stands, and not found.
    return segment;
  }
}

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
