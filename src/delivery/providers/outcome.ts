/**
 * The outcome of a provider's HTTP call: by its status, or by why there was no answer.
 */
import type { SendOutcome } from "../../otp/message/message.ts";
import { isTlsFailure } from "../unreached.ts";

type RefusedOutcome = Extract<SendOutcome, { readonly kind: "refused" }>;
type Unaccepted = Exclude<SendOutcome, { readonly kind: "accepted" }>;

/** An answer that does not take the message. */
export interface Answer {
  readonly status: number;
  /** For the operator. It holds nothing that may be quoted from the request. */
  readonly detail: string;
  /** The wait that a 429 asks for. */
  readonly retryAfterMs?: number | undefined;
  /** The cause that the provider's answer names; `content` unless given. */
  readonly cause?: RefusedOutcome["cause"] | undefined;
  /** The statuses that are about the message, where all others mean a wrong URL. */
  readonly judgements?: readonly number[];
}

/** The outcome of an answer that does not take the message. Pure. */
export function outcomeOfAnswer({ status, detail, retryAfterMs, cause = "content", judgements }: Answer): Unaccepted {
  if (status === 429) return { kind: "throttled", detail, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  if (status >= 500) return { kind: "ambiguous", detail };
  // The path is fixed: a host that does not know it is not the provider.
  if ((status >= 300 && status < 400) || status === 404 || status === 405) return { kind: "unavailable", detail };
  if (status === 401 || status === 403 || cause === "credentials") {
    return { kind: "refused", cause: "credentials", detail };
  }
  if (status === 402 || cause === "balance") return { kind: "refused", cause: "balance", detail };
  if (judgements?.includes(status) === false) return { kind: "unavailable", detail };
  return { kind: "refused", cause, detail };
}

/** The wait of a `Retry-After` in seconds, in milliseconds; none for a date. Pure. */
export function waitAskedMs(header: string | null | undefined): number | undefined {
  return /^\d{1,6}$/.test(header ?? "") ? Number(header) * 1_000 : undefined;
}

/** The outcome of a call without an answer. Only a call that cannot have been read goes to the next provider at once. Pure. */
export function outcomeWithoutAnswer(wasConnected: boolean): Unaccepted {
  return wasConnected
    ? { kind: "ambiguous", detail: "the connection ended without an answer" }
    : { kind: "unavailable", detail: "no connection" };
}

/** Failures of fetch that happen before a byte of the request is written. */
const unwritten = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** False if the error, or one behind it, says that no connection was made or that its TLS handshake failed. Pure. */
export function mayBeConnected(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const code = "code" in cause ? String(cause.code) : "";
    // A port that web pages must not call, such as 6000: fetch has no code for it.
    if (cause.message === "bad port") return false;
    if (unwritten.has(code) || isTlsFailure(code)) return false;
  }
  return true;
}
