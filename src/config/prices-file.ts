/**
 * OTP_PRICES_FILE, and what a cap on money needs of it: a price for all that may be sent.
 */
import { channels, type Channel } from "../otp/channel.ts";
import { missingPrices, readPrices, type Prices } from "../otp/message/prices.ts";
import { fileTrouble } from "../store/file-trouble.ts";
import type { Environment } from "./names.ts";

const variable = "OTP_PRICES_FILE";

/** More names than these are counted. */
const namedMax = 10;

/** Reads the file that the environment names, if it does. `readFile` may throw. Pure otherwise. */
export function readPricesFile(
  env: Environment,
  readFile: (path: string) => string,
): { readonly prices: Prices | undefined; readonly faults: readonly string[] } {
  const path = env[variable];
  if (!path) return { prices: undefined, faults: [] };
  let json: string;
  try {
    json = readFile(path);
  } catch (error) {
    return { prices: undefined, faults: [`${variable} names a file that ${fileTrouble(error) ?? "cannot be read"}.`] };
  }
  const { prices, faults } = readPrices(json);
  return { prices, faults: faults.map((rest) => `${variable} ${rest}.`) };
}

/** The names of the providers of each channel that is on. */
export type ChannelProviders = Readonly<Partial<Record<Channel, readonly string[]>>>;

/**
 * What a cap on money lacks, as the rest of a sentence: the prices, or some of them. Without a list of countries there has to
 * be a price for any. Pure.
 */
export function unpriced(
  prices: Prices | undefined,
  countries: ReadonlySet<string> | undefined,
  providers: ChannelProviders,
): string | undefined {
  if (prices === undefined) return `needs ${variable}`;
  const missing = missingPrices(prices, countries ?? ["*"], providers);
  if (missing.length === 0) return undefined;
  const more = missing.length > namedMax ? `, and ${missing.length - namedMax} more` : "";
  return `needs a price in ${variable} for ${missing.slice(0, namedMax).join(", ")}${more}`;
}

/** What `otpd doctor` says of the prices of what may be sent: how many there are. Pure. */
export function pricedCount(prices: Prices, countries: ReadonlySet<string> | undefined, providers: ChannelProviders) {
  const all = channels.flatMap((channel) => providers[channel] ?? []).length * (countries?.size ?? 1);
  const missing = missingPrices(prices, countries ?? ["*"], providers);
  return { all, missing };
}
