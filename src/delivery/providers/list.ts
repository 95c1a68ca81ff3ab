/**
 * The list of providers, and how one is made of its configuration.
 */
import { defaultChannel, type Channel } from "../../otp/channel.ts";
import type { Provider } from "../provider.ts";
import { birdProvider } from "./bird.ts";
import { consoleProvider } from "./console.ts";
import type { Description, ProviderDependencies } from "./description.ts";
import { messagebirdProvider } from "./messagebird.ts";
import { webhookProvider } from "./webhook.ts";

/** In the order of the documents. */
export const providers = [consoleProvider, messagebirdProvider, birdProvider, webhookProvider] as const;

export const providerNames: readonly string[] = providers.map(({ name }) => name);

/** What is configured for providers. */
export interface ProviderSettings extends Pick<ProviderDependencies, "publicUrl" | "originators"> {
  /** The values of providers' variables, each as its shape reads it. */
  readonly values: Readonly<Record<string, unknown>>;
  /** Those that the operator's file declares. */
  readonly declared: readonly Description[];
}

/** The description of a provider, by a name that configuration has checked. */
export function describedAs(name: string, declared: readonly Description[]): Description {
  const found = [...providers, ...declared].find((each) => each.name === name);
  if (found === undefined) throw new Error(`there is no provider ${name}`);
  return found;
}

/** Whether a provider takes messages of a channel. */
export function takes({ channels = [defaultChannel] }: Description, channel: Channel): boolean {
  return channels.includes(channel);
}

/** The variables that a provider cannot do without, and that are not set. */
export function missingVariables({ variables }: Description, isSet: (name: string) => boolean): string[] {
  return Object.entries(variables).flatMap(([name, { isRequired }]) =>
    isRequired === true && !isSet(name) ? [name] : [],
  );
}

/** The names of those that have all they need, and what their reports are checked with. */
export function reportersIn({ values, declared }: ProviderSettings): string[] {
  const isSet = (name: string) => values[name] !== undefined;
  return [...providers, ...declared]
    .filter(({ reportSecret }) => reportSecret !== undefined && isSet(reportSecret))
    .filter((each) => missingVariables(each, isSet).length === 0)
    .map(({ name }) => name);
}

/** Makes a provider of its settings, which hold all that it needs. */
export async function makeProvider(
  name: string,
  { values, declared, ...configured }: ProviderSettings,
  dependencies: Pick<ProviderDependencies, "now" | "print">,
): Promise<Provider> {
  return describedAs(name, declared).create(values, { ...configured, ...dependencies });
}
