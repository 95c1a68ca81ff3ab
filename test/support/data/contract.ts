/**
 * The error table of the contract, written down a second time: what a caller may rely on for each reason. It is not
 * derived from the product's own table, so that a slip there shows.
 */
import { expect } from "vitest";
import type { Outcome } from "../clients/surfaces.ts";

/** Reason → [gRPC code, HTTP status on REST and Connect]. */
export const contract = {
  INVALID_REQUEST: ["INVALID_ARGUMENT", 400],
  PHONE_INVALID: ["INVALID_ARGUMENT", 400],
  PHONE_NOT_MOBILE: ["INVALID_ARGUMENT", 400],
  PHONE_UNREACHABLE: ["INVALID_ARGUMENT", 400],
  CHANNEL_UNSUPPORTED: ["INVALID_ARGUMENT", 400],
  CODE_MALFORMED: ["INVALID_ARGUMENT", 400],
  PURPOSE_MISMATCH: ["INVALID_ARGUMENT", 400],
  IDEMPOTENCY_KEY_REUSED: ["INVALID_ARGUMENT", 400],
  CODE_MISMATCH: ["FAILED_PRECONDITION", 400],
  OTP_EXPIRED: ["FAILED_PRECONDITION", 400],
  OTP_LOCKED: ["FAILED_PRECONDITION", 400],
  OTP_ALREADY_VERIFIED: ["FAILED_PRECONDITION", 400],
  OTP_CANCELED: ["FAILED_PRECONDITION", 400],
  OTP_FAILED: ["FAILED_PRECONDITION", 400],
  RESENDS_EXHAUSTED: ["FAILED_PRECONDITION", 400],
  REQUEST_NOT_FOUND: ["NOT_FOUND", 404],
  API_KEY_MISSING: ["UNAUTHENTICATED", 401],
  API_KEY_INVALID: ["UNAUTHENTICATED", 401],
  API_KEY_EXPIRED: ["UNAUTHENTICATED", 401],
  API_KEY_REVOKED: ["UNAUTHENTICATED", 401],
  SCOPE_MISSING: ["PERMISSION_DENIED", 403],
  ORIGIN_NOT_ALLOWED: ["PERMISSION_DENIED", 403],
  SECRET_KEY_IN_BROWSER: ["PERMISSION_DENIED", 403],
  CHALLENGE_FAILED: ["PERMISSION_DENIED", 403],
  COUNTRY_NOT_ALLOWED: ["PERMISSION_DENIED", 403],
  DESTINATION_BLOCKED: ["PERMISSION_DENIED", 403],
  RESEND_TOO_SOON: ["RESOURCE_EXHAUSTED", 429],
  PHONE_RATE_LIMITED: ["RESOURCE_EXHAUSTED", 429],
  KEY_RATE_LIMITED: ["RESOURCE_EXHAUSTED", 429],
  IP_RATE_LIMITED: ["RESOURCE_EXHAUSTED", 429],
  SPEND_LIMIT: ["RESOURCE_EXHAUSTED", 429],
  LIMIT_REACHED: ["RESOURCE_EXHAUSTED", 429],
  IDEMPOTENCY_IN_PROGRESS: ["ABORTED", 409],
  DELIVERY_FAILED: ["UNAVAILABLE", 503],
  STORE_UNAVAILABLE: ["UNAVAILABLE", 503],
  SHUTTING_DOWN: ["UNAVAILABLE", 503],
  ROUTE_NOT_FOUND: ["NOT_FOUND", 404],
  METHOD_NOT_ALLOWED: ["INVALID_ARGUMENT", 405],
  BODY_TOO_LARGE: ["RESOURCE_EXHAUSTED", 413],
  MEDIA_TYPE_UNSUPPORTED: ["INVALID_ARGUMENT", 415],
  DEADLINE: ["DEADLINE_EXCEEDED", 504],
  INTERNAL: ["INTERNAL", 500],
} as const satisfies Record<string, readonly [code: string, http: number]>;

export type ContractReason = keyof typeof contract;

/** What a refusal says besides its reason. */
export interface Particulars {
  readonly field?: string;
  readonly attemptsRemaining?: number;
  readonly retryAfterSeconds?: number;
  /** True where a client must not retry, since the call may have taken effect. */
  readonly mayBeDone?: boolean;
  /** What ErrorInfo says beside the field and the attempts. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** The pushback of a refusal: only what a library may retry by itself has one that lets it. */
export function pushbackOf(
  reason: ContractReason,
  { mayBeDone = false, retryAfterSeconds }: { mayBeDone?: boolean; retryAfterSeconds?: number | undefined },
): string | null {
  if (mayBeDone) return "-1";
  const mayBeRetried = ["UNAVAILABLE", "ABORTED"].includes(contract[reason][0]);
  return mayBeRetried && retryAfterSeconds !== undefined ? `${retryAfterSeconds * 1000}` : null;
}

/** Checks a refusal whole: code, status, headers and every detail, each present exactly where the contract has it. */
export function expectRefusal(
  outcome: Outcome,
  reason: ContractReason,
  { mayBeDone = false, metadata, ...particulars }: Particulars = {},
): void {
  const { field, attemptsRemaining, retryAfterSeconds } = particulars;
  const [code, http] = contract[reason];
  const seconds = retryAfterSeconds === undefined ? undefined : `${retryAfterSeconds}s`;
  const isBadRequest = code === "INVALID_ARGUMENT" && field !== undefined;
  const { headers, ...said } = outcome;
  expect({
    ...said,
    retryAfter: headers.get("retry-after"),
    pushback: headers.get("grpc-retry-pushback-ms"),
  }).toEqual({
    reason,
    code,
    http: outcome.http === undefined ? undefined : http,
    message: expect.stringMatching(/^[A-Za-z][^\n]+[.?]$/) as string,
    ...particulars,
    retryAfter: retryAfterSeconds === undefined ? null : `${retryAfterSeconds}`,
    pushback: pushbackOf(reason, { mayBeDone, retryAfterSeconds }),
    details: {
      "google.rpc.ErrorInfo": {
        reason,
        domain: "otpd",
        ...(field === undefined && attemptsRemaining === undefined && metadata === undefined
          ? {}
          : {
              metadata: {
                ...(field === undefined ? {} : { field }),
                ...(attemptsRemaining === undefined ? {} : { attempts_remaining: `${attemptsRemaining}` }),
                ...metadata,
              },
            }),
      },
      "otp.v1.OtpError": {
        reason: `REASON_${reason}`,
        ...(field === undefined ? {} : { field }),
        ...(attemptsRemaining === undefined ? {} : { attempts_remaining: attemptsRemaining }),
        ...(seconds === undefined ? {} : { retry_after: seconds }),
      },
      ...(seconds === undefined ? {} : { "google.rpc.RetryInfo": { retryDelay: seconds } }),
      ...(isBadRequest
        ? { "google.rpc.BadRequest": { fieldViolations: [{ field, description: outcome.message }] } }
        : {}),
    },
  });
}
