/**
 * Channels: the ways by which a message reaches a phone. A verification is asked for by one, and each of its messages goes
 * by one. Limits, guesses and lengths count a phone over all of them.
 */
import { refuse, type Refusal } from "./reason.ts";

/**
 * Every channel that rows may name, stored by position: append only. A version reads all of them, those that it does not
 * offer too, so that it goes on beside a later one that does.
 */
export const channels = ["sms", "voice", "whatsapp"] as const;
export type Channel = (typeof channels)[number];

/** What a call asks for that names none, and what a publishable key may use unless more was named at its creation. */
export const defaultChannel: Channel = "sms";

/** What was asked for in one spelling: in small letters, and the default where nothing was. Pure. */
export function channelName(asked: string): string {
  return asked.toLowerCase() || defaultChannel;
}

/** The channel of that name (`channelName`), or undefined where it is not one of these. Pure. */
export function findChannel(name: string, offered: readonly Channel[]): Channel | undefined {
  return offered.includes(name as Channel) ? (name as Channel) : undefined;
}

/** The channels that a caller may use, of those that are on. `named` are those of its key; undefined for any. Pure. */
export function channelsFor(on: readonly Channel[], named: readonly Channel[] | undefined): readonly Channel[] {
  return named === undefined ? on : on.filter((channel) => named.includes(channel));
}

/** What was asked for in vain. */
export interface ChannelAsked {
  /** `channel` unless given. */
  readonly field?: string;
  /** The names that were asked for (`channelName`). */
  readonly names?: readonly string[];
  /** Channels that have a provider, and a daily cap of 0: nothing goes out by them, and only the operator can see why. */
  readonly uncapped?: readonly Channel[] | undefined;
}

/** The refusal of a channel that is not one of those that the caller may use, which it names. Pure. */
export function channelRefused(
  offered: readonly Channel[],
  { field = "channel", names = [], uncapped = [] }: ChannelAsked = {},
): Refusal {
  const idle = uncapped.find((each) => names.includes(each));
  const subject = field === "channel" ? field : `A channel of ${field}`;
  return refuse("CHANNEL_UNSUPPORTED", { field, message: `${subject} ${whatIsOffered(offered, idle)}` }).refusal;
}

function whatIsOffered(offered: readonly Channel[], idle: Channel | undefined): string {
  const why = idle === undefined ? "" : `: ${idle} is on but its daily cap is 0`;
  if (offered.length === 0) return `is not offered ${idle === undefined ? "to this API key" : `here${why}`}.`;
  const which = offered.length === 1 ? `the only one is ${offered[0]}` : `those that are on are ${offered.join(", ")}`;
  return `is not offered here${why}; ${which}.`;
}
