/**
 * The bot check: asks the maker of a browser's token whether it proves a person. Turnstile, hCaptcha and reCAPTCHA have one
 * API for that ("siteverify"). Only a plain yes passes; no answer, or one that cannot be read, is a no.
 */
import { readJson } from "../../http-answer.ts";
import { refuse, type Refusal } from "../../otp/reason.ts";
import type { Secret } from "../../otp/keys/secret.ts";

export interface BotCheckSettings {
  readonly verifyUrl: URL;
  readonly secret: Secret;
}

/**
 * Checks a token, with the address it came from where that is known, and uses it up. Undefined for a yes; else
 * CHALLENGE_FAILED, or STORE_UNAVAILABLE when too many checks are under way.
 */
export type BotCheck = (token: Secret, address: string | undefined) => Promise<Refusal | undefined>;

/** A check that could not be made. Its code says why, and it holds nothing that was sent or received. */
export class CheckNotMade extends Error {
  override readonly name = "CheckNotMade";
  readonly code: string;

  constructor(code: string) {
    super(`the bot check could not be made: ${code}`);
    this.code = code;
  }
}

/** What one check may take, and how many may be under way: at 200 ms each, 320 sends a second. */
export interface CheckLimits {
  readonly timeoutMs: number;
  readonly callsMax: number;
}

const defaultLimits: CheckLimits = { timeoutMs: 5_000, callsMax: 64 };
/** The longest answer read. */
const answerBytesMax = 16_384;
/** The wait that is asked for while too many checks are under way. */
const retryAfterMs = 1_000;
const field = "challenge_token";

/** Makes the check. A check that could not be made is a fault. */
export function createBotCheck(
  settings: BotCheckSettings,
  onFault: (error: unknown) => void,
  { timeoutMs, callsMax } = defaultLimits,
): BotCheck {
  let underWay = 0;
  return async (token, address) => {
    if (token.reveal() === "") {
      return refuse("CHALLENGE_FAILED", { field, message: "challenge_token is required with this API key." }).refusal;
    }
    if (underWay >= callsMax) {
      const message = "Too many bot checks are under way. Retry unchanged.";
      return refuse("STORE_UNAVAILABLE", { retryAfterMs, message }).refusal;
    }
    underWay += 1;
    try {
      const verdict = await ask(settings, token, address, timeoutMs);
      if (verdict === "yes") return undefined;
      if (verdict === "no") return refuse("CHALLENGE_FAILED", { field }).refusal;
      onFault(verdict);
      const message = "The bot check could not be made. Try again with a new challenge_token.";
      return refuse("CHALLENGE_FAILED", { field, message, isOurFault: true }).refusal;
    } finally {
      underWay -= 1;
    }
  };
}

/** Checks a token that is made up, and says in a sentence whether the check works. */
export async function examineBotCheck(settings: BotCheckSettings, madeUp: Secret) {
  const verdict = await ask(settings, madeUp, undefined, defaultLimits.timeoutMs);
  if (verdict === "no") return { ok: true, sentence: "The bot check is reached, and refuses what was made up." };
  if (verdict === "yes") {
    return { ok: false, sentence: "The bot check lets everything pass: OTP_CHALLENGE_SECRET is one for tests." };
  }
  return {
    ok: false,
    sentence: verdict.code.endsWith("INPUT_SECRET")
      ? "The bot check does not accept OTP_CHALLENGE_SECRET."
      : `The bot check at ${settings.verifyUrl.host} cannot be made: ${verdict.code}.`,
  };
}

async function ask(
  { verifyUrl, secret }: BotCheckSettings,
  token: Secret,
  address: string | undefined,
  timeoutMs: number,
): Promise<"yes" | "no" | CheckNotMade> {
  const form = new URLSearchParams({ secret: secret.reveal(), response: token.reveal() });
  if (address !== undefined) form.set("remoteip", address);
  try {
    const signal = AbortSignal.timeout(timeoutMs);
    const response = await fetch(verifyUrl, { method: "POST", body: form, redirect: "manual", signal });
    const answer = await answerOf(response);
    if (answer === undefined)
      return new CheckNotMade(response.status === 200 ? "BAD_ANSWER" : `HTTP_${response.status}`);
    if (answer.success) return "yes";
    const ours = answer.codes.find((code) => /^[a-z-]{1,32}-input-secret$/.test(code));
    return ours === undefined ? "no" : new CheckNotMade(ours.toUpperCase().replaceAll("-", "_"));
  } catch (error) {
    return new CheckNotMade(codeOf(error));
  }
}

interface Answer {
  readonly success: boolean;
  /** Why not. A code about the secret is our fault and not the browser's. */
  readonly codes: readonly string[];
}

/** The answer, if it is one: a small JSON object with `success`, and a yes only with the status of one. */
async function answerOf(response: Response): Promise<Answer | undefined> {
  const { status } = response;
  // A body that is not read is canceled, or it would hold its connection.
  if (status !== 200 && (status < 400 || status > 499)) {
    await response.body?.cancel();
    return undefined;
  }
  const json = await readJson(response.body, answerBytesMax);
  if (typeof json !== "object" || json === null || !("success" in json)) return undefined;
  const { success } = json;
  if (typeof success !== "boolean" || (success && status !== 200)) return undefined;
  const codes: unknown = "error-codes" in json ? json["error-codes"] : [];
  return { success, codes: Array.isArray(codes) ? codes.filter((code) => typeof code === "string") : [] };
}

/** Why a call failed, as a code that quotes nobody: one of Node's, TIMEOUT, or NO_ANSWER. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return "NO_ANSWER";
  if (error.name === "TimeoutError") return "TIMEOUT";
  const { code } = (error.cause ?? {}) as { code?: unknown };
  return typeof code === "string" && /^[A-Z0-9_]{1,64}$/.test(code) ? code : "NO_ANSWER";
}
