/**
 * What can be wrong with the providers that the environment names for each channel.
 */
import type { Description } from "../delivery/providers/description.ts";
import { describedAs, missingVariables, providerNames, takes } from "../delivery/providers/list.ts";
import { channels, type Channel } from "../otp/channel.ts";
import type { DeclaredProviders } from "./http-providers.ts";
import type { Given } from "./variables.ts";

/** The names of the providers of each channel. */
export type ProviderNames = Readonly<Record<Channel, readonly string[]>>;

/** The variable that names the providers of a channel. */
export const providerVariable = {
  sms: "OTP_PROVIDERS",
  voice: "OTP_VOICE_PROVIDERS",
  whatsapp: "OTP_WHATSAPP_PROVIDERS",
} as const satisfies Record<Channel, keyof Given>;

/** Providers whose calls would leave the code on a voicemail. */
export function faultsOfUnattended(voice: readonly string[], declared: readonly Description[]): string[] {
  const known = new Set([...providerNames, ...declared.map(({ name }) => name)]);
  return [...new Set(voice)]
    .filter((name) => known.has(name) && describedAs(name, declared).speaksUnasked === true)
    .map(
      (name) =>
        `OTP_VOICE_UNATTENDED must be on for ${name}, which speaks the code without waiting for a key: a voicemail may keep it.`,
    );
}

/** What is wrong with the providers of the channels: named twice, or without what they need. */
export function faultsOfProviders(
  providers: ProviderNames,
  declared: readonly Description[],
  named: ReadonlySet<string>,
): string[] {
  return channels.flatMap((channel) => {
    const [variable, names] = [providerVariable[channel], providers[channel]];
    const faults: string[] = [];
    if (new Set(names).size < names.length) faults.push(`${variable} names a provider twice.`);
    for (const provider of new Set(names)) {
      for (const name of missingOf(provider, declared, named)) {
        faults.push(`${name} is required by ${variable}=${provider}.`);
      }
    }
    return faults;
  });
}

/** What a provider cannot do without, and is not set. */
function missingOf(provider: string, declared: readonly Description[], named: ReadonlySet<string>): string[] {
  // The file of an unread declaration has faults of its own.
  if (!providerNames.includes(provider) && declared.length === 0) return [];
  return missingVariables(describedAs(provider, declared), (name) => named.has(name));
}

/** What is wrong with the names of providers: unknown, or of one that does not take the channel. */
export function faultsOfNames(asked: ProviderNames, { names, descriptions }: DeclaredProviders): string[] {
  // The file of providers could not be read.
  if (names === undefined) return [];
  const known = [...providerNames, ...names];
  return channels.flatMap((channel) => {
    const variable = providerVariable[channel];
    const isKnown = asked[channel].every((name) => known.includes(name));
    const others = names.length === 0 ? ", or an entry of OTP_HTTP_PROVIDERS_FILE" : "";
    if (!isKnown) return [`${variable} must be one of ${known.join(", ")}${others}.`];
    // The channels of a declaration that has faults are not known.
    const strange = asked[channel].filter((name) => {
      const isRead = providerNames.includes(name) || descriptions.length > 0;
      return isRead && !takes(describedAs(name, descriptions), channel);
    });
    return strange.map((name) => `${variable} names ${name}, which takes no messages of the channel ${channel}.`);
  });
}
