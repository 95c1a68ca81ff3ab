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
  return offered.find((channel) => channel === name);
}

/** The channels that a caller may use, of those that are on. `named` are those of its key; undefined for any. Pure. */
export function channelsFor(on: readonly Channel[], named: readonly Channel[] | undefined): readonly Channel[] {
  return named === undefined ? on : on.filter((channel) => named.includes(channel));
}

/** The refusal of a channel that is not one of those that the caller may use, which it names. Pure. */
export function channelRefused(offered: readonly Channel[], field = "channel"): Refusal {
  return refuse("CHANNEL_UNSUPPORTED", { field, message: channelsOffered(offered) }).refusal;
}

function channelsOffered(offered: readonly Channel[]): string {
  if (offered.length === 0) return "channel is not offered to this API key.";
  const which = offered.length === 1 ? `the only one is ${offered[0]}` : `those that are on are ${offered.join(", ")}`;
  return `channel is not offered here; ${which}.`;
}
