/**
 * Whose fault it was that a call was refused: what service levels, alerts and traces go by.
 */
import { codeOf, type Reason } from "../otp/reason.ts";

/** What a call came to: `failed` is our fault, `refused` is what was to be expected of what was asked. */
export type CallOutcome = "ok" | "refused" | "failed";

/** The server's own faults are those that it answers with UNAVAILABLE, DEADLINE_EXCEEDED or INTERNAL. Pure. */
export function callOutcomeOf(reason: Reason | undefined): CallOutcome {
  if (reason === undefined) return "ok";
  return /^(UNAVAILABLE|DEADLINE_EXCEEDED|INTERNAL)$/.test(codeOf(reason)) ? "failed" : "refused";
}
