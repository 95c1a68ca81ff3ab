/**
 * The user's problem with a verification in a sentence, as far as its row and its messages tell it. Pure.
 */
import type { Channel } from "../channel.ts";
import { copyMax, stateAt, type ProviderCallOutcome, type LogEntry, type Verification } from "./verification.ts";
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
    const words = said === undefined ? "without a word on why" : `the carrier says ${said.detail}`;
    return `${counted(taken)} accepted${undelivered(lost.length, taken.length)}; ${words}`;
  }
  if (taken.length > 0) return `${counted(taken)} accepted, and no report of its delivery has come`;
  const doubtful = messages.findLast(({ maybeSent }) => maybeSent);
  if (doubtful !== undefined) {
    const call = log.entries.findLast((entry) => isCallOf(entry, doubtful) && entry.outcome === "ambiguous");
    return `it is not known whether ${a(doubtful.channel)} left: ${call?.provider ?? "the provider"} gave no answer that tells`;
  }
  if (messages.length === 0) return "nothing is known of a message";
  const waiting = messages.findLast((each) => !isProvenUnsent(each));
  return waiting === undefined ? unsent(messages, log.entries) : `${a(waiting.channel)} waits for a provider`;
}

/** How many of those that were accepted were not delivered, and what is known of the others. */
function undelivered(lost: number, accepted: number): string {
  if (lost === accepted) return accepted === 1 ? ", and was not delivered" : ", none delivered";
  const others = accepted - lost === 1 ? "the other" : "the others";
  return `; ${plural(lost, "was", "were")} not delivered, and of ${others} no report has come`;
}

/** Why no message left, by the last call that there was. */
function unsent(messages: readonly Message[], entries: readonly LogEntry[]): string {
  const call = entries.findLast(({ kind, outcome }) => kind === "call" && outcome !== "given-up");
  const who = call?.provider ?? "the provider";
  const why = call === undefined ? undefined : whyUnsent(call.outcome as ProviderCallOutcome, who);
  // A message bears the words of whoever answered last.
  const of = call === undefined ? messages.at(-1) : messages.findLast((each) => isCallOf(call, each));
  const isSaid = call === undefined || of?.provider === call.provider;
  const words = !isSaid || of === undefined || (of.detail ?? "") === "" ? "" : ` (${of.detail})`;
  return `no message left: ${why ?? "it was given up before any provider was asked"}${words}`;
}

/** Whether a log's entry is of a call for a message. */
const isCallOf = ({ kind, copy }: LogEntry, message: Message) =>
  kind === "call" && copy === Math.min(copyMax, message.copy);

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
