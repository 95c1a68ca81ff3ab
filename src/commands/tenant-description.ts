/**
 * The settings of a tenant and where each comes from, for people and for programs.
 */
import type { Config } from "../config/config.ts";
import { heldSettings } from "../config/held-settings.ts";
import { readTenant, settingNames, type SettingName } from "../config/tenant-settings.ts";
import { dayOf } from "../otp/verification/policy.ts";
import { moneyText } from "../otp/message/prices.ts";
import { capsOfPolicy, subjectOf } from "../otp/decisions/spending.ts";
import type { TenantRecord } from "../otp/operators/tenant.ts";
import type { Store } from "../store/store.ts";
import { dayMs, timeOf } from "../system.ts";
import { table } from "./command.ts";

/** A setting and where it comes from: `tenant`, the name of the operator's variable, or `default`. */
interface Held {
  /** As it is stored; null where it is unset. The tenant's own texts are the content of their file. */
  readonly value: string | OwnTexts | null;
  readonly from: string;
}

interface OwnTexts {
  readonly texts?: readonly { readonly locale: string }[];
}

interface TenantDescription {
  readonly settings: Readonly<Record<SettingName, Held>>;
  readonly faults: readonly string[];
}

/** A cap on the day, and what is counted under it so far. */
interface CapToday {
  readonly cap: "messages" | "calls" | "country" | "money";
  /** Of `country`. */
  readonly country?: string;
  /** Messages or calls; of money the amount as a decimal. */
  readonly used: number | string;
  readonly max: number | string;
  /** Of `money`. */
  readonly currency?: string | undefined;
}

/** What a tenant has used of its caps in the UTC day that it is. */
export interface Today {
  /** Such as 2026-01-31. */
  readonly day: string;
  readonly caps: readonly CapToday[];
}

/** More than a tenant has counts in a day: one for each country, and a few. */
const countsMax = 500;

/** Reads what is counted today under each cap that holds for a tenant. */
export async function readToday(
  store: Pick<Store, "now" | "statistics">,
  record: TenantRecord,
  config: Config,
): Promise<Today> {
  const day = dayOf(store.now());
  const caps = capsOfPolicy(readTenant(record, config).tenant.policy);
  const counts = caps.length === 0 ? [] : await store.statistics.readDay(day, record.id, countsMax);
  const used = new Map(counts.map(({ kind, count }) => [kind, count]));
  return {
    day: new Date(day * dayMs).toISOString().slice(0, 10),
    caps: caps.map(({ kind, max, currency }): CapToday => {
      const count = used.get(kind) ?? 0;
      const { country } = subjectOf(kind);
      if (kind === "spend") return { cap: "money", used: moneyText(count), max: moneyText(max), currency };
      if (country !== undefined) return { cap: "country", country, used: count, max };
      return { cap: kind === "calls" ? kind : "messages", used: count, max };
    }),
  };
}

export function stateOf({ disableMs }: Pick<TenantRecord, "disableMs">): "active" | "disabled" {
  return disableMs === null ? "active" : "disabled";
}

/** Null for `default`, which came with the database. */
export function madeTime({ createMs }: Pick<TenantRecord, "createMs">): string | null {
  return timeOf(createMs === 0 ? null : createMs);
}

export function tenantAsJson(record: TenantRecord, config: Config, today: Today) {
  const { settings, faults } = descriptionOf(record, config);
  return {
    name: record.id,
    state: stateOf(record),
    create_time: madeTime(record),
    disable_time: timeOf(record.disableMs),
    settings,
    today,
    faults,
  };
}

export function describeTenant(record: TenantRecord, config: Config, today: Today): string {
  const { settings, faults } = descriptionOf(record, config);
  const since = record.disableMs === null ? "active" : `disabled since ${timeOf(record.disableMs)}`;
  return [
    `${record.id}, ${since}. What is set here wins over the environment.`,
    "",
    table(settingNames, {
      SETTING: (name) => name,
      VALUE: (name) => shown(name, settings[name]),
      FROM: (name) => settings[name].from,
    }),
    ...(today.caps.length === 0 ? [] : ["", `Of its caps on ${today.day} (UTC) so far:`, "", capsTable(today)]),
    ...faults.map((fault) => `\nFault: ${fault}; the operator's holds.`),
  ].join("\n");
}

function capsTable({ caps }: Today): string {
  const amount = (count: number | string, { currency }: CapToday) => `${count}${currency ? ` ${currency}` : ""}`;
  return table(caps, {
    CAP: ({ cap, country }) => (country === undefined ? cap : `messages to ${country}`),
    USED: (cap) => amount(cap.used, cap),
    OF: (cap) => amount(cap.max, cap),
  });
}

function descriptionOf(record: TenantRecord, config: Config): TenantDescription {
  const { settings, faults } = heldSettings(record, config);
  const held = settings.map(({ name, value, from }) => {
    const isOwnTexts = name === "texts" && from === "tenant" && value !== null;
    return [
      name,
      { value: isOwnTexts ? (JSON.parse(value.replace(/^\uFEFF/, "")) as OwnTexts) : value, from },
    ] as const;
  });
  return {
    settings: Object.fromEntries(held) as Record<SettingName, Held>,
    faults: faults.map(({ setting, rest }) => `${setting} ${rest}`),
  };
}

/** Printed for a setting that is not set and has no default. */
const unset: Readonly<Partial<Record<SettingName, string>>> = {
  texts: "those that come with the service",
  countries: "all",
  daily_cap: "none",
  country_caps: "none",
  daily_spend_cap: "none",
  limits: "none",
  origins: "any",
};

function shown(name: SettingName, { value }: Held): string {
  if (value === null) return unset[name] ?? "-";
  if (typeof value === "string") return value;
  const { texts = [] } = value;
  return `${texts.length} of its own: ${[...new Set(texts.map(({ locale }) => locale))].join(", ")}`;
}
