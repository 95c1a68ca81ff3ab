/**
 * The pauses that a provider asks for, each of one recipient: whoever has his own numbers throttled would hold everybody's messages
 * otherwise, and those that wait together for an account come together, and are throttled again. A recipient that is
 * throttled again, after its pause, waits twice as long each time and up to twice that, lest its calls use up what the
 * gateway takes of others. It is kept as a digest of the number, until a call two minutes later or more.
 */
import { waitOf, type SendOutcome } from "../otp/message/message.ts";

interface Pauses {
  /** How long a message is to wait still, in milliseconds; 0 or less for one that goes. */
  leftMs(recipient: string, now: number): number;
  /** Notes how a call ended. */
  note(recipient: string, outcome: SendOutcome, now: number): void;
}

/**
 * Recipients that are remembered. Where there are more, the one that was throttled longest ago is forgotten, and a newcomer
 * is throttled as often as that one: each would wait for a second, and a gateway that takes nothing be asked by all of them.
 */
export const recipientsMax = 10_000;
/** The longest pause, asked for or lengthened. */
const pauseMsMax = 60_000;
/** For how long after its pause a recipient is remembered, in which the next one is twice as long. */
const rememberedMs = 60_000;

/** The pauses of one provider. */
export function createPauses(): Pauses {
  const throttled = new Map<string, { readonly untilMs: number; readonly times: number }>();

  function forget(now: number): void {
    for (const [recipient, { untilMs }] of throttled) {
      if (untilMs + rememberedMs > now && throttled.size <= recipientsMax) return;
      throttled.delete(recipient);
    }
  }

  /** What makes room for a newcomer, if it has to. */
  function leaver() {
    const [longestAgo] = throttled.values();
    return throttled.size < recipientsMax ? undefined : longestAgo;
  }

  return {
    leftMs(recipient, now) {
      forget(now);
      return (throttled.get(recipient)?.untilMs ?? 0) - now;
    },
    note(recipient, outcome, now) {
      if (outcome.kind === "accepted") throttled.delete(recipient);
      if (outcome.kind !== "throttled") return;
      const before = throttled.get(recipient) ?? leaver();
      // Calls to one number that were under way together are throttled once.
      const times = before === undefined ? 1 : before.times + (before.untilMs <= now ? 1 : 0);
      const spread = times === 1 ? 1 : 1 + spreadOf(recipient);
      const pauseMs = Math.ceil(waitOf(outcome) * 2 ** (times - 1) * spread);
      throttled.delete(recipient);
      throttled.set(recipient, { untilMs: now + Math.min(pauseMs, pauseMsMax), times });
      forget(now);
    },
  };
}

/** By what part a recipient waits longer, 0 to 1, always the same: those that are throttled together twice come apart after that. */
function spreadOf(recipient: string): number {
  return (Buffer.from(recipient, "base64")[0] ?? 0) / 255;
}
