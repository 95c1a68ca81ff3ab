/**
 * What a call came to, for service levels, alerts and traces; above all, whose fault a refusal was.
 */
import { isPublishable, isTest, type ApiKey } from "../otp/keys/api-key.ts";
import { codeOf, type Reason, type Refusal } from "../otp/reason.ts";

/**
 * `failed` is our fault; `refused` was to be expected of what was asked; `canceled` is nobody's fault: the client left
 * before there was an answer. What anybody can have happen, without a key or with a page's, is expected. `free` is a call of
 * which anybody can have any number: its successes would hide failures of others.
 */
export const callOutcomes = ["ok", "free", "refused", "failed", "canceled"] as const;
export type CallOutcome = (typeof callOutcomes)[number];

/** A call that is over. */
export interface FinishedCall {
  readonly refusal?: Pick<Refusal, "reason" | "code" | "isOurFault">;
  readonly isCanceled?: boolean;
  readonly isClientLate?: boolean;
  readonly rpc?: string;
  readonly caller?: Pick<ApiKey, "kind">;
  readonly isReplayed?: boolean;
  readonly isKnown?: boolean;
  readonly reached?: boolean;
  /** How long its body took to be here. */
  readonly bodyMs?: number;
}

/** Pure. */
export function callOutcomeOf(call: FinishedCall): CallOutcome {
  const { refusal, caller, isCanceled, reached } = call;
  if (refusal === undefined) return isFree(call) ? "free" : "ok";
  if (isAnybodysToBreakOff(call) || isStrangers(call)) return "refused";
  // Anybody has numbers that no provider takes, and the sandbox has its own.
  const isExpected = isByAnybody(call) || (caller !== undefined && isTest(caller.kind));
  if (isExpected && refusal.reason === "DELIVERY_FAILED") return "refused";
  // Anybody's crowd can fill the room for pages' calls.
  if (isByAnybody(call) && reached === false && refusal.reason === "STORE_UNAVAILABLE") return "refused";
  if (isCanceled === true) return "canceled";
  if (refusal.isOurFault !== true && !isOurs(refusal.reason)) return "refused";
  return isFree(call) ? "free" : "failed";
}

/**
 * How long we took for a call, in ms, of how long it lasted; undefined of those that anybody can have and that are neither
 * ok nor failed: by answers that cost nothing he would hide how slow we are. Pure.
 */
export function ownMsOf(call: FinishedCall, durationMs: number): number | undefined {
  if (isByAnybody(call) && !/^(ok|failed)$/.test(callOutcomeOf(call))) return undefined;
  return durationMs - (call.bodyMs ?? 0);
}

/** Whether somebody with a page's key can have any number of such calls succeed. Pure. */
function isFree({ caller, isReplayed, rpc }: FinishedCall): boolean {
  if (caller === undefined || !isPublishable(caller.kind)) return false;
  return isTest(caller.kind) || isReplayed === true || rpc === "GetOtp" || rpc === "CancelOtp";
}

/** Whether a call was broken off by its client, and anybody could have done that. Pure. */
function isAnybodysToBreakOff(call: FinishedCall): boolean {
  return (call.isCanceled === true || call.isClientLate === true) && isByAnybody(call);
}

/** Whether a call came without a valid key, or with a page's. Pure. */
function isByAnybody(call: FinishedCall): boolean {
  return isStrangers(call) || (call.caller !== undefined && isPublishable(call.caller.kind));
}

/** Whether nothing is known of a call's key: while keys cannot be looked up anybody could make any number of these fail. Pure. */
function isStrangers({ caller, isKnown }: FinishedCall): boolean {
  return caller === undefined && isKnown !== true;
}

/** The server's own faults are those that it answers with UNAVAILABLE, DEADLINE_EXCEEDED or INTERNAL. Pure. */
export function isOurs(reason: Reason): boolean {
  return /^(UNAVAILABLE|DEADLINE_EXCEEDED|INTERNAL)$/.test(codeOf(reason));
}
