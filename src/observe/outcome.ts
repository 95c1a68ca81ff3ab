/**
 * Whose fault it was that a call was refused: what service levels, alerts and traces go by.
 */
import { codeOf, type Reason, type Refusal } from "../otp/reason.ts";

/**
 * What a call came to: `failed` is our fault, `refused` is what was to be expected of what was asked, and `canceled` is
 * nobody's: the client left before there was an answer.
 */
export const callOutcomes = ["ok", "refused", "failed", "canceled"] as const;
export type CallOutcome = (typeof callOutcomes)[number];

/** What the outcome of a call follows from. */
export interface FinishedCall {
  readonly refusal?: Pick<Refusal, "reason" | "isOurFault">;
  readonly isCanceled?: boolean;
}

/** Pure. */
export function callOutcomeOf({ refusal, isCanceled }: FinishedCall): CallOutcome {
  if (refusal === undefined) return "ok";
  if (isCanceled === true) return "canceled";
  return refusal.isOurFault === true || isOurs(refusal.reason) ? "failed" : "refused";
}

/** The server's own faults are those that it answers with UNAVAILABLE, DEADLINE_EXCEEDED or INTERNAL. Pure. */
export function isOurs(reason: Reason): boolean {
  return /^(UNAVAILABLE|DEADLINE_EXCEEDED|INTERNAL)$/.test(codeOf(reason));
}
