/**
 * Prices: what the operator says that messages cost, by country, channel and provider. Money is whole millionths of one
 * currency everywhere in here, so that sums are exact; decimals are for people, at the edges.
 */
import { getCountries } from "libphonenumber-js/max";
import * as v from "valibot";
import { channels, type Channel } from "../channel.ts";
import { below, givenTwice, object, readJsonText } from "../json-file.ts";

/** What one price is for. */
export interface Priced {
  /** ISO 3166-1 alpha-2. */
  readonly country: string;
  readonly channel: Channel;
  readonly provider: string;
}

export interface Prices {
  /** ISO 4217, such as EUR. */
  readonly currency: string;
  /** Millionths for one segment of a text, one call, or one WhatsApp message; undefined where the file has none. Pure. */
  priceOf(priced: Priced): number | undefined;
}

/** What reading came to. Without faults there are prices. */
export interface ReadPrices {
  readonly prices: Prices | undefined;
  /** A JSON pointer and a sentence without full stop each, to be put after the name of the file's variable. */
  readonly faults: readonly string[];
}

const fileCharsMax = 1_048_576;
const pricesMax = 20_000;
const millionths = 1_000_000;
const any = "*";

const decimalForm = /^\d{1,9}(\.\d{1,6})?$/;

/** A decimal such as "0.0825" in millionths; undefined for what is no decimal, or has more than six places. Pure. */
export function parseMoney(text: string): number | undefined {
  if (!decimalForm.test(text)) return undefined;
  const [whole = "", places = ""] = text.split(".");
  return Number(whole) * millionths + Number(places.padEnd(6, "0"));
}

/** Millionths as a decimal, of at least two places. Pure. */
export function moneyText(amount: number): string {
  const [whole, rest] = [Math.floor(amount / millionths), amount % millionths];
  const places = String(rest)
    .padStart(6, "0")
    .replace(/0{1,4}$/, "");
  return `${whole}.${places}`;
}

// ---- the file -------------------------------------------------------------------------------------------------------

const countries = new Set<string>([...getCountries(), any]);

const text = v.string("must be a text");
const entryShape = v.strictObject({
  country: v.pipe(
    text,
    v.check((name) => countries.has(name), "must be a country in ISO 3166-1 alpha-2, such as NL, or *"),
  ),
  channel: v.optional(v.picklist([...channels, any], `must be one of ${[...channels, any].join(", ")}`), any),
  provider: v.optional(
    v.pipe(text, v.regex(/^([a-z][a-z0-9-]{0,39}|\*)$/, "must be the name of a provider, such as bird, or *")),
    any,
  ),
  per_segment: v.pipe(
    text,
    v.regex(decimalForm, 'must be a decimal of at most 9 digits and 6 places, such as "0.0825"'),
  ),
});
type Entry = v.InferOutput<typeof entryShape>;

const fileShape = v.pipe(
  object("must be an object"),
  v.strictObject({
    $schema: v.optional(text),
    currency: v.pipe(text, v.regex(/^[A-Z]{3}$/, "must be a currency in ISO 4217, such as EUR")),
    prices: v.pipe(
      v.array(v.pipe(object("must be an object"), entryShape), "must be a list"),
      v.minLength(1, "must have at least one entry"),
      v.maxLength(pricesMax, `must have at most ${pricesMax} entries`),
    ),
  }),
);

/** A name of the file's own is told as far as it is one that could have been meant. */
const keyOf = (key: unknown) => (/^[\w$-]{1,40}$/.test(String(key)) ? String(key) : "…");

/** Reads the file; every fault is told at once. Pure. */
export function readPrices(json: string): ReadPrices {
  const read = readJsonText(json, fileCharsMax);
  if (!read.ok) return { prices: undefined, faults: [read.rest] };
  const repeated = read.repeated.map((pointer) => `${pointer} ${givenTwice}`);
  const parsed = v.safeParse(fileShape, read.value);
  if (!parsed.success) return { prices: undefined, faults: [...repeated, ...faultsOf(parsed.issues)] };
  const { currency, prices } = parsed.output;
  const wrong = [...repeated, ...twinsOf(prices)];
  if (wrong.length > 0) return { prices: undefined, faults: wrong };
  return { prices: { currency, priceOf: finder(prices) }, faults: [] };
}

/** The first fault of each place: the nearest. */
function faultsOf(issues: readonly v.BaseIssue<unknown>[]): string[] {
  const told = new Map<string, string>();
  for (const { path = [], message, expected, received } of issues) {
    const pointer = path.reduce((at, { key }) => below(at, keyOf(key)), "");
    const isMissing = received === "undefined" && path.at(-1)?.value === undefined;
    const rest = isMissing ? "is missing" : expected === "never" ? "is not known" : message;
    if (!told.has(pointer)) told.set(pointer, rest);
  }
  return [...told].map(([pointer, rest]) => `${pointer} ${rest}`.trimStart());
}

const nameOf = ({ country, channel, provider }: Record<keyof Priced, string>) => `${country} ${channel} ${provider}`;

function twinsOf(prices: readonly Entry[]): string[] {
  const first = new Map<string, number>();
  return prices.flatMap((entry, i) => {
    const before = first.get(nameOf(entry));
    if (before === undefined) first.set(nameOf(entry), i);
    return before === undefined ? [] : [`/prices/${i} is for the same as /prices/${before}`];
  });
}

/** Finds the price that names the most: a country before a provider, and a provider before a channel. */
function finder(prices: readonly Entry[]): Prices["priceOf"] {
  const byName = new Map(prices.map((entry) => [nameOf(entry), parseMoney(entry.per_segment)]));
  return ({ country, channel, provider }) => {
    for (const c of [country, any]) {
      for (const p of [provider, any]) {
        for (const h of [channel, any]) {
          const price = byName.get(nameOf({ country: c, channel: h, provider: p }));
          if (price !== undefined) return price;
        }
      }
    }
    return undefined;
  };
}

// ---- a message ------------------------------------------------------------------------------------------------------

/**
 * What a message may cost at most: the dearest of the providers that may be asked for it, times its segments. Undefined where
 * one has no price. Pure.
 */
export function dearest(
  prices: Prices,
  of: Omit<Priced, "provider">,
  providers: readonly string[],
  segments: number,
): number | undefined {
  let price = 0;
  for (const provider of providers) {
    const own = priceAt(prices, { ...of, provider });
    if (own === undefined) return undefined;
    price = Math.max(price, own);
  }
  return price * segments;
}

/** What has no price, in words, of all that may be sent. Pure. */
export function missingPrices(
  prices: Prices,
  to: Iterable<string>,
  providersOf: Readonly<Partial<Record<Channel, readonly string[]>>>,
): string[] {
  return [...to].flatMap((country) =>
    channels.flatMap((channel) =>
      (providersOf[channel] ?? []).flatMap((provider) =>
        priceAt(prices, { country, channel, provider }) === undefined
          ? [`${country} by ${channel} through ${provider}`]
          : [],
      ),
    ),
  );
}

/** The console sends nothing, and costs nothing. */
function priceAt(prices: Prices, priced: Priced): number | undefined {
  return priced.provider === "console" ? 0 : prices.priceOf(priced);
}
