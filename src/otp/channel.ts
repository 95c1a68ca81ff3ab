/**
 * Channels: the ways by which a message reaches a phone. A verification is asked for by one, and each of its messages goes
 * by one. Limits, guesses and lengths count a phone over all of them.
 */

/**
 * Every channel that rows may name, stored by position: append only. A version reads all of them, those that it does not
 * offer too, so that it goes on beside a later one that does.
 */
export const channels = ["sms", "voice", "whatsapp"] as const;
export type Channel = (typeof channels)[number];

/** Those that a caller may ask for here. */
export const channelsOn: readonly Channel[] = ["sms"];

const defaultChannel: Channel = "sms";

/** What was asked for in one spelling: in small letters, and the default where nothing was. Pure. */
export function channelName(asked: string): string {
  return asked.toLowerCase() || defaultChannel;
}

/** The channel of that name (`channelName`), or undefined where it is not on. Pure. */
export function findChannel(name: string): Channel | undefined {
  return (channelsOn as readonly string[]).includes(name) ? (name as Channel) : undefined;
}

/** Says which channels are on: what a caller is told who asked for another. Pure. */
export function channelsOffered(on: readonly Channel[] = channelsOn): string {
  const which = on.length === 1 ? `the only one is ${on[0]}` : `those that are on are ${on.join(", ")}`;
  return `channel is not offered here; ${which}.`;
}
