/**
 * Every refusal as a sentence for the person at the web page: what happened, and what to do now. The table has a row for each
 * reason of the contract, or it does not compile. A reason that is not known yet gets the general sentence.
 */
import type { Reason } from "../../gen/otp/v1/otp_service_pb.ts";
import type { Speech } from "./speech.ts";
import type { Words } from "./words/words.ts";

/** Why a call came to nothing. What the server did not say is undefined. */
export interface Trouble {
  /** The server's word, whatever it is; undefined when no answer came, or one without a reason. */
  readonly reason: string | undefined;
  /** Why no answer came. */
  readonly silence?: "unreachable" | "late" | undefined;
  readonly attemptsLeft?: number | undefined;
  readonly waitSeconds?: number | undefined;
}

/** Refusals of a call that may have had its effect: once more under the same name, it is answered with what came of it. */
const undecided: ReadonlySet<string> = new Set<ReasonName>([
  "DEADLINE",
  "STORE_UNAVAILABLE",
  "SHUTTING_DOWN",
  "INTERNAL",
  "IDEMPOTENCY_IN_PROGRESS",
]);

/** Whether a call certainly came to what its answer says. */
export function isDecided({ reason }: Trouble): boolean {
  return reason !== undefined && !undecided.has(reason);
}

export type ReasonName = Exclude<keyof typeof Reason, "UNSPECIFIED">;

/**
 * What a refusal is about: the number, the code, neither, or a code that is over. That decides where it is shown and where the
 * focus goes. "wait" is neither, and its sentence goes on with when to try again; "phone wait" is about the number, too.
 */
export type Matter = "phone" | "code" | "over" | "other";

type Row = readonly [about: Matter | "wait" | "phone wait", sentence: keyof Words];

const rows: Record<ReasonName, Row> = {
  INVALID_REQUEST: ["other", "badRequest"],
  PHONE_INVALID: ["phone", "phoneInvalid"],
  PHONE_NOT_MOBILE: ["phone", "phoneNotMobile"],
  PHONE_UNREACHABLE: ["phone", "phoneUnreachable"],
  CHANNEL_UNSUPPORTED: ["other", "channelUnsupported"],
  CODE_MALFORMED: ["code", "codeMalformed"],
  PURPOSE_MISMATCH: ["other", "purposeMismatch"],
  IDEMPOTENCY_KEY_REUSED: ["other", "badRequest"],
  CODE_MISMATCH: ["code", "wrongCode"],
  OTP_EXPIRED: ["over", "expired"],
  OTP_LOCKED: ["over", "locked"],
  OTP_ALREADY_VERIFIED: ["over", "alreadyVerified"],
  OTP_CANCELED: ["over", "canceled"],
  OTP_FAILED: ["over", "failed"],
  RESENDS_EXHAUSTED: ["other", "resendsExhausted"],
  REQUEST_NOT_FOUND: ["over", "notFound"],
  API_KEY_MISSING: ["other", "keyRefused"],
  API_KEY_INVALID: ["other", "keyRefused"],
  API_KEY_EXPIRED: ["other", "keyRefused"],
  API_KEY_REVOKED: ["other", "keyRefused"],
  SCOPE_MISSING: ["other", "notAllowed"],
  ORIGIN_NOT_ALLOWED: ["other", "notAllowed"],
  SECRET_KEY_IN_BROWSER: ["other", "notAllowed"],
  CHALLENGE_FAILED: ["other", "challengeFailed"],
  COUNTRY_NOT_ALLOWED: ["phone", "countryNotAllowed"],
  DESTINATION_BLOCKED: ["phone", "blocked"],
  RESEND_TOO_SOON: ["wait", "resendTooSoon"],
  PHONE_RATE_LIMITED: ["phone wait", "phoneLimited"],
  KEY_RATE_LIMITED: ["wait", "serverBusy"],
  IP_RATE_LIMITED: ["wait", "networkLimited"],
  SPEND_LIMIT: ["wait", "capReached"],
  LIMIT_REACHED: ["wait", "tooOften"],
  IDEMPOTENCY_IN_PROGRESS: ["wait", "inProgress"],
  DELIVERY_FAILED: ["wait", "deliveryFailed"],
  STORE_UNAVAILABLE: ["wait", "serverBusy"],
  SHUTTING_DOWN: ["wait", "serverBusy"],
  ROUTE_NOT_FOUND: ["other", "keyRefused"],
  METHOD_NOT_ALLOWED: ["other", "keyRefused"],
  BODY_TOO_LARGE: ["other", "badRequest"],
  MEDIA_TYPE_UNSUPPORTED: ["other", "badRequest"],
  DEADLINE: ["other", "tooLate"],
  INTERNAL: ["wait", "internal"],
};

/** A refusal in a language. Nothing that the server wrote is in it but numbers. */
export function explain(trouble: Trouble, speech: Speech): { about: Matter; sentence: string } {
  const { reason, silence, attemptsLeft } = trouble;
  const { words } = speech;
  if (silence === "unreachable") return { about: "other", sentence: words.unreachable };
  if (silence === "late") return { about: "other", sentence: words.tooLate };
  const [about, sentence]: Row =
    reason !== undefined && Object.hasOwn(rows, reason) ? rows[reason as ReasonName] : ["wait", "unknown"];
  if (reason === "CODE_MISMATCH" && attemptsLeft !== undefined) {
    return attemptsLeft === 0
      ? { about: "over", sentence: words.lastWrongCode }
      : { about: "code", sentence: speech.counted(words.wrongCodeLeft, attemptsLeft) };
  }
  if (about === "wait" || about === "phone wait") {
    return { about: about === "wait" ? "other" : "phone", sentence: `${words[sentence]} ${again(trouble, speech)}` };
  }
  return { about, sentence: words[sentence] };
}

function again({ waitSeconds }: Trouble, { words, inWords }: Speech): string {
  return waitSeconds === undefined ? words.again : words.againIn.replace("{time}", inWords(waitSeconds));
}
