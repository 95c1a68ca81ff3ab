/**
 * A circuit breaker around each provider, and its pause. A provider that fails 5 of its last 20 calls is not called for
 * 9 s, then tried with a single call. A provider that asks to wait is not called before its time. Meanwhile the answer is
 * at once "unavailable" (proven not sent), so that the message goes to the next provider.
 */
import { BrokenCircuitError, circuitBreaker, CircuitState, handleWhenResult, type IBreaker } from "cockatiel";
import type { SendOutcome } from "../otp/message.ts";
import type { Provider } from "./provider.ts";

/** A provider with its breaker. */
export interface GuardedProvider extends Provider {
  /** True while calls are let through. */
  readonly isClosed: () => boolean;
  /** True while every call would be refused unasked. After that one call is let through as a trial. */
  readonly isOpen: () => boolean;
}

const callsRemembered = 20;
const failuresMax = 5;
/** With a trial that hangs for its 5 s, a provider that is well again is used within 15 s. */
const halfOpenAfterMs = 9_000;
/** The longest pause that a provider may ask for. */
const pauseMsMax = 60_000;

const broken: SendOutcome = {
  kind: "unavailable",
  detail: "the provider failed too often lately",
  isUnasked: true,
};

const paused = "paused at the provider's request";

/** Wraps a provider; `now` is a clock in milliseconds. `onChange` is called when it opens and when it closes. */
export function guarded(
  provider: Provider,
  now: () => number,
  onChange?: (provider: string, isClosed: boolean) => void,
): GuardedProvider {
  const policy = circuitBreaker(handleWhenResult(isFailure), {
    halfOpenAfter: halfOpenAfterMs,
    breaker: new FailureCount(),
  });
  let isClosed = true;
  let openedMs = 0;
  const change = (closes: boolean) => {
    // A trial that fails opens it again, which changes nothing.
    if (isClosed !== closes) onChange?.(provider.name, closes);
    isClosed = closes;
  };
  policy.onBreak(() => {
    change(false);
    openedMs = now();
  });
  policy.onReset(() => change(true));
  let pausedUntilMs = 0;

  return {
    ...provider,
    isClosed: () => isClosed,
    isOpen: () => !isClosed && now() - openedMs < halfOpenAfterMs,
    async send(sms, signal) {
      const pauseMs = pausedUntilMs - now();
      if (pauseMs > 0) return { kind: "throttled", retryAfterMs: pauseMs, detail: paused, isUnasked: true };
      // While one call tries the provider, cockatiel would have the others wait for it, out of their own time.
      if (policy.state === CircuitState.HalfOpen) return broken;
      try {
        const outcome = await policy.execute(() => provider.send(sms, signal));
        if (outcome.kind === "throttled" && outcome.retryAfterMs !== undefined) {
          pausedUntilMs = now() + Math.min(outcome.retryAfterMs, pauseMsMax);
        }
        return outcome;
      } catch (error) {
        if (error instanceof BrokenCircuitError) return broken;
        throw error;
      }
    },
  };
}

/** Counts failures. Cockatiel's own breaker takes their share, and so would open at 2 of the first 5 calls after a start. */
class FailureCount implements IBreaker {
  /** Whether each of the last calls failed, oldest first. */
  state: readonly boolean[] = [];

  success(circuit: CircuitState): void {
    if (circuit === CircuitState.HalfOpen) this.state = [];
    else this.#note(false);
  }

  failure(): boolean {
    this.#note(true);
    return this.state.filter((hasFailed) => hasFailed).length >= failuresMax;
  }

  #note(hasFailed: boolean): void {
    this.state = [...this.state, hasFailed].slice(-callsRemembered);
  }
}

/** A refused recipient or text says nothing about the provider; everything else that is not acceptance does. */
function isFailure(result: unknown): boolean {
  const outcome = result as SendOutcome;
  if (outcome.kind === "refused") return outcome.cause === "credentials" || outcome.cause === "balance";
  return outcome.kind === "unavailable" || outcome.kind === "ambiguous";
}
