/**
 * The examples of the document, as the service gives them: a code sent at noon, sent again, and verified.
 * test/server/openapi.test.ts asks for each of them and compares.
 */
import type { Reason } from "../../../src/otp/reason.ts";
import type { JsonObject } from "./schemas.ts";

const request_id = "uRLjMmILoK_d7BLopp1QDQ";
const phone = "+14155552671";

/** Signed by the first key of the set below. */
const receipt = [
  "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCIsImtpZCI6Ik1PR3VIdmEzd3ZObGdJeHBGUHdqNG9JblpMU2JsTDl6OUpJUElvUHlaQ3cifQ",
  "eyJpc3MiOiJodHRwczovL290cC5leGFtcGxlLmNvbSIsImF1ZCI6ImRlZmF1bHQiLCJzdWIiOiJ1UkxqTW1JTG9LX2Q3QkxvcHAxUURRIiwicGhvbmUiOiIrMTQxNTU1NTI2NzEiLCJjaGFubmVscyI6WyJzbXMiXSwicHVycG9zZSI6ImxvZ2luIiwiaWF0IjoxNzY3MjY4ODQwLCJleHAiOjE3NjcyNjkxNDAsImp0aSI6InVSTGpNbUlMb0tfZDdCTG9wcDFRRFEifQ",
  "BmegDb2aLurPQp6uI2TlInqTJsHWRnqONkGuFkUQGsPn2Vm0rXWBzLVMXsLtcYA1AbA8Wf4i06Bn2T4NUpyNBw",
];

const sent = {
  request_id,
  state: "STATE_PENDING",
  delivery: "DELIVERY_ACCEPTED",
  expire_time: "2026-01-01T12:10:00Z",
  expires_in_seconds: 600,
  next_resend_time: "2026-01-01T12:00:30Z",
  resend_in_seconds: 30,
  resends_remaining: 2,
  code_length: 6,
};

/** By their message. */
export const examples: Readonly<Record<string, JsonObject>> = {
  SendOtpRequest: { phone, purpose: "login" },
  SendOtpResponse: sent,
  GetOtpResponse: {
    ...sent,
    reason: "REASON_UNSPECIFIED",
    phone,
    channel: "sms",
    purpose: "login",
    create_time: "2026-01-01T12:00:00Z",
    attempts_remaining: 5,
    provider: "messagebird",
    delivery_detail: "",
    messages: [{ channel: "sms", provider: "messagebird", delivery: "DELIVERY_ACCEPTED", detail: "" }],
  },
  ResendOtpRequest: { request_id },
  ResendOtpResponse: {
    ...sent,
    expires_in_seconds: 570,
    next_resend_time: "2026-01-01T12:01:30Z",
    resend_in_seconds: 60,
    resends_remaining: 1,
  },
  VerifyOtpRequest: { request_id, code: "123456", purpose: "login" },
  VerifyOtpResponse: {
    request_id,
    state: "STATE_VERIFIED",
    phone,
    verify_time: "2026-01-01T12:00:40Z",
    receipt: receipt.join("."),
  },
  CancelOtpRequest: { request_id },
  CancelOtpResponse: { request_id, state: "STATE_CANCELED", cancel_time: "2026-01-01T12:00:40Z" },
  KeySet: {
    keys: [
      {
        kty: "OKP",
        crv: "Ed25519",
        x: "OuYTtK5ixaSh3SnhhMEKxamcC-YHWlrxShfZiajK99I",
        kid: "MOGuHva3wvNlgIxpFPwj4oInZLSblL9z9JIPIoPyZCw",
        alg: "EdDSA",
        use: "sig",
      },
    ],
  },
};

/** What some refusals say besides their reason's sentence and a `Retry-After` of a second. */
export const particulars: Readonly<Partial<Record<Reason, JsonObject>>> = {
  INVALID_REQUEST: { message: "phone is required.", field: "phone" },
  PHONE_INVALID: { field: "phone" },
  PHONE_NOT_MOBILE: { field: "phone" },
  PHONE_UNREACHABLE: { field: "phone" },
  CHANNEL_UNSUPPORTED: { message: "channel is not offered here; the only one is sms.", field: "channel" },
  CODE_MALFORMED: { field: "code" },
  PURPOSE_MISMATCH: { field: "purpose" },
  CODE_MISMATCH: { field: "code", attempts_remaining: 4 },
  CHALLENGE_FAILED: { field: "challenge_token" },
  COUNTRY_NOT_ALLOWED: { field: "phone" },
  DESTINATION_BLOCKED: { field: "phone" },
  RESEND_TOO_SOON: { retry_after_seconds: 30 },
  PHONE_RATE_LIMITED: { field: "phone", retry_after_seconds: 600 },
  SPEND_LIMIT: { retry_after_seconds: 43_200 },
  LIMIT_REACHED: { field: "limit_keys.user", retry_after_seconds: 600 },
  DELIVERY_FAILED: { retry_after_seconds: 5 },
};
