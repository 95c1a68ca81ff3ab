/**
 * A provider with moods: it accepts, refuses, throttles, cannot be reached, answers nonsense, hangs or is slow, as seeded
 * chance has it. It keeps what it was given, and says whether the phone got it.
 */
import type { Provider, OutgoingMessage } from "../../src/delivery/provider.ts";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import type { Chance } from "./chance.ts";

export const moods = ["kind", "mixed", "refusing", "down", "hanging", "slow", "throttling"] as const;
export type Mood = (typeof moods)[number];

export interface ScriptedProvider extends Provider {
  mood: Mood;
}

export interface ProviderEvents {
  /** A call begins; what is returned is told when it ends, with the outcome if there is one. */
  readonly onCall: (sms: OutgoingMessage, provider: string) => (outcome?: SendOutcome) => void;
  readonly after: (ms: number, act: () => void) => () => void;
}

type Manner = (answer: (outcome: SendOutcome) => void, signal: AbortSignal, events: ProviderEvents) => void;

const said =
  (outcome: SendOutcome): Manner =>
  (answer) =>
    answer(outcome);
const later =
  (ms: number, outcome: SendOutcome): Manner =>
  (answer, _signal, events) =>
    void events.after(ms, () => answer(outcome));

const accepts = said({ kind: "accepted", providerMessageId: "m" });
const throttles = said({ kind: "throttled", retryAfterMs: 7_000, detail: "too fast" });
const isDown = said({ kind: "unavailable", detail: "no connection" });
const mumbles = said({ kind: "ambiguous", detail: "half an answer" });
const refuses = (cause: "recipient" | "credentials" | "balance" | "content") =>
  said({ kind: "refused", cause, detail: `no: ${cause}` });
/** Hears the worker's patience end, as an adapter of a real provider would, or hears nothing at all. */
const hangs: Manner = (answer, signal) =>
  signal.addEventListener("abort", () => answer({ kind: "ambiguous", detail: "gave up" }));
const isDeaf: Manner = () => {};
const breaks: Manner = () => {
  throw new Error("the adapter broke");
};

const manners: Record<Mood, readonly (readonly [weight: number, manner: Manner])[]> = {
  kind: [[1, accepts]],
  mixed: [
    [6, accepts],
    [1, refuses("recipient")],
    [1, refuses("balance")],
    [1, throttles],
    [1, isDown],
    [1, mumbles],
    [1, hangs],
    [1, isDeaf],
    [1, breaks],
    [1, later(900, { kind: "accepted" })],
    [1, later(4_999, { kind: "accepted" })],
    [1, later(12_000, { kind: "accepted" })],
  ],
  refusing: [
    [3, refuses("recipient")],
    [1, refuses("credentials")],
    [1, refuses("content")],
  ],
  down: [
    [3, isDown],
    [1, mumbles],
  ],
  hanging: [
    [1, hangs],
    [1, isDeaf],
  ],
  slow: [
    [1, later(1_500, { kind: "accepted" })],
    [1, later(3_000, { kind: "refused", cause: "recipient", detail: "no such subscriber" })],
    [1, later(3_000, { kind: "unavailable", detail: "reset" })],
  ],
  throttling: [
    [3, throttles],
    [1, accepts],
  ],
};

export function createScriptedProvider(name: string, chance: Chance, events: ProviderEvents): ScriptedProvider {
  return {
    name,
    mood: "kind",
    send(sms, signal) {
      const manner = chance.weighted(manners[this.mood]);
      const ended = events.onCall(sms, name);
      const { promise, resolve } = Promise.withResolvers<SendOutcome>();
      // For the outside the call is over once the worker has given it up.
      signal.addEventListener("abort", () => ended());
      const answer = (outcome: SendOutcome) => {
        ended(outcome);
        resolve(outcome);
      };
      try {
        manner(answer, signal, events);
      } catch (error) {
        ended();
        throw error;
      }
      return promise;
    },
  };
}
