/**
 * What a call came to, for service levels, alerts and traces; above all, whose fault a refusal was.
 */
import { isPublishable, isTest, type ApiKey } from "../otp/keys/api-key.ts";
import { codeOf, type Reason, type Refusal } from "../otp/reason.ts";

/**
 * `failed` is our fault; `refused` was to be expected of what was asked; `canceled` is nobody's fault: the client left
 * before there was an answer. What anybody can have happen, without a key or with a page's, is expected.
 */
export const callOutcomes = ["ok", "refused", "failed", "canceled"] as const;
export type CallOutcome = (typeof callOutcomes)[number];

/** A call that is over. */
export interface FinishedCall {
  readonly refusal?: Pick<Refusal, "reason" | "code" | "isOurFault">;
  readonly isCanceled?: boolean;
  readonly isClientLate?: boolean;
  readonly caller?: Pick<ApiKey, "kind">;
  readonly isKnown?: boolean;
}

/** Pure. */
export function callOutcomeOf(call: FinishedCall): CallOutcome {
  const { refusal, isCanceled } = call;
  if (refusal === undefined) return "ok";
  if (isAnybodysToBreakOff(call) || isStrangers(call)) return "refused";
  // Of numbers that no provider takes anybody has some, and the sandbox has its own.
  if (refusal.reason === "DELIVERY_FAILED" && (isByAnybody(call) || isTestsOwn(call))) return "refused";
  if (isCanceled === true) return "canceled";
  return refusal.isOurFault === true || isOurs(refusal.reason) ? "failed" : "refused";
}

/** Whether a call was broken off by its client, and anybody could have done that. Pure. */
export function isAnybodysToBreakOff(call: FinishedCall): boolean {
  return (call.isCanceled === true || call.isClientLate === true) && isByAnybody(call);
}

/** Whether a call came without a valid key, or with a page's. Pure. */
function isByAnybody(call: FinishedCall): boolean {
  return isStrangers(call) || (call.caller !== undefined && isPublishable(call.caller.kind));
}

function isTestsOwn({ caller }: FinishedCall): boolean {
  return caller !== undefined && isTest(caller.kind);
}

/** Whether nothing is known of a call's key: while keys cannot be looked up anybody could make any number of these fail. Pure. */
function isStrangers({ caller, isKnown }: FinishedCall): boolean {
  return caller === undefined && isKnown !== true;
}

/** The server's own faults are those that it answers with UNAVAILABLE, DEADLINE_EXCEEDED or INTERNAL. Pure. */
export function isOurs(reason: Reason): boolean {
  return /^(UNAVAILABLE|DEADLINE_EXCEEDED|INTERNAL)$/.test(codeOf(reason));
}
