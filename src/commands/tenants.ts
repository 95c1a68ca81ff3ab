/**
 * `otpd tenants`: make, change, show and disable tenants. Settings are parsed as a server parses them, and all faults are
 * reported before anything is stored.
 */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import {
  readTenant,
  recordedSettings,
  settingNames,
  settingsOf,
  warningsOf,
  type SettingName,
  type TenantSettings,
} from "../config/tenant-settings.ts";
import { changedEntries } from "../config/named-entries.ts";
import type { Config } from "../config/config.ts";
import { commandLine, noteOf, type AuditAction } from "../otp/audit.ts";
import { parseTemplates } from "../otp/template/file.ts";
import { tenantsMax } from "../otp/tenant.ts";
import type { TenantDecided } from "../store/registry.ts";
import type { Instant } from "../system.ts";
import {
  flag,
  Misused,
  readNamed,
  say,
  sayError,
  single,
  table,
  timeOf,
  Unusable,
  withStore,
  type Commands,
} from "./command.ts";
import { configuration, findTenant, noTenant, tenantName } from "./setup.ts";
import { describeTenant, madeTime, stateOf, tenantAsJson } from "./tenant-report.ts";

const settingsHelp = `What is not set is the operator's, from the environment:

  --brand TEXT              the name in its SMS
  --texts FILE              its own texts, as in docs/templates.md
  --countries LIST          such as NL,BE, or *
  --phone-limits LIST       SMS to one number, such as 5@10m,6@4h
  --resend-gaps LIST        waits before each resend, such as 30s,60s
  --code-length N           digits, 6 to 10
  --code-length-max N       digits after wrong guesses, 6 to 10
  --ttl-seconds N           lifetime of a code, 180 to 600
  --max-attempts N          wrong codes until the lock, 1 to 10
  --daily-cap N             SMS in a UTC day, at least 1 where OTP_DAILY_MESSAGE_CAP is set
  --country-cap CC=N        messages in a UTC day to one country, such as NG=50; 0 for none at all; once for each
  --daily-spend-cap AMOUNT  what its messages of a UTC day may cost, such as 250.00; needs OTP_PRICES_FILE
  --limit NAME=LIMITS       what sends may name in limit_keys, such as user=5@1h,20@24h; once for each
  --fraud-guard MODE        observe or enforce
  --audience TEXT           whom its receipts are for; its name unless given
  --origin ORIGIN           an origin of its web pages, once for each; any unless given`;

export const tenantCommands: Commands = {
  "tenants create": {
    summary: "make a tenant",
    help: `Usage: otpd tenants create NAME [SETTINGS]

Makes a tenant: its keys see nothing of what others do. Then make a key for it: otpd keys create --tenant NAME.
${settingsHelp}`,
    run: create,
  },
  "tenants set": {
    summary: "change a tenant's settings",
    help: `Usage: otpd tenants set NAME [SETTINGS] [--unset LIST]

Changes what is given and leaves the rest. It counts from the next call on.
${settingsHelp}
  --limit NAME=none         takes this limit out, and --country-cap CC=none this cap; the others stay
  --unset LIST              settings to leave to the operator again, such as brand,countries`,
    run: change,
  },
  "tenants show": {
    summary: "show what holds for a tenant, and why",
    help: `Usage: otpd tenants show NAME [--json]

Shows every setting of a tenant and where it comes from. A tenant's own settings win over the environment.

  --json   print {"name","state","create_time","disable_time","settings":{"brand":{"value","from"}, ...},"faults"}`,
    run: show,
  },
  "tenants list": {
    summary: "list the tenants",
    help: `Usage: otpd tenants list [--json]

Lists the tenants by name.

  --json   print an array of {"name","state","create_time","disable_time","own_settings"}`,
    run: list,
  },
  "tenants disable": {
    summary: "stop a tenant",
    help: `Usage: otpd tenants disable NAME

Refuses the tenant's keys from the next call on, and sends nothing of it any more. Nothing is deleted.`,
    run: disable,
  },
  "tenants enable": {
    summary: "let a tenant go on",
    help: `Usage: otpd tenants enable NAME

Takes the tenant's keys again from the next call on.`,
    run: enable,
  },
};

/** How a setting is given. */
const flagOf = (name: SettingName) => flagsOfOne[name] ?? name.replaceAll("_", "-");

/** Flags that are given once for each entry. */
const flagsOfOne: Readonly<Partial<Record<SettingName, string>>> = {
  origins: "origin",
  limits: "limit",
  country_caps: "country-cap",
};

/** Settings of named entries: a change leaves the names that it does not give. */
const namedSettings = ["limits", "country_caps"] as const satisfies readonly SettingName[];

const settingOptions = Object.fromEntries(
  settingNames.map((name) => [flagOf(name), { type: "string" as const, multiple: flagsOfOne[name] !== undefined }]),
);

async function create(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({ args, options: settingOptions, allowPositionals: true });
  const name = oneName(positionals);
  const settings = withChanges({}, givenSettings(values));
  const config = configuration();
  await withStore(async (store) => {
    const changed = await store.registry.changeTenant(
      name,
      ({ tenant, count }): TenantDecided<ChangeReport> => {
        if (tenant !== undefined) return { result: { trouble: `There is already a tenant ${name}.` } };
        if (count >= tenantsMax)
          return { result: { trouble: `There are ${tenantsMax} tenants, and no more may be made.` } };
        return keeping(name, settings, null, config, textsFileIn(values));
      },
      noteOf(commandLine, "tenant.create"),
    );
    report(changed);
    say(`Made the tenant ${name}. Make a key for it: otpd keys create --tenant ${name}`);
  });
}

async function change(args: string[]): Promise<void> {
  const options = { ...settingOptions, unset: { type: "string" as const, multiple: false } };
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
  const name = oneName(positionals);
  const { unset = "", ...flags } = values;
  const given = givenSettings(flags);
  const dropped = droppedSettings(String(unset));
  if (dropped.length === 0 && Object.keys(given).length === 0) throw new Misused("Give a setting, or --unset.");
  const twice = dropped.find((setting) => Object.hasOwn(given, setting));
  if (twice !== undefined) throw new Misused(`--${flagOf(twice)} is both set and unset.`);
  const config = configuration();
  await withStore(async (store) => {
    const changed = await store.registry.changeTenant(
      name,
      ({ tenant }): TenantDecided<ChangeReport> => {
        if (tenant === undefined) return { result: { trouble: noTenant(name).message } };
        const merged = withChanges(settingsOf(tenant).settings, given);
        for (const setting of dropped) delete merged[setting];
        return keeping(name, merged, tenant.disableMs, config, textsFileIn(flags));
      },
      noteOf(commandLine, "tenant.update"),
    );
    report(changed);
    say(`Changed ${name}. It counts from the next call on.`);
  });
}

/** The end of a change: why it was not made, or its warnings. */
interface ChangeReport {
  readonly trouble?: string;
  readonly warnings?: readonly string[];
}

/** Stores settings, if a server can parse them all. */
function keeping(
  id: string,
  settings: TenantSettings,
  disableMs: number | null,
  config: Config,
  textsFile: string | undefined,
): TenantDecided<ChangeReport> {
  const keep = { settings: recordedSettings(settings), disableMs };
  const { tenant, faults } = readTenant({ id, ...keep }, config);
  const sentences = faults.map(({ setting, rest }) =>
    setting === "texts" && textsFile !== undefined
      ? `${textsFile}: ${rest}. What such a file has: docs/templates.md.`
      : `--${flagOf(setting as SettingName)} ${rest}.`,
  );
  if (settings.brand !== undefined && settings.texts === undefined) {
    sentences.push(
      ...faultsOfOperatorTexts(tenant.brand).map((rest) => `--brand is too much for the operator's ${rest}.`),
    );
  }
  if (sentences.length === 0) return { keep, result: { warnings: warningsOf(settings, config) } };
  return { result: { trouble: `The tenant's settings have faults:\n${sentences.map((s) => `  - ${s}`).join("\n")}` } };
}

/** The faults that the operator's own texts would have under another brand. */
function faultsOfOperatorTexts(brand: string): readonly string[] {
  const path = process.env["OTP_TEMPLATES_FILE"];
  return path ? parseTemplates(readFileSync(path, "utf8"), brand).faults : [];
}

function report({ trouble, warnings = [] }: ChangeReport): void {
  if (trouble !== undefined) throw new Unusable(trouble);
  for (const warning of warnings) sayError(`Warning: ${warning}.`);
}

/** The settings of a command line, as they are stored. */
function givenSettings(flags: Readonly<Record<string, unknown>>): TenantSettings {
  const settings: Partial<Record<SettingName, string>> = {};
  for (const name of settingNames) {
    const value = flags[flagOf(name)];
    if (value === undefined) continue;
    const text = [value as string | string[]].flat().join(",");
    settings[name] = name === "texts" ? readNamed("--texts", text) : text;
  }
  return settings;
}

/** Settings after a change. */
function withChanges(stored: TenantSettings, given: TenantSettings): Partial<Record<SettingName, string>> {
  const merged: Partial<Record<SettingName, string>> = { ...stored, ...given };
  for (const name of namedSettings) {
    if (given[name] === undefined) continue;
    const entries = changedEntries(stored[name] ?? "", given[name]);
    if (entries === undefined) delete merged[name];
    else merged[name] = entries;
  }
  return merged;
}

function textsFileIn(flags: Readonly<Record<string, unknown>>): string | undefined {
  return flags["texts"] as string | undefined;
}

function droppedSettings(text: string): SettingName[] {
  const words = text === "" ? [] : text.split(",").map((word) => word.trim());
  return words.map((word) => {
    const name = settingNames.find((each) => flagOf(each) === word || each === word);
    if (name === undefined) throw new Misused(`--unset must be a list of ${settingNames.map(flagOf).join(",")}.`);
    return name;
  });
}

async function show(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({ args, options: { json: flag }, allowPositionals: true });
  const name = oneName(positionals);
  const config = configuration();
  await withStore(async (store) => {
    const record = await findTenant(store, name);
    say(values.json ? JSON.stringify(tenantAsJson(record, config)) : describeTenant(record, config));
  });
}

async function list(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { json: flag } });
  await withStore(async (store) => {
    const records = (await store.registry.listTenants()).toSorted((a, b) => (a.id < b.id ? -1 : 1));
    const tenants = records.map((record) => ({
      name: record.id,
      state: stateOf(record),
      create_time: madeTime(record),
      disable_time: timeOf(record.disableMs),
      own_settings: Object.keys(settingsOf(record).settings),
    }));
    if (values.json) return say(JSON.stringify(tenants));
    const own = (t: (typeof tenants)[number]) => t.own_settings.join(",") || null;
    say(
      table(tenants, { NAME: (t) => t.name, STATE: (t) => t.state, MADE: (t) => t.create_time, "OWN SETTINGS": own }),
    );
  });
}

async function disable(args: string[]): Promise<void> {
  const name = await turn(args, "tenant.disable", (now, since) => since ?? now);
  say(`Disabled ${name}: its keys are refused from the next call on, and nothing of it is sent.`);
}

async function enable(args: string[]): Promise<void> {
  const name = await turn(args, "tenant.enable", () => null);
  say(`Enabled ${name}: its keys work from the next call on.`);
}

/** Disables or enables a tenant, if that is a change; resolves with its name. */
async function turn(
  args: string[],
  action: AuditAction,
  next: (now: Instant, since: Instant | null) => Instant | null,
): Promise<string> {
  const { positionals } = parseArgs({ args, options: {}, allowPositionals: true });
  const name = oneName(positionals);
  await withStore(async (store) => {
    const isKnown = await store.registry.changeTenant(
      name,
      ({ now, tenant }): TenantDecided<boolean> => {
        if (tenant === undefined) return { result: false };
        const disableMs = next(now, tenant.disableMs);
        return disableMs === tenant.disableMs
          ? { result: true }
          : { keep: { settings: tenant.settings, disableMs }, result: true };
      },
      noteOf(commandLine, action),
    );
    if (!isKnown) throw noTenant(name);
  });
  return name;
}

function oneName(positionals: readonly string[]): string {
  return tenantName(single(positionals, "Give the name of one tenant."));
}
