/**
 * What a call came to, for service levels, alerts and traces; above all, whose fault a refusal was.
 */
import { codeOf, type Reason, type Refusal } from "../otp/reason.ts";

/**
 * `failed` is our fault; `refused` was to be expected of what was asked; `canceled` is nobody's fault: the client left
 * before there was an answer.
 */
export const callOutcomes = ["ok", "refused", "failed", "canceled"] as const;
export type CallOutcome = (typeof callOutcomes)[number];

/** A call that is over. */
export interface FinishedCall {
  readonly refusal?: Pick<Refusal, "reason" | "code" | "isOurFault">;
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
