/**
 * Guesses spread over many phones. At each phone five wrong codes look like typos; the tenant's count shows them all.
 * From 200 wrong codes in 10 minutes on, with fewer than a fifth of the codes typed right, all new codes of the tenant
 * have at least 8 digits, until the window shows otherwise. Nothing is refused, and codes that were sent before stay as
 * they are.
 *
 * The share is of codes compared, not of requests sent. To look honest, whoever guesses has to verify phones of his
 * own: one right code for every four wrong ones, 50 for 200. By a share of requests, with five wrong codes each, ten
 * would be enough. And messages that nobody answers (pumping) do not make honest typos look like guessing.
 */
import { minuteMs, type Instant } from "../../system.ts";
import { nextCodeLength, type PhoneHistory, type Policy } from "./policy.ts";

/** Codes of one tenant that were compared: all of them within some time. */
export interface Guesses {
  readonly wrong: number;
  readonly right: number;
}

export const noGuesses: Guesses = { wrong: 0, right: 0 };

const wrongFrom = 200;
/** One right code for so many wrong ones is a fifth of all. */
const wrongPerRight = 4;
const digitsMin = 8;

const windowMinutes = 10;

/** The minute that a moment is in, by its number since the epoch: what guesses are counted by. Pure. */
export function minuteOf(now: Instant): number {
  return Math.floor(now / minuteMs);
}

/** The oldest minute that counts. With the one that is under way the window has 10 to 11 minutes, never less. Pure. */
export function oldestMinute(now: Instant): number {
  return minuteOf(now) - windowMinutes;
}

/** True when a tenant's window looks like guessing. Pure. */
export function isSpraying({ wrong, right }: Guesses): boolean {
  return wrong >= wrongFrom && wrong > wrongPerRight * right;
}

const unusualFactor = 3;

/**
 * True when operators are told of so many wrong codes, even though enough right ones are among them: guessing amid the
 * traffic of honest users. `usual` is how many are usual in ten minutes of that hour of the day. No code becomes longer
 * by it. Pure.
 */
export function isUnusual({ wrong }: Guesses, usual: number): boolean {
  return wrong >= wrongFrom && wrong >= unusualFactor * usual;
}

/** What is usual in ten minutes of an hour: the median of that hour on the days of the last week, a day without any being 0. Pure. */
export function usualIn(hours: readonly number[]): number {
  const sorted = hours.toSorted((a, b) => a - b);
  return (sorted[Math.floor(sorted.length / 2)] ?? 0) / (60 / windowMinutes);
}

/** How many digits the next code for a phone gets, by its own history and by the guesses at its tenant; or "refuse". Pure. */
export function nextDigits(
  policy: Policy,
  { history, openAttempts }: { readonly history: PhoneHistory; readonly openAttempts: number },
  guesses: Guesses,
  now: Instant,
): number | "refuse" {
  const digits = nextCodeLength(policy, history, openAttempts, now);
  return digits === "refuse" ? digits : codeLengthUnder(guesses, digits, policy);
}

/**
 * How many digits a new code gets that would have `digits`, at its tenant's guesses: never fewer, and never more than
 * the operator allows. The same under the strict policy, since it refuses nobody. Pure.
 */
export function codeLengthUnder(guesses: Guesses, digits: number, policy: Policy): number {
  return isSpraying(guesses) ? Math.max(digits, Math.min(digitsMin, policy.codeLengthMax)) : digits;
}
