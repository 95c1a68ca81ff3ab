/**
 * What wraps every RPC. The gate refuses a call before its message is read, for the reason the gateway found in the
 * headers; the guard sees to the deadline, and turns whatever else goes wrong into a refusal that tells a caller nothing
 * about our insides.
 */
import type { ConnectError } from "@connectrpc/connect";
import { refuse, type Refusal } from "../../otp/reason.ts";
import { StoreUnavailable } from "../../store/store.ts";
import { ClientGone, Late, type Call } from "./call.ts";
import { toConnectError } from "./errors.ts";

const storeRetryMs = 1_000;

/** The gate: throws for a call that the gateway refused, or that nobody is behind. */
export function gate(call: Call): void {
  const refusal = call.refusedAtGate ?? (call.caller === undefined ? refuse("API_KEY_MISSING").refusal : undefined);
  if (refusal !== undefined) throw refused(call, refusal);
}

function refused(call: Call, refusal: Refusal): ConnectError {
  call.refusal = refusal;
  return toConnectError(refusal);
}

/** Performs a call past the gate. What it throws is a refusal, noted in the call. */
export type Guard = <T>(call: Call, perform: () => Promise<T>) => Promise<T>;

/** Makes the guard; `onFault` is told of what was hidden from the caller. */
export function createGuard(onFault: (call: Call, error: unknown) => void): Guard {
  return async (call, perform) => {
    call.reached = true;
    try {
      // What a late call has begun in the store is finished all the same.
      return await Promise.race([perform(), call.late]);
    } catch (error) {
      // A refusal that the service gave out itself.
      if (call.refusal !== undefined) throw error;
      const doubt = isHarmlessTwice(call) ? {} : { mayBeDone: true };
      if (error instanceof Late) {
        call.isCanceled = error instanceof ClientGone;
        throw refused(call, refuse("DEADLINE", doubt).refusal);
      }
      onFault(call, error);
      if (!(error instanceof StoreUnavailable)) throw refused(call, refuse("INTERNAL", doubt).refusal);
      if (!error.mayBeDone || doubt.mayBeDone === undefined)
        throw refused(call, refuse("STORE_UNAVAILABLE", { retryAfterMs: storeRetryMs }).refusal);
      throw refused(call, refuse("STORE_UNAVAILABLE", { ...doubt, message: lostCommit }).refusal);
    }
  };
}

const lostCommit =
  "The database was lost at the commit, so this call may have taken effect. Only with an Idempotency-Key may it be retried.";

/** Without a key these do a second time what they did the first: they text again, or spend an attempt. */
const effects = new Set(["SendOtp", "ResendOtp", "VerifyOtp"]);

function isHarmlessTwice({ rpc, idempotencyKey }: Call): boolean {
  return idempotencyKey !== undefined || !effects.has(rpc);
}
