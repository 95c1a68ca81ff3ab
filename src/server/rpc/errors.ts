/**
 * A refusal on the wire. One table (otp/reason.ts) becomes a ConnectError, which Connect encodes for gRPC, gRPC-web and
 * Connect; the REST paths get the essentials at the top level besides. Every error carries google.rpc details for stock
 * helpers and `otp.v1.OtpError` for typed clients, each at most once.
 */
import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { OtpErrorSchema, Reason as ProtoReason } from "../../../gen/otp/v1/otp_service_pb.ts";
import {
  codeOfRefusal,
  reasons,
  retryAfterSeconds,
  sentenceOf,
  type Reason,
  type Refusal,
  type StatusCode,
} from "../../otp/reason.ts";

/** The `domain` of google.rpc.ErrorInfo. */
const domain = "otpd";

const statuses: Record<StatusCode, { code: Code; http: number }> = {
  INVALID_ARGUMENT: { code: Code.InvalidArgument, http: 400 },
  FAILED_PRECONDITION: { code: Code.FailedPrecondition, http: 400 },
  NOT_FOUND: { code: Code.NotFound, http: 404 },
  UNAUTHENTICATED: { code: Code.Unauthenticated, http: 401 },
  PERMISSION_DENIED: { code: Code.PermissionDenied, http: 403 },
  RESOURCE_EXHAUSTED: { code: Code.ResourceExhausted, http: 429 },
  ABORTED: { code: Code.Aborted, http: 409 },
  UNIMPLEMENTED: { code: Code.Unimplemented, http: 501 },
  UNAVAILABLE: { code: Code.Unavailable, http: 503 },
  DEADLINE_EXCEEDED: { code: Code.DeadlineExceeded, http: 504 },
  INTERNAL: { code: Code.Internal, http: 500 },
};

/** The proto's value for each reason. Neither side compiles with a reason that the other lacks. */
export const protoReasons: Record<Reason, ProtoReason> = ProtoReason;
type Unlisted = Exclude<keyof typeof ProtoReason, Reason | "UNSPECIFIED">;
export const everyReasonIsListed: [Unlisted] extends [never] ? true : Unlisted = true;

/** The HTTP status of a refusal on REST and Connect. */
export function httpStatus(refusal: Refusal): number {
  const row: { code: StatusCode; http?: number } = reasons[refusal.reason];
  return row.http ?? statuses[codeOfRefusal(refusal)].http;
}

/** The code by its number; undefined for one that is not in use here. */
export function codeNamed(code: Code): StatusCode | undefined {
  return (Object.keys(statuses) as StatusCode[]).find((name) => statuses[name].code === code);
}

/** A refusal as Connect's error, with its details and its `Retry-After`. */
export function toConnectError(refusal: Refusal): ConnectError {
  const { reason, field, attemptsRemaining } = refusal;
  const sentence = sentenceOf(refusal);
  const seconds = retryAfterSeconds(refusal);
  const delay = seconds === undefined ? undefined : { seconds: BigInt(seconds) };
  const metadata: Record<string, string> = {
    ...(field === undefined ? {} : { field }),
    ...(attemptsRemaining === undefined ? {} : { attempts_remaining: `${attemptsRemaining}` }),
  };
  const details = [
    detail(ErrorInfoSchema, { reason, domain, metadata }),
    detail(OtpErrorSchema, {
      reason: protoReasons[reason],
      ...(field === undefined ? {} : { field }),
      ...(attemptsRemaining === undefined ? {} : { attemptsRemaining }),
      ...(delay === undefined ? {} : { retryAfter: delay }),
    }),
    ...(delay === undefined ? [] : [detail(RetryInfoSchema, { retryDelay: delay })]),
    ...(field === undefined || codeOfRefusal(refusal) !== "INVALID_ARGUMENT"
      ? []
      : [detail(BadRequestSchema, { fieldViolations: [{ field, description: sentence }] })]),
  ];
  const headers: Record<string, string> = {
    ...(seconds === undefined ? {} : { "retry-after": `${seconds}`, "grpc-retry-pushback-ms": `${seconds * 1000}` }),
    ...(refusal.mayBeDone === true ? { "grpc-retry-pushback-ms": "-1" } : {}),
    ...(codeOfRefusal(refusal) === "UNAUTHENTICATED" ? { "www-authenticate": "Bearer" } : {}),
  };
  return new ConnectError(sentence, statuses[codeOfRefusal(refusal)].code, headers, details);
}

/** What the REST paths put at the top level of an error's body. */
export function restErrorFields(refusal: Refusal): Record<string, string | number> {
  const seconds = retryAfterSeconds(refusal);
  return {
    reason: refusal.reason,
    ...(refusal.field === undefined ? {} : { field: refusal.field }),
    ...(refusal.attemptsRemaining === undefined ? {} : { attempts_remaining: refusal.attemptsRemaining }),
    ...(seconds === undefined ? {} : { retry_after_seconds: seconds }),
  };
}

function detail<D extends DescMessage>(desc: D, value: MessageInitShape<D>) {
  return { desc, value: value as Record<string, unknown> };
}
