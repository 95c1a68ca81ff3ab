/**
 * Every refusal as a sentence for the person at the page: what happened, and what to do now. The table has a row for each
 * reason of the contract, or it does not compile. A reason that is not known yet gets the general sentence.
 */
import type { Reason } from "../../gen/otp/v1/otp_service_pb.ts";
import { counted, inWords } from "./countdown.ts";

/** Why a call was refused. What the server did not say is undefined. */
export interface Trouble {
  /** Undefined when no answer came, or one without a reason. */
  readonly reason: ReasonName | undefined;
  /** Why no answer came. */
  readonly silence?: "unreachable" | "late" | undefined;
  readonly attemptsLeft?: number | undefined;
  readonly waitSeconds?: number | undefined;
}

export type ReasonName = Exclude<keyof typeof Reason, "UNSPECIFIED">;

/**
 * What a refusal is about: the number, the code, neither, or a code that is over. That decides where it is shown and where the
 * focus goes.
 */
export type Matter = "phone" | "code" | "over" | "other";

interface Row {
  readonly about: Matter;
  readonly say: string | ((trouble: Trouble) => string);
}

const outdated = "This page no longer fits the server, which was probably restarted. Reload the page.";
const ours = "This page asked in a way the server did not take. Reload it and try again.";

const rows: Record<ReasonName, Row> = {
  INVALID_REQUEST: { about: "other", say: ours },
  PHONE_INVALID: {
    about: "phone",
    say: "That is not a phone number we know. Give it with its country code, such as +14155552671.",
  },
  PHONE_NOT_MOBILE: { about: "phone", say: "That number gets no text messages. Give a mobile number." },
  PHONE_UNREACHABLE: { about: "phone", say: "No message can reach that number. Check it, or give another." },
  CHANNEL_UNSUPPORTED: { about: "other", say: "Codes do not travel that way here, only by SMS." },
  CODE_MALFORMED: { about: "code", say: "The code has another number of digits. This did not count as an attempt." },
  PURPOSE_MISMATCH: {
    about: "other",
    say: "This code was sent for something else. This did not count as an attempt.",
  },
  IDEMPOTENCY_KEY_REUSED: { about: "other", say: ours },
  CODE_MISMATCH: { about: "code", say: wrongCode },
  OTP_EXPIRED: { about: "over", say: "This code has expired. Send a new one." },
  OTP_LOCKED: { about: "over", say: "There were too many wrong codes. Send a new one." },
  OTP_ALREADY_VERIFIED: { about: "over", say: "This code was already used, and works only once. Send a new one." },
  OTP_CANCELED: { about: "over", say: "This code was cancelled. Send a new one." },
  OTP_FAILED: { about: "over", say: "The message could not be sent. Send a new one." },
  RESENDS_EXHAUSTED: {
    about: "other",
    say: "This code cannot be sent again. Wait for it, or go back and have a new one sent.",
  },
  REQUEST_NOT_FOUND: { about: "over", say: "The server no longer knows this code. Send a new one." },
  API_KEY_MISSING: { about: "other", say: outdated },
  API_KEY_INVALID: { about: "other", say: outdated },
  API_KEY_EXPIRED: { about: "other", say: outdated },
  API_KEY_REVOKED: { about: "other", say: outdated },
  SCOPE_MISSING: { about: "other", say: "This page may not do that." },
  ORIGIN_NOT_ALLOWED: {
    about: "other",
    say: "The server does not take calls from this address. Open the page at the address in the terminal.",
  },
  SECRET_KEY_IN_BROWSER: { about: "other", say: "This page was given a secret key, which has no place in a browser." },
  CHALLENGE_FAILED: {
    about: "other",
    say: "The server asks for a bot check, which this page does not have.",
  },
  COUNTRY_NOT_ALLOWED: { about: "phone", say: "Numbers of that country are not served here. Give another." },
  DESTINATION_BLOCKED: { about: "phone", say: "Messages to that number are blocked here. Give another." },
  RESEND_TOO_SOON: { about: "other", say: (trouble) => `It is too soon to send it again.${waiting(trouble)}` },
  PHONE_RATE_LIMITED: {
    about: "phone",
    say: (trouble) => `This number got many messages already.${waiting(trouble)}`,
  },
  KEY_RATE_LIMITED: { about: "other", say: (trouble) => `The server has too much to do.${waiting(trouble)}` },
  IP_RATE_LIMITED: {
    about: "other",
    say: (trouble) => `There were too many tries from your network.${waiting(trouble)}`,
  },
  SPEND_LIMIT: {
    about: "other",
    say: (trouble) => `No more messages can be sent for now: the day's cap is reached.${waiting(trouble)}`,
  },
  LIMIT_REACHED: { about: "other", say: (trouble) => `This was asked for too often.${waiting(trouble)}` },
  IDEMPOTENCY_IN_PROGRESS: { about: "other", say: "Your last try is still on its way. Try again in a moment." },
  DELIVERY_FAILED: { about: "other", say: (trouble) => `The message could not be sent just now.${waiting(trouble)}` },
  STORE_UNAVAILABLE: { about: "other", say: (trouble) => `The server is busy just now.${waiting(trouble)}` },
  SHUTTING_DOWN: { about: "other", say: (trouble) => `The server is being restarted.${waiting(trouble)}` },
  ROUTE_NOT_FOUND: { about: "other", say: outdated },
  METHOD_NOT_ALLOWED: { about: "other", say: outdated },
  BODY_TOO_LARGE: { about: "other", say: ours },
  MEDIA_TYPE_UNSUPPORTED: { about: "other", say: ours },
  DEADLINE: { about: "other", say: "The server took too long. Try again; it will not count twice." },
  INTERNAL: { about: "other", say: "Something went wrong on the server. Its log says what; try again." },
};

export function explain(trouble: Trouble): { about: Matter; sentence: string } {
  const { reason, silence } = trouble;
  if (silence === "unreachable") {
    return { about: "other", sentence: "The server cannot be reached. Check that it runs, and try again." };
  }
  if (silence === "late") return { about: "other", sentence: rows.DEADLINE.say as string };
  if (reason === undefined || !Object.hasOwn(rows, reason)) {
    return { about: "other", sentence: `That did not work, and the server did not say why.${waiting(trouble)}` };
  }
  const { about, say } = rows[reason];
  const wasLast = reason === "CODE_MISMATCH" && trouble.attemptsLeft === 0;
  return { about: wasLast ? "over" : about, sentence: typeof say === "string" ? say : say(trouble) };
}

function wrongCode({ attemptsLeft }: Trouble): string {
  if (attemptsLeft === undefined) return "That is not the code. Look again.";
  if (attemptsLeft === 0) return "That is not the code either, and it was the last attempt. Send a new one.";
  return `That is not the code. ${counted(attemptsLeft, "attempt")} left.`;
}

function waiting({ waitSeconds }: Trouble): string {
  return waitSeconds === undefined ? " Try again in a moment." : ` Try again in ${inWords(waitSeconds)}.`;
}
