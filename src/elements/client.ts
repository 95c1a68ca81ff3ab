/**
 * The service as the form calls it: plain fetch with a publishable key. Whatever comes of a call is a value. Of an
 * answer only fields of the right type are taken.
 */
import type { Trouble } from "./refusals.ts";

/** What the server tells of a request: all that a send, a resend, a verify and a look at it have, as far as each has it. */
export interface Told {
  readonly requestId: string;
  readonly isPending: boolean;
  /** Why it ended; undefined while it is pending. */
  readonly reason: string | undefined;
  /** Masked. */
  readonly phone: string;
  readonly codeLength: number;
  readonly expiresInSeconds: number;
  readonly resendInSeconds: number;
  readonly resendsRemaining: number;
  /** Of a verify. */
  readonly receipt: string;
  /** True where it repeats what was told some time ago, whose countdowns have gone on. */
  readonly isRepeated: boolean;
}

export type Outcome = { readonly told: Told } | { readonly trouble: Trouble };

/** Fields of a message by their names in the contract. */
export type Fields = Readonly<Record<string, string>>;

export interface Client {
  /** Runs a call. A repeat under the same name costs nothing. It never rejects. */
  call(path: Path, fields: Fields, idempotencyKey?: string): Promise<Outcome>;
}

/** Looking is a POST too: with a GET to its own site a browser does not say which page asks. */
export type Path = "/v1/otp/send" | "/v1/otp/verify" | "/v1/otp/resend" | "/v1/otp/cancel" | typeof look;
export const look = "/otp.v1.OtpService/GetOtp";

/** The server's own deadline is 15 s: after this there is no answer. */
const timeoutMs = 20_000;

/** A client of the server at that address, with a publishable key. */
export function createClient(server: string, key: string): Client {
  return {
    async call(path, fields, idempotencyKey) {
      const stop = new AbortController();
      const timer = setTimeout(() => stop.abort(), timeoutMs);
      try {
        const answer = await fetch(server + path, {
          method: "POST",
          headers: {
            authorization: `Bearer ${key}`,
            "content-type": "application/json",
            ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
          },
          body: JSON.stringify(fields),
          credentials: "omit",
          // Going elsewhere ends no cancel that has begun.
          keepalive: path === "/v1/otp/cancel",
          signal: stop.signal,
        });
        const said: unknown = await answer.json().catch(() => undefined);
        if (!answer.ok) return { trouble: troubleOf(said) };
        return { told: { ...toldOf(said), isRepeated: answer.headers.get("idempotency-replayed") === "true" } };
      } catch {
        return { trouble: { reason: undefined, silence: stop.signal.aborted ? "late" : "unreachable" } };
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

type Answer = Readonly<Partial<Record<string, unknown>>>;

function answerOf(said: unknown): Answer {
  return typeof said === "object" && said !== null ? (said as Answer) : {};
}

const textOf = (value: unknown) => (typeof value === "string" ? value : "");
const numberOf = (value: unknown) => (typeof value === "number" && Number.isFinite(value) ? value : undefined);

function toldOf(said: unknown): Omit<Told, "isRepeated"> {
  const answer = answerOf(said);
  const reason = textOf(answer["reason"]).replace(/^REASON_/, "");
  const digits = numberOf(answer["code_length"]) ?? 6;
  return {
    requestId: textOf(answer["request_id"]),
    isPending: answer["state"] === "STATE_PENDING",
    reason: reason === "" || reason === "UNSPECIFIED" ? undefined : reason,
    phone: textOf(answer["phone"]),
    codeLength: Math.min(Math.max(Math.trunc(digits), 1), 10),
    expiresInSeconds: numberOf(answer["expires_in_seconds"]) ?? 0,
    resendInSeconds: numberOf(answer["resend_in_seconds"]) ?? 0,
    resendsRemaining: numberOf(answer["resends_remaining"]) ?? 0,
    receipt: textOf(answer["receipt"]),
  };
}

/** Reads a refusal of REST, or the detail of one of Connect's. */
export function troubleOf(said: unknown): Trouble {
  const answer = answerOf(said);
  const details: unknown[] = Array.isArray(answer["details"]) ? answer["details"] : [];
  const debugs = details.map((detail) => answerOf(answerOf(detail)["debug"]));
  const reasons = [answer["reason"], ...debugs.map((debug) => debug["reason"])].map(textOf);
  const reason = reasons.find((name) => name !== "")?.replace(/^REASON_/, "");
  return {
    reason,
    attemptsLeft: numberOf(answer["attempts_remaining"]),
    waitSeconds: numberOf(answer["retry_after_seconds"]),
  };
}
