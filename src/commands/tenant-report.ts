/**
 * The settings of a tenant and where each comes from, for people and for programs.
 */
import type { Config } from "../config/config.ts";
import { heldSettings } from "../config/held-settings.ts";
import { settingNames, type SettingName } from "../config/tenant-settings.ts";
import type { TenantRecord } from "../otp/tenant.ts";
import { timeOf } from "../system.ts";
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

interface TenantReport {
  readonly settings: Readonly<Record<SettingName, Held>>;
  readonly faults: readonly string[];
}

export function stateOf({ disableMs }: Pick<TenantRecord, "disableMs">): "active" | "disabled" {
  return disableMs === null ? "active" : "disabled";
}

/** Null for `default`, which came with the database. */
export function madeTime({ createMs }: Pick<TenantRecord, "createMs">): string | null {
  return timeOf(createMs === 0 ? null : createMs);
}

export function tenantAsJson(record: TenantRecord, config: Config) {
  const { settings, faults } = reportOf(record, config);
  return {
    name: record.id,
    state: stateOf(record),
    create_time: madeTime(record),
    disable_time: timeOf(record.disableMs),
    settings,
    faults,
  };
}

export function describeTenant(record: TenantRecord, config: Config): string {
  const { settings, faults } = reportOf(record, config);
  const since = record.disableMs === null ? "active" : `disabled since ${timeOf(record.disableMs)}`;
  return [
    `${record.id}, ${since}. What is set here wins over the environment.`,
    "",
    table(settingNames, {
      SETTING: (name) => name,
      VALUE: (name) => shown(name, settings[name]),
      FROM: (name) => settings[name].from,
    }),
    ...faults.map((fault) => `\nFault: ${fault}; the operator's holds.`),
  ].join("\n");
}

function reportOf(record: TenantRecord, config: Config): TenantReport {
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
