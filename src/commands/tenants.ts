/**
 * `otpd tenants`: make, change, show and disable tenants. Settings are parsed as a server parses them, and all faults are
 * reported before anything is stored.
 */
import { changeSettings, type ChangedSettings } from "../config/tenant-changes.ts";
import { settingNames, settingsOf, type SettingName, type TenantSettings } from "../config/tenant-settings.ts";
import { commandLine } from "../otp/operators/audit.ts";
import { tenantsMax, type TenantRecord } from "../otp/operators/tenant.ts";
import { createTenant, turnTenant, updateTenant, type Prepared } from "../service/operators/tenants.ts";
import { timeOf } from "../system.ts";
import {
  flag,
  Misused,
  parseArgs,
  readNamed,
  say,
  sayError,
  single,
  table,
  Unusable,
  withStore,
  type Commands,
} from "./command.ts";
import { configuration, findTenant, noTenant, tenantName } from "./setup.ts";
import { describeTenant, madeTime, readToday, stateOf, tenantAsJson } from "./tenant-description.ts";

const settingsHelp = `What is not set is the operator's, from the environment:

  --brand TEXT              the name in its SMS
  --texts FILE              its own texts, as in docs/templates.md
  --countries LIST          such as NL,BE, or *
  --phone-limits LIST       messages to one number, such as 5@10m,6@4h
  --resend-gaps LIST        waits before each resend, such as 30s,60s
  --code-length N           digits, 6 to 10
  --code-length-max N       digits after wrong guesses, 6 to 10
  --ttl-seconds N           lifetime of a code, 180 to 600
  --max-attempts N          wrong codes until the lock, 1 to 10
  --daily-cap N             messages in a UTC day; 0 is no cap, and refused where OTP_DAILY_MESSAGE_CAP is set
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

Shows every setting of a tenant and where it comes from, and how much of each cap is used today. A tenant's own settings win
over the environment.

  --json   print {"name","state","create_time","disable_time","settings":{"brand":{"value","from"}, ...},
           "today":{"day","caps":[{"cap","country","used","max","currency"}]},"faults"}`,
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

const settingOptions = Object.fromEntries(
  settingNames.map((name) => [flagOf(name), { type: "string" as const, multiple: flagsOfOne[name] !== undefined }]),
);

async function create(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({ args, options: settingOptions, allowPositionals: true });
  const name = oneName(positionals);
  const asked = { given: givenSettings(values), dropped: [] };
  const config = configuration();
  await withStore(async (store) => {
    const none = { id: name, settings: {}, disableMs: null };
    const created = await createTenant(store, name, () => prepared(changeSettings(none, asked, config)), commandLine);
    if (created.kind === "exists") throw new Unusable(`There is already a tenant ${name}.`);
    if (created.kind === "too many") {
      throw new Unusable(`There are ${tenantsMax} tenants, and no more may be made.`);
    }
    report(created.result, textsFileIn(values));
    say(`Made the tenant ${name}. Make a key for it: otpd keys create --tenant ${name}`);
  });
}

async function change(args: string[]): Promise<void> {
  const options = { ...settingOptions, unset: { type: "string" as const, multiple: false } };
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
  const name = oneName(positionals);
  const { unset = "", ...flags } = values;
  const asked = { given: givenSettings(flags), dropped: droppedSettings(String(unset)) };
  const { given, dropped } = asked;
  if (dropped.length === 0 && Object.keys(given).length === 0) throw new Misused("Give a setting, or --unset.");
  const twice = dropped.find((setting) => Object.hasOwn(given, setting));
  if (twice !== undefined) throw new Misused(`--${flagOf(twice)} is both set and unset.`);
  const config = configuration();
  await withStore(async (store) => {
    const prepare = (record: TenantRecord) =>
      prepared(changeSettings({ ...record, settings: settingsOf(record).settings }, asked, config));
    const updated = await updateTenant(store, name, prepare, commandLine);
    if (updated === undefined) throw noTenant(name);
    report(updated.result, textsFileIn(flags));
    say(`Changed ${name}. It counts from the next call on.`);
  });
}

function prepared(changed: ChangedSettings): Prepared<ChangedSettings> {
  return changed.ok ? { settings: changed.settings, result: changed } : { result: changed };
}

/** Ends the command for faults; else prints the warnings. */
function report(changed: ChangedSettings, textsFile: string | undefined): void {
  if (changed.ok) {
    for (const warning of changed.warnings) sayError(`Warning: ${warning}.`);
    return;
  }
  const sentences = changed.faults.map(({ setting, rest }) =>
    setting === "texts" && textsFile !== undefined
      ? `${textsFile}: ${rest}. What such a file has: docs/templates.md.`
      : `--${flagOf(setting as SettingName)} ${rest}.`,
  );
  throw new Unusable(`The tenant's settings have faults:\n${sentences.map((s) => `  - ${s}`).join("\n")}`);
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
    const today = await readToday(store, record, config);
    say(values.json ? JSON.stringify(tenantAsJson(record, config, today)) : describeTenant(record, config, today));
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
  const name = await turn(args, "disable");
  say(`Disabled ${name}: its keys are refused from the next call on, and nothing of it is sent.`);
}

async function enable(args: string[]): Promise<void> {
  const name = await turn(args, "enable");
  say(`Enabled ${name}: its keys work from the next call on.`);
}

/** Disables or enables a tenant, if that is a change; resolves with its name. */
async function turn(args: string[], act: "disable" | "enable"): Promise<string> {
  const name = oneName(parseArgs({ args, options: {}, allowPositionals: true }).positionals);
  await withStore(async (store) => {
    if (!(await turnTenant(store, name, act, commandLine))) throw noTenant(name);
  });
  return name;
}

function oneName(positionals: readonly string[]): string {
  return tenantName(single(positionals, "Give the name of one tenant."));
}
