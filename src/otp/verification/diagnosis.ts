/**
 * The user's problem with a verification in a sentence, as far as its row and its messages tell it. Pure.
 */
import type { Channel } from "../channel.ts";
import { stateAt, type ProviderCallOutcome, type LogEntry, type Verification } from "./verification.ts";
import { isProvenUnsent, type Message } from "../message/message.ts";
import type { Instant } from "../../system.ts";

/** One sentence, without a number, a code or an id. A provider's own words are in it, cleaned as they were stored. */
export function diagnose(verification: Verification, messages: readonly Message[], now: Instant): string {
  const state = stateAt(verification, now);
  if (state === "VERIFIED") return `The right code was typed ${seconds(verification)} after it was asked for.`;
  const way = wayOf(verification, messages);
  if (state === "CANCELED") return `It was canceled before the right code was typed; ${way}.`;
  if (state === "FAILED") return `${capital(way)}, so it failed.`;
  const wrong = plural(verification.attempts, "wrong code was", "wrong codes were");
  if (state === "LOCKED") return `${capital(way)}, and ${wrong} typed, which locked it.`;
  const typed = verification.attempts === 0 ? "no code was typed" : `${wrong} typed`;
  if (state === "EXPIRED") return `${capital(way)}; ${typed} before its time was over.`;
  return `${capital(way)}; ${typed} so far.`;
}

/** What became of the messages. */
function wayOf({ log }: Verification, messages: readonly Message[]): string {
  const taken = messages.filter(({ delivery }) => ["ACCEPTED", "DELIVERED", "UNDELIVERED"].includes(delivery));
  const arrived = taken.filter(({ delivery }) => delivery === "DELIVERED");
  if (arrived.length > 0) return `${counted(arrived)} delivered`;
  const lost = taken.filter(({ delivery }) => delivery === "UNDELIVERED");
  const said = lost.findLast(({ detail }) => detail !== null && detail !== "");
  if (lost.length > 0) {
    const none = taken.length === 1 ? "and was not delivered" : "none delivered";
    const words = said === undefined ? "without a word on why" : `the carrier says ${said.detail}`;
    return `${counted(taken)} accepted, ${none}; ${words}`;
  }
  if (taken.length > 0) return `${counted(taken)} accepted, and no report of its delivery has come`;
  const last = messages.at(-1);
  if (last === undefined) return "nothing is known of a message";
  if (messages.some(({ maybeSent }) => maybeSent)) {
    return `it is not known whether ${a(last.channel)} left: ${last.provider ?? "the provider"} gave no answer that tells`;
  }
  if (messages.every(isProvenUnsent)) return unsent(last, log.entries);
  return `${a(last.channel)} waits for a provider`;
}

/** Why no message left, by the last call that there was. */
function unsent(message: Message, entries: readonly LogEntry[]): string {
  const who = message.provider ?? "the provider";
  const call = entries.findLast(({ kind, outcome }) => kind === "call" && outcome !== "given-up");
  const why = call === undefined ? undefined : whyUnsent(call.outcome as ProviderCallOutcome, who);
  const words = message.detail === null || message.detail === "" ? "" : ` (${message.detail})`;
  return `no message left: ${why ?? "it was given up before any provider was asked"}${words}`;
}

function whyUnsent(outcome: ProviderCallOutcome, who: string): string {
  switch (outcome) {
    case "recipient":
      return `${who} refuses this number`;
    case "credentials":
      return `${who} refuses our credentials`;
    case "balance":
      return `our balance with ${who} is used up`;
    case "content":
      return `${who} refuses the text`;
    case "throttled":
      return `${who} asks us to wait`;
    case "unavailable":
      return `${who} could not be reached`;
    case "accepted":
    case "delivered":
    case "undelivered":
    case "ambiguous":
    case "given-up":
    default:
      return `${who} did not take it`;
  }
}

function counted(messages: readonly Message[]): string {
  const [first] = messages;
  const isOne = messages.every(({ channel }) => channel === first?.channel);
  const [one, many] = isOne && first !== undefined ? nouns(first.channel) : (["message", "messages"] as const);
  return plural(messages.length, `${one} was`, `${many} were`);
}

function nouns(channel: Channel): readonly [string, string] {
  if (channel === "sms") return ["text", "texts"];
  return channel === "voice" ? ["call", "calls"] : ["WhatsApp message", "WhatsApp messages"];
}

const a = (channel: Channel) => `a ${nouns(channel)[0]}`;
const small = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

function plural(count: number, one: string, many: string): string {
  return `${small[count] ?? count} ${count === 1 ? one : many}`;
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function seconds({ createMs, endMs }: Verification): string {
  return `${Math.max(0, Math.round(((endMs ?? createMs) - createMs) / 1_000))} s`;
}
