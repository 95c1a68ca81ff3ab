/**
 * A change to a tenant's settings: what comes of it, and all that is wrong with it, before anything is stored.
 */
import { parseTemplates } from "../otp/template/file.ts";
import type { Tenant } from "../otp/operators/tenant.ts";
import type { Config } from "./config.ts";
import { changedEntries, nameGivenTwice, type Spelling } from "./named-entries.ts";
import {
  readTenant,
  recordedSettings,
  warningsOf,
  type SettingFault,
  type SettingName,
  type TenantSettings,
} from "./tenant-settings.ts";

export interface SettingsChange {
  /** As they are stored: of texts the content of a file. Named entries replace those of their names, and leave the others. */
  readonly given: TenantSettings;
  /** Settings to leave to the operator again. */
  readonly dropped: readonly SettingName[];
}

/** What a change comes to, or what is wrong with it. */
export type ChangedSettings =
  | {
      readonly ok: true;
      /** As a record stores them. */
      readonly settings: string;
      /** The tenant that they make. */
      readonly tenant: Tenant;
      /** Sentences without their full stop. */
      readonly warnings: readonly string[];
    }
  | { readonly ok: false; readonly faults: readonly SettingFault[] };

/** Settings of named entries, with how each spells its names: a change leaves the names that it does not give. */
const namedSettings: readonly (readonly [SettingName, Spelling])[] = [
  ["limits", (name) => name],
  ["country_caps", (country) => country.toUpperCase()],
];

/** Pure. */
export function changeSettings(
  tenant: { readonly id: string; readonly settings: TenantSettings; readonly disableMs: number | null },
  change: SettingsChange,
  operator: Config,
): ChangedSettings {
  const { id, disableMs } = tenant;
  const changed = withChanges(tenant.settings, change);
  const settings = recordedSettings(changed);
  const read = readTenant({ id, settings, disableMs }, operator);
  const faults = [...read.faults];
  if (changed.brand !== undefined && changed.texts === undefined) {
    // The operator's own texts are measured under the tenant's brand.
    const ofOperator =
      operator.textsFile === undefined ? [] : parseTemplates(operator.textsFile, read.tenant.brand).faults;
    faults.push(...ofOperator.map((rest) => ({ setting: "brand", rest: `is too much for the operator's ${rest}` })));
  }
  if (faults.length === 0) faults.push(...givenTwice(change.given));
  if (faults.length > 0) return { ok: false, faults };
  return { ok: true, settings, tenant: read.tenant, warnings: warningsOf(changed, operator) };
}

function withChanges(stored: TenantSettings, { given, dropped }: SettingsChange): TenantSettings {
  const merged: Partial<Record<SettingName, string>> = { ...stored, ...given };
  for (const [name, spell] of namedSettings) {
    if (given[name] === undefined) continue;
    const entries = changedEntries(stored[name] ?? "", given[name], spell);
    if (entries === undefined) delete merged[name];
    else merged[name] = entries;
  }
  for (const name of dropped) delete merged[name];
  return merged;
}

/** Of two entries of one name the first would be lost unseen. */
function givenTwice(given: TenantSettings): SettingFault[] {
  return namedSettings.flatMap(([setting, spell]) => {
    const twice = nameGivenTwice(given[setting] ?? "", spell);
    return twice === undefined ? [] : [{ setting, rest: `gives ${twice} twice: give it once, with all that it has` }];
  });
}
