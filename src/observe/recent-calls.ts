/**
 * How each provider fares: its calls in the last hour on this instance. They are kept in 60 slots of a minute with fixed
 * steps of latency, which take the same room however many calls there are. Calls for test keys are left out.
 */
import type { Channel } from "../otp/channel.ts";
import type { SendOutcome } from "../otp/message/message.ts";
import { minuteMs, type Instant } from "../system.ts";

/** A call as it ended. */
export interface RecentCall {
  readonly outcome: SendOutcome;
  readonly durationMs: number;
  /** Whether the message came from a provider before this one. */
  readonly isTakenOver: boolean;
}

export interface LastHour {
  readonly calls: number;
  /** Of those, calls that failed for the provider's sake. */
  readonly failures: number;
  /** Of those, calls of messages that a provider before this one had not taken. */
  readonly takenOver: number;
  /** Messages that went past it unasked. */
  readonly passedOver: number;
  /** So long took half of the calls, and 99 of 100, to within the width of a step; undefined for none. */
  readonly p50Ms: number | undefined;
  readonly p99Ms: number | undefined;
}

export interface RecentCalls {
  note(provider: string, channel: Channel, call: RecentCall): void;
  read(provider: string, channel: Channel): LastHour;
}

const slotsMax = 60;
/** Where the steps of latency end, in milliseconds; a call ends after 5 s. */
const stepEndsMs = [
  10, 20, 30, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1_000, 1_500, 2_000, 3_000, 4_000, 5_000, 10_000,
];

interface Slot {
  minute: number;
  calls: number;
  failures: number;
  takenOver: number;
  passedOver: number;
  readonly steps: number[];
}

/** `now` is a clock in milliseconds. */
export function createRecentCalls(now: () => Instant): RecentCalls {
  const known = new Map<string, Slot[]>();

  return {
    note(provider, channel, { outcome, durationMs, isTakenOver }) {
      const name = `${channel} ${provider}`;
      let slots = known.get(name);
      if (slots === undefined) known.set(name, (slots = []));
      const minute = Math.floor(now() / minuteMs);
      let slot = slots[minute % slotsMax];
      if (slot?.minute !== minute) slots[minute % slotsMax] = slot = emptySlot(minute);
      if ("isUnasked" in outcome) {
        slot.passedOver += 1;
        return;
      }
      slot.calls += 1;
      if (outcome.kind !== "accepted" && isFailure(outcome)) slot.failures += 1;
      if (isTakenOver) slot.takenOver += 1;
      let step = 0;
      while (step < stepEndsMs.length - 1 && durationMs > (stepEndsMs[step] ?? 0)) step += 1;
      slot.steps[step] = (slot.steps[step] ?? 0) + 1;
    },
    read(provider, channel) {
      const oldest = Math.floor(now() / minuteMs) - slotsMax;
      // Places that no minute has had yet are holes.
      const slots = Object.values(known.get(`${channel} ${provider}`) ?? []).filter(({ minute }) => minute > oldest);
      const sum = (of: (slot: Slot) => number) => slots.reduce((total, slot) => total + of(slot), 0);
      const steps = stepEndsMs.map((_, step) => sum((slot) => slot.steps[step] ?? 0));
      return {
        calls: sum((slot) => slot.calls),
        failures: sum((slot) => slot.failures),
        takenOver: sum((slot) => slot.takenOver),
        passedOver: sum((slot) => slot.passedOver),
        p50Ms: quantile(steps, 0.5),
        p99Ms: quantile(steps, 0.99),
      };
    },
  };
}

function emptySlot(minute: number): Slot {
  return { minute, calls: 0, failures: 0, takenOver: 0, passedOver: 0, steps: [] };
}

/** Whether a call that was not accepted says something about the provider, rather than about the number or the text. */
function isFailure(outcome: SendOutcome): boolean {
  return outcome.kind !== "refused" || outcome.cause === "credentials" || outcome.cause === "balance";
}

/** The end of the step that so large a share of the calls is in or below. */
function quantile(steps: readonly number[], share: number): number | undefined {
  const calls = steps.reduce((total, count) => total + count, 0);
  let seen = 0;
  return stepEndsMs.find((_, step) => {
    seen += steps[step] ?? 0;
    return calls > 0 && seen >= calls * share;
  });
}
