/**
 * The shapes of the values of `OTP_*` variables, one per kind of value, each with the sentence for a wrong one. No sentence
 * repeats a value.
 */
import { getCountries, type CountryCode } from "libphonenumber-js/max";
import { isIP } from "node:net";
import * as v from "valibot";
import { parseOriginator } from "../delivery/providers/shapes.ts";
import type { AddressRange } from "../delivery/public-address.ts";
import { parseFallback, type FallbackPlan } from "../otp/message/fallback.ts";
import { masterKeyBytes } from "../otp/keys/key-ring.ts";
import { parseMoney } from "../otp/message/prices.ts";
import type { Limit } from "../otp/limits/rate-limit.ts";
import type { Database } from "../store/open.ts";

export const integer = (min: number, max: number, unit = "") =>
  v.pipe(
    v.string(),
    v.regex(/^\d{1,9}$/, `must be a whole number${unit === "" ? "" : ` of${unit === " ms" ? " milliseconds" : unit}`}`),
    v.transform(Number),
    v.minValue(min, `must be at least ${min}${unit}`),
    v.maxValue(max, `must be at most ${max}${unit}`),
  );

export const oneOf = <const T extends readonly string[]>(options: T) =>
  v.picklist(options, `must be one of ${options.join(", ")}`);

export const commaList = v.pipe(
  v.string(),
  v.transform((text) => text.split(",").map((part) => part.trim())),
);

const unitsMs = new Map([
  ["s", 1_000],
  ["m", 60_000],
  ["h", 3_600_000],
  ["d", 86_400_000],
]);

/** `90s`, `10m`, `4h`, `1d`; a bare number is seconds. Undefined for anything else. */
export function parseDurationMs(text: string): number | undefined {
  const [, digits, unit] = /^(\d{1,6})([smhd]?)$/.exec(text) ?? [];
  return digits === undefined ? undefined : Number(digits) * (unitsMs.get(unit || "s") ?? 1_000);
}

const limitIntervalMsMax = 90 * 86_400_000;

export function parseLimit(text: string): Limit | undefined {
  const limit = parseFastLimit(text);
  return limit === undefined || limit.intervalMs < 1_000 ? undefined : limit;
}

/** A limit whose interval may also be in milliseconds: `1000@1ms` is a thousand a second. */
function parseFastLimit(text: string): Limit | undefined {
  const [, burst, interval = ""] = /^(\d{1,4})@(\w+)$/.exec(text) ?? [];
  const ms = /^(\d{1,6})ms$/.exec(interval)?.[1];
  const intervalMs = ms === undefined ? parseDurationMs(interval) : Number(ms);
  // Its burst times its interval has to stay a whole number of milliseconds.
  return intervalMs === undefined || intervalMs < 1 || intervalMs > limitIntervalMsMax || Number(burst) < 1
    ? undefined
    : { burst: Number(burst), intervalMs };
}

export const limit = v.pipe(
  v.string(),
  v.rawTransform<string, Limit>(({ dataset, addIssue, NEVER }) => {
    const parsed = parseFastLimit(dataset.value);
    if (parsed !== undefined) return parsed;
    addIssue({ message: "must be a limit such as 60@1s or 1000@1ms (burst@interval)" });
    return NEVER;
  }),
);

/** An address or a range of them, such as 10.0.0.0/8. */
export function parseAddressRange(text: string): AddressRange | undefined {
  const [, address = "", suffix] = /^([0-9a-f:.]+)(?:\/(\d{1,3}))?$/i.exec(text) ?? [];
  const bitsMax = { 4: 32, 6: 128 }[isIP(address)];
  const bits = suffix === undefined ? bitsMax : Number(suffix);
  return bitsMax === undefined || bits === undefined || bits > bitsMax ? undefined : { address, bits };
}

/** A list whose every entry parses; `shape` says what an entry looks like. */
export const listOf = <T>(parse: (text: string) => T | undefined, min: number, max: number, shape: string) =>
  v.pipe(
    commaList,
    v.minLength(min, `must have at least ${min} entries`),
    v.maxLength(max, `must have at most ${max} entries`),
    v.rawTransform<string[], T[]>(({ dataset, addIssue, NEVER }) => {
      const parsed = dataset.value.map(parse);
      if (parsed.every((entry) => entry !== undefined)) return parsed;
      addIssue({ message: `must be a list such as ${shape}` });
      return NEVER;
    }),
  );

export function parseGapMs(text: string): number | undefined {
  const ms = parseDurationMs(text);
  return ms === undefined || ms < 1_000 || ms > 600_000 ? undefined : ms;
}

/** An order of channels and a wait, such as whatsapp>sms@30s. */
export const fallbackOrder = v.pipe(
  v.string(),
  v.rawTransform<string, FallbackPlan>(({ dataset, addIssue, NEVER }) => {
    const parsed = parseFallback(dataset.value, parseDurationMs);
    if (parsed !== undefined) return parsed;
    addIssue({
      message:
        "must be channels in their order and a wait, such as whatsapp>sms@30s (two channels or more, 15s to 120s)",
    });
    return NEVER;
  }),
);

/** An amount of money, in millionths. */
export const money = v.pipe(
  v.string(),
  v.rawTransform<string, number>(({ dataset, addIssue, NEVER }) => {
    const amount = parseMoney(dataset.value);
    if (amount !== undefined && amount > 0) return amount;
    addIssue({ message: "must be a decimal of more than 0, with at most 6 places, such as 250.00" });
    return NEVER;
  }),
);

const countries = new Set<string>(getCountries());
export function parseCountry(text: string): CountryCode | undefined {
  return countries.has(text.toUpperCase()) ? (text.toUpperCase() as CountryCode) : undefined;
}

const leaked = ":leaked";

/** A master key, and whether it is marked as leaked. */
export function parseMasterKey(text: string): { bytes: Uint8Array; isLeaked: boolean } | undefined {
  const isLeaked = text.endsWith(leaked);
  const key = isLeaked ? text.slice(0, -leaked.length) : text;
  const bytes = Buffer.from(key, "base64url");
  return bytes.length === masterKeyBytes && bytes.toString("base64url") === key ? { bytes, isLeaked } : undefined;
}

export function parseCountryOriginator(text: string): [country: string, originator: string] | undefined {
  const [country = "", sender = ""] = text.split("=", 2);
  const [region, from] = [parseCountry(country), parseOriginator(sender)];
  return region === undefined || from === undefined ? undefined : [region, from];
}

/** A cap on the messages of a day to one country, such as NG=50. */
export function parseCountryCap(text: string): [country: string, max: number] | undefined {
  const [, country = "", max = ""] = /^([A-Za-z]{2})=(\d{1,9})$/.exec(text) ?? [];
  const region = parseCountry(country);
  return region === undefined || Number(max) > 100_000_000 ? undefined : [region, Number(max)];
}

/** A SQLite file or a PostgreSQL database. A wrong value is not repeated: it may hold a password. */
export const databaseUrl = v.pipe(
  v.string(),
  v.check(
    (text) => /^file:.+/.test(text) || (/^postgres(ql)?:\/\//.test(text) && URL.canParse(text)),
    "must be file:<path>, such as file:./data/otp.db, or postgres://user:password@host:5432/database",
  ),
  v.transform((text): Database =>
    text.startsWith("file:") ? { kind: "sqlite", path: text.slice("file:".length) } : { kind: "postgres", url: text },
  ),
);

export const visible = v.pipe(
  v.string(),
  v.maxLength(40, "must have at most 40 characters"),
  // The brand stands in an SMS: one line, and nothing that reads as a second code.
  v.regex(
    /^[^\p{Cc}\p{Cf}\p{Cs}\p{Z}\d][^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]*$/u,
    "must be one line of visible text that does not begin with a digit",
  ),
);
