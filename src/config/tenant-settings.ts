/**
 * The settings of a tenant, and the tenant that they make. A setting is stored as text and parsed by the shape of the
 * operator's variable that it replaces, so that a fault reads as it does at start. It is parsed before it is stored, and
 * again by each server that reads it: what does not parse there is reported, and the operator's value holds.
 */
import * as v from "valibot";
import { isLimitName, limitNamesMax, limitsOfNameMax, type NamedLimits } from "../otp/limits/named-limit.ts";
import { parseOrigin } from "../otp/keys/origin.ts";
import type { Templates } from "../otp/template/choice.ts";
import { parseTemplates } from "../otp/template/file.ts";
import { parseWebOrigin } from "../otp/template/last-line.ts";
import { warningsOfBrand } from "../otp/template/lint.ts";
import type { GuardMode } from "../otp/limits/pumping-guard.ts";
import type { Policy } from "../otp/verification/policy.ts";
import type { Prices } from "../otp/message/prices.ts";
import type { Tenant, TenantRecord } from "../otp/operators/tenant.ts";
import { entriesOf } from "./named-entries.ts";
import { unpriced, type ChannelProviders } from "./prices-file.ts";
import { listOf, parseCountryCap, parseLimit } from "./shapes.ts";
import { variables } from "./variables.ts";

const { entries } = variables;

/** With 10,000 tenants, a third of a gigabyte at the very most. */
const textsCharsMax = 32_768;

const audience = v.pipe(v.string(), v.regex(/^[\x21-\x7e]{1,255}$/, "must be 1 to 255 visible ASCII characters"));

/** An origin of a page that an SMS may be bound to or a publishable key may list, as a browser writes it. */
function parsePageOrigin(text: string): string | undefined {
  const parsed = parseWebOrigin(text);
  // Whether a key may list one of a private network, its own making asks.
  return (parsed.ok ? parsed.value : undefined) ?? parseOrigin(text, { isDevelopment: true });
}

/** Limits by their names, such as user=5@1h,20@24h,session=3@10m. */
function parseNamedLimits(text: string): NamedLimits | undefined {
  const limits = [...(entriesOf(text) ?? [])].map(([name, values]) => [name, values.map(parseLimit)] as const);
  const fits = (list: readonly unknown[]) => list.length <= limitsOfNameMax && !list.includes(undefined);
  const isFit = limits.length >= 1 && limits.length <= limitNamesMax;
  if (!isFit || !limits.every(([name, list]) => isLimitName(name) && fits(list))) return undefined;
  return new Map(limits.map(([name, list]) => [name, list.filter((limit) => limit !== undefined)]));
}

const namedLimits = v.pipe(
  v.string(),
  v.rawTransform<string, NamedLimits>(({ dataset, addIssue, NEVER }) => {
    const parsed = parseNamedLimits(dataset.value);
    if (parsed !== undefined) return parsed;
    const most = `at most ${limitNamesMax} names of up to ${limitsOfNameMax} limits each`;
    addIssue({ message: `must be like user=5@1h,20@24h (NAME=burst@interval): ${most}; none takes a name out` });
    return NEVER;
  }),
);

const shapes = v.object({
  brand: v.optional(entries.OTP_BRAND.wrapped),
  texts: v.optional(v.pipe(v.string(), v.maxLength(textsCharsMax, "must have at most 32 KiB"))),
  countries: v.optional(entries.OTP_ALLOWED_COUNTRIES.wrapped),
  phone_limits: v.optional(entries.OTP_PHONE_LIMITS.wrapped),
  resend_gaps: v.optional(entries.OTP_RESEND_GAPS.wrapped),
  code_length: v.optional(entries.OTP_CODE_LENGTH.wrapped),
  code_length_max: v.optional(entries.OTP_CODE_LENGTH_MAX.wrapped),
  ttl_seconds: v.optional(entries.OTP_TTL_SECONDS.wrapped),
  max_attempts: v.optional(entries.OTP_MAX_ATTEMPTS.wrapped),
  daily_cap: v.optional(entries.OTP_DAILY_MESSAGE_CAP.wrapped),
  country_caps: v.optional(
    listOf(parseCountryCap, 1, 300, "NG=50,KE=0 (messages in a UTC day); none takes a country out"),
  ),
  daily_spend_cap: v.optional(entries.OTP_DAILY_SPEND_CAP.wrapped),
  limits: v.optional(namedLimits),
  fraud_guard: v.optional(entries.OTP_FRAUD_GUARD.wrapped),
  audience: v.optional(audience),
  origins: v.optional(listOf(parsePageOrigin, 1, 50, "https://shop.example,http://localhost:5173 (without a path)")),
});
type Values = v.InferOutput<typeof shapes>;

export type SettingName = keyof Values;

/** The operator's variable that each setting replaces, if there is one. */
export const settingVariables: Readonly<Record<SettingName, keyof typeof entries | undefined>> = {
  brand: "OTP_BRAND",
  texts: "OTP_TEMPLATES_FILE",
  countries: "OTP_ALLOWED_COUNTRIES",
  phone_limits: "OTP_PHONE_LIMITS",
  resend_gaps: "OTP_RESEND_GAPS",
  code_length: "OTP_CODE_LENGTH",
  code_length_max: "OTP_CODE_LENGTH_MAX",
  ttl_seconds: "OTP_TTL_SECONDS",
  max_attempts: "OTP_MAX_ATTEMPTS",
  daily_cap: "OTP_DAILY_MESSAGE_CAP",
  country_caps: undefined,
  daily_spend_cap: "OTP_DAILY_SPEND_CAP",
  limits: undefined,
  fraud_guard: "OTP_FRAUD_GUARD",
  audience: undefined,
  origins: undefined,
};

export const settingNames = Object.keys(settingVariables) as readonly SettingName[];

/** Settings as they are stored; `texts` is the content of a file. */
export type TenantSettings = Readonly<Partial<Record<SettingName, string>>>;

/** What a tenant without settings has. */
export interface Operator {
  readonly policy: Policy;
  readonly brand: string;
  readonly templates: Templates;
  readonly prices?: Prices | undefined;
  readonly providers?: ChannelProviders;
}

/** A fault of a setting: the rest of a sentence that begins with its name, without its full stop. */
export interface SettingFault {
  readonly setting: string;
  readonly rest: string;
}

/** Reads the settings of a record; what is no setting is a fault and left out. Pure. */
export function settingsOf(record: Pick<TenantRecord, "settings">): {
  settings: TenantSettings;
  faults: SettingFault[];
} {
  let kept: unknown;
  try {
    kept = JSON.parse(record.settings);
  } catch {
    // Handled below, as is any other value that is no object.
  }
  if (typeof kept !== "object" || kept === null || Array.isArray(kept)) {
    return { settings: {}, faults: [{ setting: "settings", rest: "must be a JSON object" }] };
  }
  const settings: Partial<Record<SettingName, string>> = {};
  const faults: SettingFault[] = [];
  for (const [setting, value] of Object.entries(kept as Record<string, unknown>)) {
    const known = settingNames.find((name) => name === setting);
    if (known === undefined) faults.push({ setting: setting.slice(0, 40), rest: "is not a known setting" });
    else if (typeof value !== "string") faults.push({ setting, rest: "must be a text" });
    else settings[known] = value;
  }
  return { settings, faults };
}

/** The origins that a tenant's pages may have; undefined for any. Pure. */
export function originsOf(record: Pick<TenantRecord, "settings">): ReadonlySet<string> | undefined {
  const parsed = v.safeParse(shapes.entries.origins, settingsOf(record).settings.origins);
  return parsed.success && parsed.output !== undefined ? new Set(parsed.output) : undefined;
}

/** A record's settings with a mode of the guard, or without one of its own, and the modes that hold before and then. Pure. */
export function withGuard(settings: string, mode: GuardMode | undefined, operator: Operator) {
  const { fraud_guard: own, ...others } = settingsOf({ settings }).settings;
  const before = v.safeParse(shapes.entries.fraud_guard, own);
  const changed = recordedSettings(mode === undefined ? others : { ...others, fraud_guard: mode });
  const { fraudGuard } = operator.policy;
  return { settings: changed, before: (before.success && before.output) || fraudGuard, mode: mode ?? fraudGuard };
}

/** Settings as a record stores them. Pure. */
export function recordedSettings(settings: TenantSettings): string {
  return JSON.stringify(Object.fromEntries(settingNames.map((name) => [name, settings[name]])));
}

/**
 * Makes the tenant that a record describes. A setting with a fault counts as not set. Reading texts takes some
 * milliseconds, so ask for a tenant once. Pure.
 */
export function readTenant(
  record: Pick<TenantRecord, "id" | "settings" | "disableMs">,
  operator: Operator,
): { tenant: Tenant; faults: readonly SettingFault[] } {
  const { settings, faults } = settingsOf(record);
  const values: Partial<Record<SettingName, unknown>> = {};
  for (const name of settingNames) {
    const parsed = v.safeParse(shapes.entries[name], settings[name]);
    if (parsed.success) values[name] = parsed.output;
    // A list with several wrong entries gets one sentence.
    else for (const rest of new Set(parsed.issues.map(({ message }) => message))) faults.push({ setting: name, rest });
  }
  const own = values as Values;
  const brand = own.brand ?? operator.brand;
  const texts = own.texts === undefined ? undefined : parseTemplates(own.texts, brand);
  faults.push(...(texts?.faults ?? []).map((rest) => ({ setting: "texts", rest })));
  const codeLength = own.code_length ?? operator.policy.codeLength;
  if (own.code_length_max !== undefined && own.code_length_max < codeLength) {
    faults.push({ setting: "code_length_max", rest: `must be at least the code length, ${codeLength}` });
  }
  // Where the operator has a cap, as production must, every tenant has one.
  if (own.daily_cap === 0 && operator.policy.dailyMessagesMax !== undefined) {
    faults.push({ setting: "daily_cap", rest: "must be at least 1, since OTP_DAILY_MESSAGE_CAP is set" });
  }
  const spending = spendingOf(own, operator);
  faults.push(...spending.faults);
  const { countries } = spending;
  const tenant: Tenant = {
    id: record.id,
    brand,
    templates: texts === undefined || texts.faults.length > 0 ? operator.templates : texts.templates,
    audience: own.audience ?? record.id,
    origins: own.origins === undefined ? undefined : new Set(own.origins),
    isDisabled: record.disableMs !== null,
    limits: own.limits,
    policy: {
      ...operator.policy,
      codeLength,
      codeLengthMax: Math.max(own.code_length_max ?? operator.policy.codeLengthMax, codeLength),
      ttlMs: own.ttl_seconds === undefined ? operator.policy.ttlMs : own.ttl_seconds * 1_000,
      attemptsMax: own.max_attempts ?? operator.policy.attemptsMax,
      resendGapsMs: own.resend_gaps ?? operator.policy.resendGapsMs,
      fraudGuard: own.fraud_guard ?? operator.policy.fraudGuard,
      phoneLimits: own.phone_limits ?? operator.policy.phoneLimits,
      dailyMessagesMax: own.daily_cap || operator.policy.dailyMessagesMax,
      ...(own.country_caps === undefined ? {} : { countryCaps: new Map(own.country_caps) }),
      ...(spending.cap === undefined ? {} : { dailySpend: spending.cap }),
      allowedCountries: countries,
    },
  };
  return { tenant, faults };
}

/**
 * The countries that a tenant sends to and its cap on money. Under a cap all of them need a price: countries that lack one are
 * not the tenant's, and a cap of its own that lacks one is refused before it is kept.
 */
function spendingOf(own: Values, { policy, prices, providers = {} }: Operator) {
  const wanted =
    own.countries === undefined
      ? policy.allowedCountries
      : own.countries === "*"
        ? undefined
        : new Set<string>(own.countries);
  const ownCap = own.daily_spend_cap;
  const cap = ownCap === undefined ? policy.dailySpend : { max: ownCap, currency: prices?.currency ?? "" };
  const lacking = cap && unpriced(prices, wanted, providers);
  if (lacking === undefined) return { countries: wanted, cap, faults: [] };
  const setting = ownCap === undefined ? "countries" : "daily_spend_cap";
  const rest = ownCap === undefined ? `under a daily spend cap ${lacking}` : lacking;
  // What has no price is refused under a cap, whatever the list of countries says.
  return { countries: ownCap === undefined ? policy.allowedCountries : wanted, cap, faults: [{ setting, rest }] };
}

/**
 * Warnings about a tenant's brand and texts, sentences without full stop. A server does without them: to measure a brand in
 * every text takes 4 ms. Pure.
 */
export function warningsOf(settings: TenantSettings, operator: Operator): readonly string[] {
  const { brand, texts } = settings;
  return [
    ...(brand === undefined ? [] : warningsOfBrand(brand, "brand")),
    ...(texts === undefined
      ? []
      : parseTemplates(texts, brand ?? operator.brand).warnings.map((rest) => `texts ${rest}`)),
  ];
}
