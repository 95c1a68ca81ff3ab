/**
 * The closed list of refusals, and what each means to a caller. A refusal is a value that travels up to the server;
 * an exception is a bug. Adding a reason here without its row, or here without the proto's `Reason`, does not compile
 * (`server/rpc/errors.ts` compares the two). The sentence may change; a reason never does.
 */

/** The gRPC codes in use, in the spelling of gRPC's own documentation. */
export type StatusCode =
  | "INVALID_ARGUMENT"
  | "FAILED_PRECONDITION"
  | "NOT_FOUND"
  | "UNAUTHENTICATED"
  | "PERMISSION_DENIED"
  | "RESOURCE_EXHAUSTED"
  | "ABORTED"
  | "UNIMPLEMENTED"
  | "UNAVAILABLE"
  | "DEADLINE_EXCEEDED"
  | "INTERNAL";

interface ReasonRow {
  code: StatusCode;
  /** The HTTP status of REST and Connect, where it differs from the code's own. */
  http?: number;
  /** What a caller is told. Never holds a value from the request. */
  sentence: string;
}

export const reasons = {
  INVALID_REQUEST: { code: "INVALID_ARGUMENT", sentence: "The request is malformed." },
  PHONE_INVALID: { code: "INVALID_ARGUMENT", sentence: "phone is not a valid number in E.164, such as +31612345678." },
  PHONE_NOT_MOBILE: {
    code: "INVALID_ARGUMENT",
    sentence: "phone gets no message by this channel: it is not a mobile number.",
  },
  PHONE_UNREACHABLE: { code: "INVALID_ARGUMENT", sentence: "No provider can reach this phone." },
  CHANNEL_UNSUPPORTED: { code: "INVALID_ARGUMENT", sentence: "channel is not offered here." },
  CODE_MALFORMED: { code: "INVALID_ARGUMENT", sentence: "code has the wrong number of digits. No attempt was spent." },
  PURPOSE_MISMATCH: {
    code: "INVALID_ARGUMENT",
    sentence: "purpose or bind differ from those the code was sent for. No attempt was spent.",
  },
  IDEMPOTENCY_KEY_REUSED: {
    code: "INVALID_ARGUMENT",
    sentence: "This Idempotency-Key was used with another request before.",
  },
  CODE_MISMATCH: { code: "FAILED_PRECONDITION", sentence: "The code is wrong." },
  OTP_EXPIRED: { code: "FAILED_PRECONDITION", sentence: "The code has expired. Send a new one." },
  OTP_LOCKED: { code: "FAILED_PRECONDITION", sentence: "Too many wrong codes. Send a new one." },
  OTP_ALREADY_VERIFIED: { code: "FAILED_PRECONDITION", sentence: "The code was already used. Send a new one." },
  OTP_CANCELED: { code: "FAILED_PRECONDITION", sentence: "The verification was canceled. Send a new one." },
  OTP_FAILED: { code: "FAILED_PRECONDITION", sentence: "The message could not be sent. Send a new one." },
  RESENDS_EXHAUSTED: {
    code: "FAILED_PRECONDITION",
    sentence: "No resend is left, or too little time for one. The code that was sent stays good; or send a new one.",
  },
  REQUEST_NOT_FOUND: { code: "NOT_FOUND", sentence: "There is no such request_id." },
  API_KEY_MISSING: {
    code: "UNAUTHENTICATED",
    sentence: "The API key is missing: send the header Authorization: Bearer <API_KEY>.",
  },
  API_KEY_INVALID: { code: "UNAUTHENTICATED", sentence: "The API key is not valid." },
  API_KEY_EXPIRED: { code: "UNAUTHENTICATED", sentence: "The API key has expired." },
  API_KEY_REVOKED: { code: "UNAUTHENTICATED", sentence: "The API key was revoked." },
  SCOPE_MISSING: { code: "PERMISSION_DENIED", sentence: "The API key lacks the scope for this call." },
  ORIGIN_NOT_ALLOWED: { code: "PERMISSION_DENIED", sentence: "The API key does not list this origin." },
  SECRET_KEY_IN_BROWSER: {
    code: "PERMISSION_DENIED",
    sentence: "A secret API key was used from a web page. Revoke it, and use a publishable key there.",
  },
  CHALLENGE_FAILED: { code: "PERMISSION_DENIED", sentence: "The bot check failed." },
  COUNTRY_NOT_ALLOWED: { code: "PERMISSION_DENIED", sentence: "Numbers of this country are not served here." },
  DESTINATION_BLOCKED: { code: "PERMISSION_DENIED", sentence: "This destination is blocked." },
  RESEND_TOO_SOON: { code: "RESOURCE_EXHAUSTED", sentence: "It is too soon to resend." },
  PHONE_RATE_LIMITED: { code: "RESOURCE_EXHAUSTED", sentence: "Too many messages to this phone." },
  KEY_RATE_LIMITED: { code: "RESOURCE_EXHAUSTED", sentence: "Too many calls with this API key." },
  IP_RATE_LIMITED: { code: "RESOURCE_EXHAUSTED", sentence: "Too many calls from this address." },
  SPEND_LIMIT: { code: "RESOURCE_EXHAUSTED", sentence: "The daily cap on messages is reached." },
  LIMIT_REACHED: { code: "RESOURCE_EXHAUSTED", sentence: "A limit that this send names is reached." },
  IDEMPOTENCY_IN_PROGRESS: {
    code: "ABORTED",
    sentence: "The first call with this Idempotency-Key is still running. Retry unchanged.",
  },
  DELIVERY_FAILED: { code: "UNAVAILABLE", sentence: "No provider could take the message. Retry unchanged." },
  STORE_UNAVAILABLE: { code: "UNAVAILABLE", sentence: "The service cannot take this call now. Retry unchanged." },
  SHUTTING_DOWN: { code: "UNAVAILABLE", sentence: "The server is stopping. Retry unchanged." },
  ROUTE_NOT_FOUND: {
    code: "NOT_FOUND",
    http: 404,
    sentence: "There is no such path. GET /openapi.json lists those that there are.",
  },
  METHOD_NOT_ALLOWED: { code: "INVALID_ARGUMENT", http: 405, sentence: "The path does not take this method." },
  BODY_TOO_LARGE: { code: "RESOURCE_EXHAUSTED", http: 413, sentence: "The body is larger than 16 KiB." },
  MEDIA_TYPE_UNSUPPORTED: {
    code: "INVALID_ARGUMENT",
    http: 415,
    sentence: "The Content-Type or Content-Encoding is not served here. Use application/json, not compressed.",
  },
  DEADLINE: { code: "DEADLINE_EXCEEDED", sentence: "The deadline passed. The call may have taken effect." },
  INTERNAL: { code: "INTERNAL", sentence: "Something went wrong on our side." },
} as const satisfies Record<string, ReasonRow>;

/** Why a call was refused. */
export type Reason = keyof typeof reasons;

/** A refusal: the reason and the few particulars a caller can act on. */
export interface Refusal {
  readonly reason: Reason;
  /** The request field at fault, in its proto spelling. */
  readonly field?: string;
  /** Says more than the reason's sentence, such as what a field must look like. Never echoes a value. */
  readonly message?: string;
  /** For CODE_MISMATCH: how many attempts are left, 0 or more. */
  readonly attemptsRemaining?: number;
  /** How long to wait before a retry, in milliseconds. */
  readonly retryAfterMs?: number;
  /** Further particulars for programs, in google.rpc.ErrorInfo. Never hold a value from the request. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** The gRPC code where a protocol has one of its own for this; else it is that of the reason. */
  readonly code?: StatusCode;
  /** True where the call may have taken effect, and would do so again: clients are told not to retry it. */
  readonly mayBeDone?: boolean;
  /** True where we are to blame although the reason is one of the caller's. Callers are not told. */
  readonly isOurFault?: boolean;
  /** The id of the API key that is revoked or has expired, for the log. Callers are not told. */
  readonly keyId?: string;
}

/** A value, or why there is none. */
export type Result<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly refusal: Refusal };

export function ok<T>(value: T): Result<T> {
  return { ok: true, value };
}

/** Wraps a refusal as a Result. */
export function refuse(reason: Reason, particulars: Omit<Refusal, "reason"> = {}): { ok: false; refusal: Refusal } {
  return { ok: false, refusal: { reason, ...particulars } };
}

/** An INVALID_REQUEST that names the field, where there is one, and says what it must be. */
export function invalid(field: string | undefined, message: string): { ok: false; refusal: Refusal } {
  return refuse("INVALID_REQUEST", field === undefined ? { message } : { field, message });
}

export function codeOf(reason: Reason): StatusCode {
  return reasons[reason].code;
}

/** The gRPC code of a refusal: its own, or its reason's. */
export function codeOfRefusal({ code, reason }: Pick<Refusal, "code" | "reason">): StatusCode {
  return code ?? codeOf(reason);
}

/** The sentence a caller reads: the refusal's own, or its reason's. */
export function sentenceOf(refusal: Refusal): string {
  return refusal.message ?? reasons[refusal.reason].sentence;
}

/** `Retry-After` in whole seconds: rounded up, and at least 1. */
export function retryAfterSeconds(refusal: Refusal): number | undefined {
  return refusal.retryAfterMs === undefined ? undefined : Math.max(1, Math.ceil(refusal.retryAfterMs / 1000));
}
