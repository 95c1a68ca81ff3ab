import { describe, expect, test } from "vitest";
import {
  codeOf,
  invalid,
  reasons,
  refuse,
  retryAfterSeconds,
  sentenceOf,
  type Reason,
  type StatusCode,
} from "../../src/otp/reason.ts";

/** The error table of the contract. A reason never changes its code. */
const table: Record<StatusCode, readonly Reason[]> = {
  INVALID_ARGUMENT: [
    "INVALID_REQUEST",
    "PHONE_INVALID",
    "PHONE_NOT_MOBILE",
    "PHONE_UNREACHABLE",
    "CHANNEL_UNSUPPORTED",
    "CODE_MALFORMED",
    "PURPOSE_MISMATCH",
    "IDEMPOTENCY_KEY_REUSED",
    "METHOD_NOT_ALLOWED",
    "MEDIA_TYPE_UNSUPPORTED",
  ],
  FAILED_PRECONDITION: [
    "CODE_MISMATCH",
    "OTP_EXPIRED",
    "OTP_LOCKED",
    "OTP_ALREADY_VERIFIED",
    "OTP_CANCELED",
    "OTP_FAILED",
    "RESENDS_EXHAUSTED",
  ],
  NOT_FOUND: ["REQUEST_NOT_FOUND", "ROUTE_NOT_FOUND"],
  UNAUTHENTICATED: ["API_KEY_MISSING", "API_KEY_INVALID", "API_KEY_EXPIRED", "API_KEY_REVOKED"],
  PERMISSION_DENIED: [
    "SCOPE_MISSING",
    "ORIGIN_NOT_ALLOWED",
    "SECRET_KEY_IN_BROWSER",
    "CHALLENGE_FAILED",
    "COUNTRY_NOT_ALLOWED",
    "DESTINATION_BLOCKED",
  ],
  RESOURCE_EXHAUSTED: [
    "RESEND_TOO_SOON",
    "PHONE_RATE_LIMITED",
    "KEY_RATE_LIMITED",
    "IP_RATE_LIMITED",
    "SPEND_LIMIT",
    "LIMIT_REACHED",
    "BODY_TOO_LARGE",
  ],
  // Of protocols alone: a frame, an encoding, an RPC that there is not.
  UNIMPLEMENTED: [],
  ABORTED: ["IDEMPOTENCY_IN_PROGRESS"],
  UNAVAILABLE: ["DELIVERY_FAILED", "STORE_UNAVAILABLE", "SHUTTING_DOWN"],
  DEADLINE_EXCEEDED: ["DEADLINE"],
  INTERNAL: ["INTERNAL"],
};
const all = Object.keys(reasons) as Reason[];

describe("every reason", () => {
  test("has the code that the contract gives it, and the contract knows every reason", () => {
    const coded = Object.entries(table).flatMap(([code, list]) => list.map((reason) => [reason, code]));
    expect(Object.fromEntries(all.map((reason) => [reason, codeOf(reason)]))).toEqual(Object.fromEntries(coded));
  });

  test.each(all)("%s has a public sentence that ends as one", (reason) => {
    expect(reasons[reason].sentence).toMatch(/^(\p{Lu}|phone |channel |code |purpose ).{10,120}\.$/u);
  });

  test("has an HTTP status of its own where its code may be another, or has none", () => {
    const own = Object.fromEntries(
      Object.entries(reasons).flatMap(([reason, row]) => ("http" in row ? [[reason, row.http]] : [])),
    );
    expect(own).toEqual({
      ROUTE_NOT_FOUND: 404,
      METHOD_NOT_ALLOWED: 405,
      BODY_TOO_LARGE: 413,
      MEDIA_TYPE_UNSUPPORTED: 415,
    });
  });

  test("is of at most 63 capital letters and underscores, as stock clients expect", () => {
    for (const reason of all) expect(reason).toMatch(/^[A-Z][A-Z_]{1,61}[A-Z]$/);
  });
});

describe("Retry-After", () => {
  test.each([
    [0, 1],
    [1, 1],
    [999, 1],
    [1_000, 1],
    [1_001, 2],
    [29_999, 30],
    [30_000, 30],
    [14_400_001, 14_401],
  ])("for %i ms is %i s: rounded up, and at least 1", (retryAfterMs, seconds) => {
    expect(retryAfterSeconds({ reason: "RESEND_TOO_SOON", retryAfterMs })).toBe(seconds);
  });

  test("is absent without a wait", () => {
    expect(retryAfterSeconds({ reason: "OTP_EXPIRED" })).toBeUndefined();
  });
});

describe("a refusal", () => {
  test("reads as its reason's sentence unless it says more", () => {
    expect(sentenceOf({ reason: "OTP_EXPIRED" })).toBe("The code has expired. Send a new one.");
    expect(sentenceOf({ reason: "OTP_EXPIRED", message: "It is over." })).toBe("It is over.");
  });

  test("carries its particulars and nothing else", () => {
    expect(refuse("PHONE_INVALID", { field: "phone" })).toEqual({
      ok: false,
      refusal: { reason: "PHONE_INVALID", field: "phone" },
    });
    expect(invalid("code", "must be text")).toEqual({
      ok: false,
      refusal: { reason: "INVALID_REQUEST", field: "code", message: "must be text" },
    });
    expect(invalid(undefined, "must be an object").refusal).not.toHaveProperty("field");
  });
});
