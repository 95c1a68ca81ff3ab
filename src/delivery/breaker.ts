/**
 * A circuit breaker around each provider, and the pauses that a provider asks for (pauses.ts). Once calls to 5 recipients have failed
 * among the last 20 that tell how it is, a provider is not called for 9 s, and then tried with a single call. One that asks
 * to wait is not called for that recipient before its time. Meanwhile the answer is at once "unavailable" or "throttled"
 * (proven not sent), so that the message goes to the next one.
 *
 * It counts recipients and not calls: otherwise whoever sends five times to one odd number that a gateway stumbles over
 * would take that gateway from everybody. For the same reason a recipient whose call failed does not make the trial, as
 * long as another one comes within 9 s more.
 */
import { BrokenCircuitError, circuitBreaker, CircuitState, handleWhenResult, type IBreaker } from "cockatiel";
import { digest } from "../otp/keys/key-ring.ts";
import { waitOf, type SendOutcome } from "../otp/message/message.ts";
import { createPauses } from "./pauses.ts";
import type { Provider } from "./provider.ts";

/** A provider with its breaker. */
export interface GuardedProvider extends Provider {
  /** True while calls are let through. */
  readonly isClosed: () => boolean;
  /** True while every call would be refused unasked. After that one call is let through as a trial. */
  readonly isOpen: () => boolean;
}

const callsRemembered = 20;
/** Recipients whose calls failed among those. */
const failuresMax = 5;
/** With a trial that hangs for its 5 s, a provider that is well again is used within 15 s. */
const halfOpenAfterMs = 9_000;

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
  const failures = new FailureCount();
  const policy = circuitBreaker(handleWhenResult(isFailure), { halfOpenAfter: halfOpenAfterMs, breaker: failures });
  let isClosed = true;
  let openedMs = 0;
  policy.onBreak(() => {
    // A trial that fails opens it again, which changes nothing.
    if (isClosed) onChange?.(provider.name, false);
    isClosed = false;
    openedMs = now();
  });
  policy.onReset(() => {
    onChange?.(provider.name, true);
    isClosed = true;
  });
  const pauses = createPauses();

  return {
    ...provider,
    isClosed: () => isClosed,
    isOpen: () => !isClosed && now() - openedMs < halfOpenAfterMs,
    async send(sms, signal, onStatus) {
      const recipient = digest("recipient", sms.to).toString("base64");
      const pauseMs = pauses.leftMs(recipient, now());
      if (pauseMs > 0) return { kind: "throttled", retryAfterMs: pauseMs, detail: paused, isUnasked: true };
      // While one call tries the provider, cockatiel would have the others wait for it, out of their own time.
      if (policy.state === CircuitState.HalfOpen) return broken;
      const isTrialOfOthers = !isClosed && now() - openedMs < 2 * halfOpenAfterMs;
      if (isTrialOfOthers && failures.includes(recipient)) return broken;
      try {
        const outcome = await policy.execute(async () => {
          let isAnswer = false;
          const answered = await provider.send(sms, signal, (status) => {
            isAnswer = true;
            onStatus?.(status);
          });
          if (saysSomething(answered)) failures.note({ recipient, failed: failureOf(answered, isAnswer) });
          return answered;
        });
        pauses.note(recipient, outcome, now());
        if (outcome.kind !== "throttled") return outcome;
        return { ...outcome, retryAfterMs: Math.max(waitOf(outcome), pauses.leftMs(recipient, now())) };
      } catch (error) {
        if (error instanceof BrokenCircuitError) return broken;
        throw error;
      }
    },
  };
}

/** A call that has ended. */
interface Ended {
  /** Its digest. */
  readonly recipient: string;
  readonly failed: Failure | undefined;
}

/** What a failed call may be due to. Where there was no connection, it is not the recipient. */
type Failure = "provider" | "provider or recipient";

/** Counts failures. Cockatiel's own breaker takes their share, and so would open at 2 of the first 5 calls after a start. */
class FailureCount implements IBreaker {
  /** The last calls, oldest first. */
  state: readonly Ended[] = [];

  /** Notes a call. What it means is asked right after, by one of the two below. */
  note(ended: Ended): void {
    this.state = [...this.state, ended].slice(-callsRemembered);
  }

  success(circuit: CircuitState): void {
    if (circuit === CircuitState.HalfOpen) this.state = [];
  }

  failure(): boolean {
    const ofProvider = this.state.filter(({ failed }) => failed === "provider");
    const others = this.state.filter(({ failed }) => failed === "provider or recipient");
    return ofProvider.length + new Set(others.map(({ recipient }) => recipient)).size >= failuresMax;
  }

  /** Whether a call to a recipient is among the failures that may be due to it. */
  includes(recipient: string): boolean {
    return this.state.some((ended) => ended.recipient === recipient && ended.failed === "provider or recipient");
  }
}

/** Whether a call tells how the provider is. Otherwise whoever has his own numbers throttled or refused could push failures out. */
function saysSomething(outcome: SendOutcome): boolean {
  const isOfNumber = outcome.kind === "throttled" || outcome.kind === "refused";
  return !isOfNumber || failureOf(outcome) !== undefined;
}

/** A refused recipient or text says nothing about the provider; everything else that is not acceptance does. */
function failureOf(outcome: SendOutcome, isAnswer = false): Failure | undefined {
  if (outcome.kind === "unavailable") return isAnswer ? "provider or recipient" : "provider";
  const isOfAccount = outcome.kind === "refused" && (outcome.cause === "credentials" || outcome.cause === "balance");
  return isOfAccount || outcome.kind === "ambiguous" ? "provider or recipient" : undefined;
}

function isFailure(result: unknown): boolean {
  return failureOf(result as SendOutcome) !== undefined;
}
