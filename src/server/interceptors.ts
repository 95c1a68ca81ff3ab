/**
 * What wraps every RPC. The gate refuses a call before its message is read, for the reason the gateway found in the
 * headers; the interceptor sees to the deadline, and turns whatever else goes wrong into a refusal that tells a caller
 * nothing about our insides.
 */
import { Code, ConnectError, type HandlerContext, type Interceptor } from "@connectrpc/connect";
import { refuse, type Refusal } from "../otp/reason.ts";
import { StoreUnavailable } from "../store/store.ts";
import { callKey, type Call } from "./call.ts";
import { toConnectError } from "./status.ts";

const storeRetryMs = 1_000;

/** The request gate: throws for a call that the gateway refused, or that nobody is behind. */
export function gate(context: HandlerContext): void {
  const call = context.values.get(callKey);
  if (call === undefined) throw toConnectError(refuse("INTERNAL").refusal);
  const refusal = call.refusedAtGate ?? (call.caller === undefined ? refuse("API_KEY_MISSING").refusal : undefined);
  if (refusal !== undefined) throw refused(call, refusal);
}

function refused(call: Call, refusal: Refusal): ConnectError {
  call.refusal = refusal;
  return toConnectError(refusal);
}

/** Makes the interceptor; `onFault` is told of what was hidden from the caller. */
export function guard(onFault: (call: Call, error: unknown) => void): Interceptor {
  return (next) => async (request) => {
    const call = request.contextValues.get(callKey);
    if (call === undefined) throw new ConnectError("internal error", Code.Internal);
    call.reached = true;
    const late = lateness(request.signal);
    try {
      return await Promise.race([next(request), late.promise]);
    } catch (error) {
      // A refusal that the service gave out itself.
      if (call.refusal !== undefined) throw error;
      if (error instanceof StoreUnavailable) {
        onFault(call, error);
        throw refused(call, refuse("STORE_UNAVAILABLE", { retryAfterMs: storeRetryMs }).refusal);
      }
      if (request.signal.aborted) throw refused(call, refuse("DEADLINE").refusal);
      onFault(call, error);
      throw refused(call, refuse("INTERNAL").refusal);
    } finally {
      late.forget();
    }
  };
}

/** Rejects when the deadline passes or the client goes. What the act has begun in the store is finished all the same. */
function lateness(signal: AbortSignal): { promise: Promise<never>; forget: () => void } {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(new Error("late"));
  promise.catch(() => {});
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  return { promise, forget: () => signal.removeEventListener("abort", onAbort) };
}
