/**
 * The settings of tenants, as the operators' service reads and tells them.
 */
import type { Config } from "../config/config.ts";
import { heldSettings } from "../config/held-settings.ts";
import { changeSettings } from "../config/tenant-changes.ts";
import { readTenant, settingNames, settingsOf, type SettingName } from "../config/tenant-settings.ts";
import type { SettingsRules } from "../server/admin/tenants.ts";

export function settingsRules(config: Config): SettingsRules {
  return {
    names: settingNames,
    read: (record) => readTenant(record, config).tenant,
    held(record) {
      const { settings, faults } = heldSettings(record, config);
      const faultOf = (name: string) =>
        faults
          .filter(({ setting }) => setting === name)
          .map(({ rest }) => rest)
          .join("; ");
      const unknown = faults.filter(({ setting }) => !settingNames.some((name) => name === setting));
      return [
        ...settings.map(({ name, value, from }) => {
          // The path of the operator's file is nobody else's business.
          const isPath = name === "texts" && from !== "tenant";
          return { name, value: isPath ? "" : (value ?? ""), source: from, fault: faultOf(name) };
        }),
        ...unknown.map(({ setting, rest }) => ({ name: setting, value: "", source: "tenant", fault: rest })),
      ];
    },
    change(record, changes) {
      const entries = Object.entries(changes) as [SettingName, string][];
      const given = Object.fromEntries(entries.filter(([, value]) => value !== ""));
      const dropped = entries.filter(([, value]) => value === "").map(([name]) => name);
      return changeSettings({ ...record, settings: settingsOf(record).settings }, { given, dropped }, config);
    },
  };
}
