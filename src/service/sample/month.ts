/**
 * The sample month as what is kept of it: sums of each hour, the stories of the last three days, what the pumping guard
 * decided, and what was refused. Pure but for the chance that a seed gives.
 */
import { phoneIndex, sealPhone, type E164 } from "../../otp/phone-number.ts";
import type { MasterKey } from "../../otp/keys/key-ring.ts";
import { dayOf } from "../../otp/verification/policy.ts";
import { isTrip, judgeSend, newPrefix, recordOutcome, type PrefixChange } from "../../otp/limits/pumping-guard.ts";
import { merge, tally, type ChargeOf, type SumRow } from "../../otp/operators/statistics.ts";
import { dayMs, hourMs, type Instant } from "../../system.ts";
import type { Sample } from "../../store/sample.ts";
import type { Refusals } from "../../store/statistics.ts";
import { chanceOf, type Chance } from "./chance.ts";
import {
  currency,
  expectedIn,
  incidentsUntil,
  numbering,
  pricesByCountry,
  sampleDays,
  sampleProviders,
  sampleTenants,
  type Attack,
  type Incidents,
  type SampleTenant,
} from "./plan.ts";
import { storyOf, type StoryTerms, type Sealed, type Story } from "./story.ts";

/** Stories are kept for so long, as with the retention that an installation has by default. */
const storiesMs = 3 * dayMs;
const lifeMs = 600_000;
/** How many numbers of a country there are: some come again. */
const numbersOfCountry = 900;

export interface MonthOptions {
  readonly seed: number;
  readonly endMs: Instant;
  readonly key: MasterKey;
  /** The key that opens the requests of a tenant. */
  readonly keyIdOf: (tenant: string) => string;
}

export type Month = Omit<Sample, "audit">;

/** Makes the month that ends then. */
export function monthOf(options: MonthOptions): Month {
  const { endMs, seed } = options;
  const incidents = incidentsUntil(endMs);
  const kept: KeptMonth = { sums: new Map(), refusals: new Map(), stories: [], today: new Map() };
  for (const tenant of sampleTenants) {
    const chance = chanceOf(seed, tenant.id);
    const book = createBook(options, chance, kept);
    const startMs = endMs - (endMs % hourMs) - sampleDays * dayMs;
    for (let hourAt = startMs; hourAt < endMs; hourAt += hourMs) ordinaryHour(tenant, hourAt, incidents, book);
  }
  const prefixes = incidents.attacks.map((attack) => attacked(attack, options, kept));
  return {
    endMs,
    sums: merge(kept.sums.values()),
    refusals: [...kept.refusals.values()],
    days: daysOf(endMs, kept),
    verifications: kept.stories.toSorted((a, b) => a.verification.createMs - b.verification.createMs),
    prefixes,
  };
}

/** What is kept of the month so far. */
interface KeptMonth {
  readonly sums: Map<string, SumRow>;
  readonly refusals: Map<string, Refusals>;
  readonly stories: Story[];
  /** Messages of the day under way, by tenant. */
  readonly today: Map<string, number>;
}

/** Where a tenant's requests are written down. */
interface Book {
  readonly chance: Chance;
  readonly endMs: Instant;
  ask(asked: StoryTerms, phone: string): void;
  refuse(tenant: string, reason: string, atMs: Instant, count: number): void;
}

function createBook({ endMs, key, keyIdOf }: MonthOptions, chance: Chance, kept: KeptMonth): Book {
  return {
    chance,
    endMs,
    ask(asked, phone) {
      const isKept = asked.atMs > endMs - storiesMs;
      const story = storyOf(asked, isKept ? sealed(asked, phone, { chance, key, keyIdOf }) : unsealed, chance);
      // What would go on beyond the end has not happened.
      if ((story.verification.endMs ?? 0) > endMs) return;
      for (const message of story.messages) {
        for (const row of tally(story.verification, message, chargeOf)) addTo(kept.sums, row);
      }
      if (isKept) kept.stories.push(story);
      if (dayOf(asked.atMs) !== dayOf(endMs)) return;
      kept.today.set(asked.tenant, (kept.today.get(asked.tenant) ?? 0) + story.messages.length);
    },
    refuse(tenant, reason, atMs, count) {
      if (count === 0) return;
      const hour = Math.floor(atMs / hourMs);
      const name = `${hour} ${tenant} ${reason}`;
      kept.refusals.set(name, { hour, tenant, reason, count: (kept.refusals.get(name)?.count ?? 0) + count });
    },
  };
}

function addTo(sums: Map<string, SumRow>, row: SumRow): void {
  const name = [row.hour, row.tenant, row.country, row.provider, row.channel, row.currency].join(" ");
  const known = sums.get(name);
  const [both] = known === undefined ? [row] : merge([known, row]);
  if (both !== undefined) sums.set(name, both);
}

const unsealed: Sealed = {
  id: "",
  keyId: "",
  kid: 0,
  phoneIndex: new Uint8Array(),
  phoneBox: new Uint8Array(),
};

function sealed(
  { tenant }: StoryTerms,
  phone: string,
  { chance, key, keyIdOf }: Pick<MonthOptions, "key" | "keyIdOf"> & { readonly chance: Chance },
): Sealed {
  const id = Buffer.from(chance.bytes(16)).toString("base64url");
  const phoneBox = sealPhone(key, id, phone as E164);
  return { id, keyId: keyIdOf(tenant), kid: key.kid, phoneIndex: phoneIndex(key, tenant, phone), phoneBox };
}

/** One segment each, at the prices of the plan. */
const chargeOf: ChargeOf = ({ region, provider, channel }) => {
  const prices = pricesByCountry.get(region);
  const each = prices?.[provider === sampleProviders[0] ? 0 : 1] ?? 0;
  return { segments: 1, cost: { amount: channel === "sms" ? each : Math.round(each * 0.7), currency } };
};

// ---- an ordinary hour -----------------------------------------------------------------------------------------------

function ordinaryHour(tenant: SampleTenant, hourAt: Instant, { outage, busyDayMs }: Incidents, book: Book): void {
  const { chance, endMs } = book;
  const isBusy = tenant.id === "demo-bank" && dayOf(hourAt) === dayOf(busyDayMs);
  const count = chance.count(expectedIn(tenant, hourAt) * (isBusy ? 2.4 : 1));
  const times = Array.from({ length: count }, () => Math.floor(hourAt + chance.fraction() * hourMs));
  for (const atMs of times.toSorted((a, b) => a - b)) {
    // On its busy day the bank is refused from the evening on.
    if (isBusy && atMs > busyDayMs + 17 * hourMs) {
      book.refuse(tenant.id, "SPEND_LIMIT", atMs, 1);
      continue;
    }
    const country = chance.one(tenant.countries);
    const channel = chance.one(tenant.channels);
    const isOutage = atMs >= outage.fromMs && atMs < outage.toMs;
    const phone = phoneIn(country, chance);
    if (atMs < endMs) {
      book.ask({ tenant: tenant.id, country, channel, atMs, isOutage, isPumped: false, tally: "none" }, phone);
    }
  }
  book.refuse(tenant.id, "CODE_MISMATCH", hourAt, chance.count(count * 0.13));
  book.refuse(tenant.id, "RESEND_TOO_SOON", hourAt, chance.count(count * 0.02));
  book.refuse(tenant.id, "PHONE_RATE_LIMITED", hourAt, chance.count(count * 0.006));
  book.refuse(tenant.id, "PHONE_INVALID", hourAt, chance.count(count * 0.015));
}

/** A number of a country: the same few hundred come again and again. */
function phoneIn(country: string, chance: Chance): string {
  const { start, digits } = numbering.get(country) ?? { start: "+3161", digits: 7 };
  const which = chance.below(numbersOfCountry);
  return start + String((which * 7_919 + 1_234_567) % 10 ** digits).padStart(digits, "0");
}

// ---- an attack ------------------------------------------------------------------------------------------------------

/** Has the guard judge an attack, send by send, and tells what is known of its prefix then. */
function attacked(attack: Attack, options: MonthOptions, kept: KeptMonth): Month["prefixes"][number] {
  const { tenant, country, prefix, fromMs, toMs, sends, enforcedMs = Number.POSITIVE_INFINITY } = attack;
  const chance = chanceOf(options.seed, prefix);
  const book = createBook(options, chance, kept);
  const times = Array.from({ length: sends }, () => Math.floor(fromMs + chance.fraction() * (toMs - fromMs)));
  const waiting: { readonly createMs: Instant; readonly tally: "block" | "beyond" }[] = [];
  const decisions: PrefixChange["decisions"][number][] = [];
  let record = newPrefix;
  const take = (change: PrefixChange | undefined) => {
    if (change === undefined) return;
    record = change.record;
    decisions.push(...change.decisions);
  };
  const modeAt = (at: Instant) => (at >= enforcedMs ? "enforce" : "observe");
  const expireUntil = (now: Instant) => {
    for (let next = waiting[0]; next !== undefined && next.createMs + lifeMs <= now; next = waiting[0]) {
      waiting.shift();
      const at = next.createMs + lifeMs;
      take(recordOutcome(record, { state: "EXPIRED", ...next }, at, modeAt(at)));
    }
  };
  for (const atMs of times.toSorted((a, b) => a - b)) {
    expireUntil(atMs);
    const mode = modeAt(atMs);
    const judged = judgeSend(record, atMs, mode);
    take(judged.change);
    if (judged.kind !== "admitted" && mode === "enforce") {
      book.refuse(tenant, "DESTINATION_BLOCKED", atMs, 1);
      continue;
    }
    if (judged.kind === "admitted" && judged.tally !== "none") waiting.push({ createMs: atMs, tally: judged.tally });
    const phone = `${prefix}${chance.digits(4)}`;
    book.ask({ tenant, country, channel: "sms", atMs, isOutage: false, isPumped: true, tally: "none" }, phone);
  }
  expireUntil(Math.min(options.endMs, toMs + lifeMs));
  // Where it still goes on, the guard has not decided for the last time.
  const last = decisions.findLast(isTrip);
  if (last === undefined && decisions.length === 0) throw new Error("an attack that nobody noticed");
  return { name: { tenant, prefix }, change: { record, decisions } };
}

// ---- the day under way ----------------------------------------------------------------------------------------------

/** What counts under the caps of today: of the bank at least so much that it is near its own, whatever the hour is. */
function daysOf(endMs: Instant, { today }: KeptMonth): Month["days"] {
  return sampleTenants.map(({ id: tenant, cap }) => {
    const sent = today.get(tenant) ?? 0;
    return {
      tenant,
      day: dayOf(endMs),
      count: tenant === "demo-bank" ? Math.max(sent, Math.ceil(cap * 0.86)) : sent,
      cap,
    };
  });
}
