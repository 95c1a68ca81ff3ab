/**
 * What happens in the sample month: who sends where and how often, and what goes wrong on which day. Three tenants, five
 * countries, two providers; an attack, an outage, and a day near the cap.
 */
import type { Channel } from "../../otp/channel.ts";

import { dayMs, hourMs, type Instant } from "../../system.ts";

export const sampleDays = 30;

export interface SampleTenant {
  readonly id: string;
  readonly settings: Readonly<Record<string, string>>;
  /** Sends of an ordinary day. */
  readonly perDay: number;
  /** What a Saturday or Sunday has of that. */
  readonly weekend: number;
  readonly countries: readonly (readonly [country: string, weight: number])[];
  readonly channels: readonly (readonly [channel: Channel, weight: number])[];
  /** Messages that may go out in a day. */
  readonly cap: number;
}

/** Kept apart from tenants of one's own by their names. */
export const sampleTenants: readonly SampleTenant[] = [
  {
    id: "demo-shop",
    settings: { brand: "Demo Shop", daily_cap: "3000", fraud_guard: "enforce" },
    perDay: 190,
    weekend: 1.3,
    countries: [
      ["NL", 52],
      ["BE", 20],
      ["DE", 18],
      ["GB", 10],
    ],
    channels: [["sms", 1]],
    cap: 3_000,
  },
  {
    id: "demo-bank",
    settings: { brand: "Demo Bank", daily_cap: "150", countries: "NL,BE,DE", code_length: "8" },
    perDay: 110,
    weekend: 0.45,
    countries: [
      ["NL", 70],
      ["BE", 22],
      ["DE", 8],
    ],
    channels: [
      ["sms", 78],
      ["whatsapp", 22],
    ],
    cap: 150,
  },
  {
    id: "demo-clinic",
    settings: { brand: "Demo Clinic", daily_cap: "400", fraud_guard: "observe" },
    perDay: 60,
    weekend: 0.25,
    countries: [
      ["US", 68],
      ["GB", 32],
    ],
    channels: [["sms", 1]],
    cap: 400,
  },
];

/** What people ask for by the hour of the UTC day, in shares of the day. */
const byHour = [8, 5, 3, 2, 2, 4, 10, 22, 38, 48, 52, 50, 47, 48, 50, 52, 55, 58, 62, 66, 60, 46, 30, 16];
const ofDay = byHour.reduce((sum, each) => sum + each, 0);

/** How many sends of a tenant are expected in the hour that begins then. Pure. */
export function expectedIn({ perDay, weekend }: SampleTenant, hourStartMs: Instant): number {
  const at = new Date(hourStartMs);
  const isWeekend = at.getUTCDay() % 6 === 0;
  return (perDay * (isWeekend ? weekend : 1) * (byHour[at.getUTCHours()] ?? 0)) / ofDay;
}

/** How numbers of a country begin, and how many digits follow. */
export const numbering: ReadonlyMap<string, { readonly start: string; readonly digits: number }> = new Map([
  ["NL", { start: "+3161", digits: 7 }],
  ["BE", { start: "+3247", digits: 7 }],
  ["DE", { start: "+491512", digits: 7 }],
  ["GB", { start: "+447400", digits: 6 }],
  ["US", { start: "+141525", digits: 5 }],
]);

/** What a message costs by either provider, in millionths of a euro. */
export const pricesByCountry: ReadonlyMap<string, readonly [first: number, second: number]> = new Map([
  ["NL", [74_000, 82_500]],
  ["BE", [79_000, 88_000]],
  ["DE", [68_000, 75_000]],
  ["GB", [39_000, 42_000]],
  ["US", [8_300, 9_000]],
]);
export const currency = "EUR";

/** In the order they are tried. */
export const sampleProviders = ["bird", "messagebird"] as const;

/** Sends to one prefix whose codes nobody types. */
export interface Attack {
  readonly tenant: string;
  readonly country: string;
  readonly prefix: string;
  readonly fromMs: Instant;
  readonly toMs: Instant;
  readonly sends: number;
  /** From when on the tenant's guard enforces; undefined while it observes. */
  readonly enforcedMs: Instant | undefined;
}

export interface Incidents {
  readonly attacks: readonly Attack[];
  /** While the first provider could not be reached. */
  readonly outage: { readonly fromMs: Instant; readonly toMs: Instant };
  /** The day on which the bank came to its cap. */
  readonly busyDayMs: Instant;
}

/** When what went wrong did, in a month that ends then. Pure. */
export function incidentsUntil(endMs: Instant): Incidents {
  const midnight = endMs - (endMs % dayMs);
  const night = midnight - 9 * dayMs + hourMs;
  return {
    attacks: [
      {
        tenant: "demo-shop",
        country: "GB",
        prefix: "+44740055",
        fromMs: night,
        toMs: night + 5.5 * hourMs,
        sends: 1_900,
        enforcedMs: night + 4.5 * hourMs,
      },
      {
        tenant: "demo-clinic",
        country: "US",
        prefix: "+1415377",
        fromMs: endMs - 2 * hourMs,
        toMs: endMs,
        sends: 90,
        enforcedMs: undefined,
      },
    ],
    // The latest afternoon that is over: its stories are kept for three days.
    outage: { fromMs: midnight - dayMs + 13 * hourMs, toMs: midnight - dayMs + 15.5 * hourMs },
    busyDayMs: midnight - 5 * dayMs,
  };
}
