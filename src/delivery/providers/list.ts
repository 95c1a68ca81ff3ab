/**
 * The ways out that there are, by name, and how each is made from its settings.
 */
import { createBirdProvider } from "./bird.ts";
import { createConsoleProvider } from "./console.ts";
import { createMessageBirdProvider } from "./messagebird.ts";
import type { Provider } from "../provider.ts";
import { createWebhookProvider } from "./webhook.ts";

export const providerNames = ["console", "messagebird", "bird", "webhook"] as const;
export type ProviderName = (typeof providerNames)[number];

/** What the ways out need to know. A part is there when its provider is configured. */
export interface ProviderSettings {
  /** Where this service is reached from outside, without a slash at the end; undefined when it is not told. */
  readonly publicUrl: string | undefined;
  /** Senders of single countries. */
  readonly originators: ReadonlyMap<string, string>;
  readonly messagebird:
    | {
        readonly accessKey: string;
        readonly originator: string;
        readonly signingKey: string | undefined;
        readonly baseUrl: URL;
      }
    | undefined;
  readonly bird:
    | {
        readonly apiKey: string;
        readonly originator: string;
        readonly webhookSecret: string | undefined;
        readonly baseUrl: URL | undefined;
      }
    | undefined;
  readonly webhook: { readonly url: URL; readonly secret: Uint8Array } | undefined;
}

/** Makes one provider. `now` is a clock in milliseconds; `print` puts text on standard output. */
export function makeProvider(
  name: ProviderName,
  { publicUrl, originators, ...settings }: ProviderSettings,
  now: () => number,
  print: (text: string) => void,
): Provider {
  const makers: Record<ProviderName, () => Provider | undefined> = {
    console: () => createConsoleProvider(print),
    messagebird: () =>
      settings.messagebird && createMessageBirdProvider({ ...settings.messagebird, publicUrl, originators, now }),
    bird: () => settings.bird && createBirdProvider({ ...settings.bird, originators, now }),
    webhook: () => settings.webhook && createWebhookProvider({ ...settings.webhook, now }),
  };
  const provider = makers[name]();
  if (provider === undefined) throw new Error(`the provider ${name} is not configured`);
  return provider;
}
