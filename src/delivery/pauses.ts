/**
 * The pauses that a provider asks for. Most gateways count all messages of an account; some count those to one number. A
 * throttle that says which it is of is taken at its word. Of any other only its own recipient waits, until three have been
 * throttled and no call was taken in between: that is the account. Else whoever sends to one number until it is throttled would
 * hold everybody's messages, a minute at a time.
 */
import type { SendOutcome } from "../otp/message.ts";

export interface Pauses {
  /** How long a recipient is to wait still, in milliseconds; 0 or less for not at all. */
  leftFor(recipient: string, now: number): number;
  /** Notes how a call ended. */
  note(recipient: string, outcome: SendOutcome, now: number): void;
}

/** Recipients whose throttles, with no call taken in between, are one of the account. */
export const recipientsOfAccount = 3;
/** Recipients that wait. Where there are more, the one that has waited longest waits no more. */
export const recipientsMax = 1_000;
/** The longest pause that a provider may ask for. */
const pauseMsMax = 60_000;

/** A recipient is a digest of a number: it stays here for a pause, a minute at most. */
export function createPauses(): Pauses {
  let allUntilMs = 0;
  const untilMs = new Map<string, number>();
  /** Recipients that were throttled since a call was last taken. */
  let inVain = new Set<string>();

  function forget(now: number): void {
    for (const [recipient, until] of untilMs) {
      if (until > now && untilMs.size <= recipientsMax) return;
      untilMs.delete(recipient);
    }
  }

  return {
    leftFor: (recipient, now) => Math.max(allUntilMs, untilMs.get(recipient) ?? 0) - now,
    note(recipient, outcome, now) {
      if (outcome.kind === "accepted") inVain = new Set();
      if (outcome.kind !== "throttled" || outcome.retryAfterMs === undefined) return;
      const until = now + Math.min(outcome.retryAfterMs, pauseMsMax);
      if (outcome.of === undefined) inVain.add(recipient);
      if (outcome.of === "account" || inVain.size >= recipientsOfAccount) {
        allUntilMs = until;
        inVain = new Set();
        return;
      }
      untilMs.delete(recipient);
      untilMs.set(recipient, until);
      forget(now);
    },
  };
}
