/**
 * What holds for a tenant, setting by setting, and where each comes from.
 */
import type { TenantRecord } from "../otp/operators/tenant.ts";
import type { Config } from "./config.ts";
import {
  readTenant,
  settingNames,
  settingsOf,
  settingVariables,
  type SettingFault,
  type SettingName,
} from "./tenant-settings.ts";
import { defaults } from "./variables.ts";

export interface HeldSetting {
  readonly name: SettingName;
  /** As it was written; null where it is unset. Of texts the content of the tenant's file, or the path of the operator's. */
  readonly value: string | null;
  /** `tenant`, the name of the operator's variable, or `default`. */
  readonly from: string;
}

export interface HeldSettings {
  /** Every setting once, in the order of `settingNames`. */
  readonly settings: readonly HeldSetting[];
  /** What is wrong with the tenant's own values, which then do not count, and with what is no setting. */
  readonly faults: readonly SettingFault[];
}

/** Pure. */
export function heldSettings(record: TenantRecord, config: Config): HeldSettings {
  const { settings: own } = settingsOf(record);
  const { tenant, faults } = readTenant(record, config);
  // What follows from others is told as it came out.
  const derived: Readonly<Partial<Record<SettingName, string>>> = {
    code_length_max: String(tenant.policy.codeLengthMax),
    audience: tenant.audience,
  };
  const settings = settingNames.map((name): HeldSetting => {
    const variable = settingVariables[name];
    const isOwn = own[name] !== undefined && !faults.some(({ setting }) => setting === name);
    const given = variable && config.written[variable];
    const usual = variable && defaults()[variable];
    const written = isOwn ? own[name] : (given ?? usual);
    const from = isOwn ? "tenant" : given === undefined ? "default" : String(variable);
    return { name, value: derived[name] ?? written ?? null, from };
  });
  return { settings, faults };
}
