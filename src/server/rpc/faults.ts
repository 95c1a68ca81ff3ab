/**
 * What a caller hears of a fault of ours: nothing of our insides, and whether the call may be repeated.
 */
import { refuse, type Refusal } from "../../otp/reason.ts";
import { StoreUnavailable } from "../../store/store.ts";

/** What is short now is worth another try so much later. */
const retryAfterMs = 1_000;

/** Why a call may come again a little later. */
export type ForNow = "STORE_UNAVAILABLE" | "SHUTTING_DOWN" | "IP_RATE_LIMITED";

/** Refuses for want of something that others have now. */
export function refuseForNow(reason: ForNow): Refusal {
  return refuse(reason, { retryAfterMs }).refusal;
}

/** The refusal of a call that is not answered in time. `isHarmlessTwice` tells whether it may be repeated as it is. */
export function refusalOfLate({ isHarmlessTwice }: { readonly isHarmlessTwice: boolean }): Refusal {
  return refuse("DEADLINE", isHarmlessTwice ? {} : { mayBeDone: true }).refusal;
}

/** The refusal for an exception. `isHarmlessTwice` tells whether the call, if it took effect, may be repeated as it is. */
export function refusalOfFault(error: unknown, isHarmlessTwice = true): Refusal {
  const doubt = isHarmlessTwice ? {} : { mayBeDone: true };
  if (!(error instanceof StoreUnavailable)) return refuse("INTERNAL", doubt).refusal;
  if (!error.mayBeDone || isHarmlessTwice) return refuseForNow("STORE_UNAVAILABLE");
  return refuse("STORE_UNAVAILABLE", { ...doubt, message: lostCommit }).refusal;
}

const lostCommit =
  "The database was lost at the commit, so this call may have taken effect. Only with an Idempotency-Key may it be retried.";
