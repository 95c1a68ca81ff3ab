/**
 * The RPCs of OtpService, a row each: all that the server has to know of one beside its messages. Routing, authorization,
 * limits, retries, CORS and gen/openapi.json read it here. That file is made before the rest of `gen/` is there, so nothing
 * here imports more than types from it.
 */
import type { OtpService } from "../../../gen/otp/v1/otp_service_pb.ts";
import type { Scope } from "../../otp/keys/api-key.ts";

/** An RPC as handlers.ts calls it, such as "sendOtp". */
export type HandlerName = keyof (typeof OtpService)["method"];

/** An RPC as the proto calls it, such as "SendOtp". */
export type RpcName = Capitalize<HandlerName>;

export interface Rpc {
  /** Its REST path. `{name}` stands for one segment, the request's field of that name. Without one, the body is the request. */
  readonly path: string;
  readonly method: "GET" | "POST";
  /** What a key needs to call it. */
  readonly scope: Scope;
  readonly handler: HandlerName;
  /** What a repeat does: nothing, what was done already, or the same once more unless it has the same Idempotency-Key. */
  readonly idempotency: "safe" | "idempotent" | "by key";
  /** The limit of an address that it counts in: that of messages, or that of all other calls. */
  readonly limit: "sends" | "calls";
}

export const rpcs: Readonly<Record<RpcName, Rpc>> = {
  SendOtp: {
    method: "POST",
    path: "/v1/otp/send",
    scope: "send",
    handler: "sendOtp",
    idempotency: "by key",
    limit: "sends",
  },
  VerifyOtp: {
    method: "POST",
    path: "/v1/otp/verify",
    scope: "verify",
    handler: "verifyOtp",
    idempotency: "by key",
    limit: "calls",
  },
  ResendOtp: {
    method: "POST",
    path: "/v1/otp/resend",
    scope: "resend",
    handler: "resendOtp",
    idempotency: "by key",
    limit: "sends",
  },
  CancelOtp: {
    method: "POST",
    path: "/v1/otp/cancel",
    scope: "cancel",
    handler: "cancelOtp",
    idempotency: "idempotent",
    limit: "calls",
  },
  // Last: it takes any one segment that is no path of its own.
  GetOtp: {
    method: "GET",
    path: "/v1/otp/{request_id}",
    scope: "read",
    handler: "getOtp",
    idempotency: "safe",
    limit: "calls",
  },
};

/** The rows with their names, in order. */
export const rpcRows = Object.entries(rpcs).map(([name, row]): Rpc & { readonly name: RpcName } => ({
  ...row,
  name: name as RpcName,
}));
