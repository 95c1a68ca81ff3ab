/**
 * Configuration: the `OTP_*` environment variables, parsed once into typed values. All faults are reported together. An
 * unknown name is refused: a misspelt limit costs money.
 */
import { dirname } from "node:path";
import * as v from "valibot";
import type { AddressRange } from "../delivery/public-address.ts";
import type { Description } from "../delivery/providers/description.ts";
import type { ProviderSettings } from "../delivery/providers/list.ts";
import { channels, type Channel } from "../otp/channel.ts";
import type { FallbackPlan } from "../otp/message/fallback.ts";
import type { Policy } from "../otp/verification/policy.ts";
import type { Prices } from "../otp/message/prices.ts";
import type { AddressLimits, Limit } from "../otp/limits/rate-limit.ts";
import { Secret } from "../otp/keys/secret.ts";
import { parseTemplates } from "../otp/template/file.ts";
import { warningsOfBrand } from "../otp/template/lint.ts";
import { createTemplates, type Templates } from "../otp/template/choice.ts";
import { fileTrouble } from "../store/file-trouble.ts";
import type { Database } from "../store/open.ts";
import type { LogLevel } from "../telemetry.ts";
import { adminOf, faultsOfOpenAdmin, type AdminConfig } from "./admin.ts";
import { consoleOf, faultsOfProxies, type ConsoleConfig } from "./console.ts";
import { readDeclared, readSecrets } from "./http-providers.ts";
import { readPricesFile, unpriced } from "./prices-file.ts";
import {
  faultsOfNames,
  faultsOfProviders,
  faultsOfUnattended,
  providerVariable,
  type ProviderNames,
} from "./provider-faults.ts";
import { collect, secretInFile, type Environment } from "./names.ts";
import { settingVariables } from "./tenant-settings.ts";
import { providerVariables, variables, type Given } from "./variables.ts";

export interface Config {
  readonly environment: "development" | "production";
  readonly host: string;
  readonly port: number;
  readonly database: Database;
  /** Where a development setup keeps its master key: beside a SQLite file. */
  readonly dataFolder: string;
  /** Undefined when one is to be generated and kept beside the database. */
  readonly masterKeys: readonly Uint8Array[] | undefined;
  /** Those of them that have leaked: they read, and sign nothing. */
  readonly leakedKeys: readonly Uint8Array[];
  /** Those of each channel, in the order they are tried; a channel without any is not on. */
  readonly providers: ProviderNames;
  /** How a send goes on that does not say it; undefined where it does not. */
  readonly fallback: FallbackPlan | undefined;
  readonly providerSettings: ProviderSettings;
  readonly brand: string;
  readonly templates: Templates;
  /** The content of the operator's file of texts, if there is one. */
  readonly textsFile: string | undefined;
  /** The variables that tenants may have settings of their own in place of, as far as they are set, as they were written. */
  readonly written: Readonly<Partial<Record<string, string>>>;
  /** What messages cost; undefined where the operator has not said. */
  readonly prices?: Prices | undefined;
  readonly sendWaitMs: number;
  /** Idle time of a connection that brought a valid key. */
  readonly idleMs: number;
  /** Age at which a connection is asked to close; 0 for never. */
  readonly connectionMaxAgeMs: number;
  /** At a stop, how long calls are still taken while the instance says that it is not ready. */
  readonly drainMs: number;
  readonly connectionsMax: number;
  /** Paths of the certificate chain and its key, PEM; undefined for cleartext. */
  readonly tls: { readonly certFile: string; readonly keyFile: string } | undefined;
  /** Undefined where no bot check is set up. */
  readonly botCheck: { readonly verifyUrl: URL; readonly secret: Secret } | undefined;
  /** Calls with one API key; undefined for no limit. */
  readonly keyLimit: Limit | undefined;
  readonly addressLimits: AddressLimits;
  /** Refused API keys from one address. */
  readonly authFailureLimit: Limit;
  /** Whose X-Forwarded-For is believed. */
  readonly trustedProxies: readonly AddressRange[];
  /** Networks in which many callers share an address: limits per address do not hold there. */
  readonly sharedNetworks: readonly AddressRange[];
  /** Networks that events may be posted to beside the public internet. */
  readonly eventNetworks: readonly AddressRange[];
  readonly admin: AdminConfig;
  readonly console: ConsoleConfig;
  /** Whether server reflection is served. */
  readonly reflection: boolean;
  /** Whether there is a demo page. Unless set: in development, if all providers are the console. */
  readonly demo: boolean;
  /** Who may read the metrics: nobody, this machine, or everybody who reaches the port. */
  readonly metrics: "off" | "loopback" | "on";
  readonly logLevel: LogLevel;
  readonly policy: Policy;
}

/** The channels that are on: a provider is configured, and calls that cost something have a cap. Pure. */
export function channelsOn(config: Pick<Config, "providers" | "policy">): Channel[] {
  const { providers } = config;
  return channels.filter((channel) => providers[channel].length > 0 && (channel !== "voice" || !lacksVoiceCap(config)));
}

/** Whether nobody is called although there are providers of voice: how many calls may be paid for was not said. Pure. */
export function lacksVoiceCap({ providers, policy }: Pick<Config, "providers" | "policy">): boolean {
  return policy.dailyVoiceMax === undefined && providers.voice.some((name) => name !== "console");
}

/** What an operator is told whose calls have no cap. */
export const withoutVoiceCap =
  "OTP_VOICE_DAILY_CAP is 0, so nobody is called: say how many calls a day you would pay for.";

/** The name of each provider that a channel has, once. Pure. */
export function providersNamed({ providers }: Pick<Config, "providers">): string[] {
  return [...new Set(channels.flatMap((channel) => providers[channel]))];
}

/** What was parsed, or all its faults. Warnings come with either. */
export type Parsed<T> = { readonly warnings: readonly string[] } & (
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly faults: readonly string[] }
);

const hourMs = 3_600_000;
const tenantVariables: ReadonlySet<string | undefined> = new Set(Object.values(settingVariables));

/** Whether this is a development setup in which no message leaves. */
function sendsNothing({ environment, providers }: Pick<Config, "environment" | "providers">): boolean {
  return environment === "development" && providersNamed({ providers }).every((name) => name === "console");
}

// ---- parsing --------------------------------------------------------------------------------------------------------

/** Parses the environment. `readFile` reads the file of a secret or of the texts; it may throw. Pure otherwise. */
export function parseConfig(env: Environment, readFile: (path: string) => string): Parsed<Config> {
  const declared = readDeclared(env, readFile);
  const { values, named, faults, warnings } = collect(env, readFile, declared.isSecret);
  const parsed = v.safeParse(variables, values);
  // A list with several wrong entries gets one sentence.
  faults.push(...new Set((parsed.issues ?? []).map(({ path, message }) => `${String(path?.[0]?.key)} ${message}.`)));
  const texts = readTexts(values, readFile);
  const priced = readPricesFile(env, readFile);
  const secrets = readSecrets(declared.descriptions, values);
  const providers = askedProviders(values);
  const unknown = faultsOfNames(providers, declared);
  faults.push(...unknown, ...declared.faults, ...secrets.faults, ...texts.faults, ...priced.faults);
  faults.push(...faultsBetween(values, named, unknown.length === 0 ? providers : noProviders, declared.descriptions));
  warnings.push(...texts.warnings);
  if (!parsed.success || faults.length > 0) return { ok: false, faults, warnings };
  const given = parsed.output;
  const policy = policyOf(given, priced.prices);
  const lacking = policy.dailySpend && unpriced(priced.prices, policy.allowedCountries, providers);
  if (lacking !== undefined) return { ok: false, faults: [`OTP_DAILY_SPEND_CAP ${lacking}.`], warnings };
  const { OTP_CHALLENGE_VERIFY_URL: verifyUrl, OTP_CHALLENGE_SECRET: botCheckSecret } = given;
  const { OTP_TLS_CERT_FILE: certFile, OTP_TLS_KEY_FILE: keyFile } = given;
  return {
    ok: true,
    warnings,
    value: {
      environment: given.OTP_ENV,
      host: given.OTP_HOST,
      port: given.OTP_PORT,
      database: given.OTP_DATABASE_URL,
      dataFolder: dataFolderOf(given.OTP_DATABASE_URL),
      masterKeys: given.OTP_MASTER_KEY?.map(({ bytes }) => bytes),
      leakedKeys: (given.OTP_MASTER_KEY ?? []).filter(({ isLeaked }) => isLeaked).map(({ bytes }) => bytes),
      providers,
      fallback: given.OTP_FALLBACK,
      providerSettings: settingsOf(given, secrets.values, declared.descriptions),
      brand: given.OTP_BRAND,
      templates: texts.templates,
      textsFile: texts.json,
      written: Object.fromEntries(Object.entries(values).filter(([name]) => tenantVariables.has(name))),
      prices: priced.prices,
      sendWaitMs: given.OTP_SEND_WAIT_MS,
      idleMs: given.OTP_IDLE_SECONDS * 1_000,
      connectionMaxAgeMs: given.OTP_CONNECTION_MAX_AGE_SECONDS * 1_000,
      drainMs: given.OTP_DRAIN_SECONDS * 1_000,
      connectionsMax: given.OTP_MAX_CONNECTIONS,
      tls: certFile === undefined || keyFile === undefined ? undefined : { certFile, keyFile },
      botCheck:
        verifyUrl === undefined || botCheckSecret === undefined
          ? undefined
          : { verifyUrl, secret: new Secret(botCheckSecret) },
      keyLimit: given.OTP_KEY_LIMIT === "none" ? undefined : given.OTP_KEY_LIMIT,
      addressLimits: { sends: given.OTP_IP_SEND_LIMIT, calls: given.OTP_IP_VERIFY_LIMIT },
      authFailureLimit: given.OTP_AUTH_FAILURE_LIMIT,
      trustedProxies: given.OTP_TRUSTED_PROXIES ?? [],
      sharedNetworks: given.OTP_SHARED_NETWORKS ?? [],
      eventNetworks: given.OTP_EVENT_NETWORKS ?? [],
      admin: adminOf(given),
      console: consoleOf(given),
      reflection: (given.OTP_REFLECTION ?? (given.OTP_ENV === "development" ? "on" : "off")) === "on",
      demo: (given.OTP_DEMO ?? (sendsNothing({ environment: given.OTP_ENV, providers }) ? "on" : "off")) === "on",
      metrics: given.OTP_METRICS,
      logLevel: given.OTP_LOG_LEVEL,
      policy,
    },
  };
}

/** What an operator decides about every tenant's verifications. */
function policyOf(given: Given, prices: Prices | undefined): Policy {
  const { OTP_ALLOWED_COUNTRIES: countryList, OTP_DAILY_SPEND_CAP: spendMax } = given;
  return {
    codeLength: given.OTP_CODE_LENGTH,
    codeLengthMax: Math.max(given.OTP_CODE_LENGTH_MAX, given.OTP_CODE_LENGTH),
    guessPolicy: given.OTP_GUESS_POLICY,
    ttlMs: given.OTP_TTL_SECONDS * 1_000,
    attemptsMax: given.OTP_MAX_ATTEMPTS,
    resendGapsMs: given.OTP_RESEND_GAPS,
    phoneLimits: given.OTP_PHONE_LIMITS,
    allowedCountries: countryList === undefined || countryList === "*" ? undefined : new Set<string>(countryList),
    fraudGuard: given.OTP_FRAUD_GUARD,
    dailyMessagesMax: given.OTP_DAILY_MESSAGE_CAP || undefined,
    dailyVoiceMax: given.OTP_VOICE_DAILY_CAP || undefined,
    retentionMs: given.OTP_RETENTION_HOURS * hourMs,
    ...(spendMax === undefined ? {} : { dailySpend: { max: spendMax, currency: prices?.currency ?? "" } }),
  };
}

function dataFolderOf(database: Database): string {
  return database.kind === "sqlite" ? dirname(database.path) : "./data";
}

/**
 * What is wrong between variables. Each is parsed by itself, so that these faults are found beside a variable that does not
 * parse. `named` are those that are set, whether they parse or not; `providers` are those of the channels, if all are known.
 */
function faultsBetween(
  values: Readonly<Record<string, string>>,
  named: ReadonlySet<string>,
  providers: ProviderNames,
  declared: readonly Description[],
): string[] {
  const read = <Name extends keyof Given>(name: Name): Given[Name] | undefined => {
    const one = v.safeParse(variables.entries[name], values[name]);
    return one.success ? (one.output as Given[Name]) : undefined;
  };
  const faults: string[] = [];
  const [length, lengthMax] = [read("OTP_CODE_LENGTH"), read("OTP_CODE_LENGTH_MAX")];
  if (named.has("OTP_CODE_LENGTH_MAX") && length !== undefined && lengthMax !== undefined && lengthMax < length) {
    faults.push("OTP_CODE_LENGTH_MAX must be at least OTP_CODE_LENGTH.");
  }
  if (named.has("OTP_TLS_CERT_FILE") !== named.has("OTP_TLS_KEY_FILE")) {
    faults.push("OTP_TLS_CERT_FILE and OTP_TLS_KEY_FILE go together; set both or neither.");
  }
  const botCheck = ["OTP_CHALLENGE_VERIFY_URL", "OTP_CHALLENGE_SECRET"] as const;
  const [given, missing] = named.has(botCheck[0]) ? botCheck : botCheck.toReversed();
  if (given !== undefined && missing !== undefined && named.has(given) && !named.has(missing)) {
    faults.push(`${missing} is required by ${given}; set both or neither.`);
  }
  const isProduction = read("OTP_ENV") === "production";
  for (const channel of isProduction ? channels : []) {
    if (!providers[channel].includes("console")) continue;
    faults.push(`${providerVariable[channel]} must not name console in production: it prints every code.`);
  }
  if (isProduction && read("OTP_DEMO") === "on") {
    faults.push("OTP_DEMO must not be on in production: whoever has the page's link has a key, and can read codes.");
  }
  faults.push(...faultsOfProxies(named));
  if (isProduction && read("OTP_ADMIN") === "on") faults.push(...faultsOfOpenAdmin(named));
  if (isProduction && !named.has("OTP_MASTER_KEY")) {
    faults.push(
      "OTP_MASTER_KEY (or OTP_MASTER_KEY_FILE) is required in production: 32 random bytes in base64url, kept apart from the database.",
    );
  }
  const isLive = providersNamed({ providers }).some((name) => name !== "console");
  if ((isProduction || isLive) && !named.has("OTP_ALLOWED_COUNTRIES")) {
    const where = isProduction ? "in production" : "with a provider that sends";
    faults.push(`OTP_ALLOWED_COUNTRIES is required ${where}: a list such as NL,BE,DE, or * for all.`);
  }
  // A cap that does not parse has a fault of its own.
  if (isProduction && (read("OTP_DAILY_MESSAGE_CAP") === 0 || !named.has("OTP_DAILY_MESSAGE_CAP"))) {
    faults.push("OTP_DAILY_MESSAGE_CAP is required in production: how many SMS a day you would pay for, such as 5000.");
  }
  for (const channel of providers === noProviders ? [] : (read("OTP_FALLBACK")?.channels ?? [])) {
    if (providers[channel].length > 0) continue;
    faults.push(`OTP_FALLBACK names ${channel}, which is not on: ${providerVariable[channel]} is not set.`);
  }
  const senders = (read("OTP_ORIGINATORS") ?? []).map(([country]) => country);
  const twice = senders.find((country, i) => senders.indexOf(country) < i);
  if (twice !== undefined) faults.push(`OTP_ORIGINATORS gives ${twice} two senders.`);
  faults.push(...faultsOfProviders(providers, declared, named));
  if (read("OTP_VOICE_UNATTENDED") === "off") faults.push(...faultsOfUnattended(providers.voice, declared));
  return faults;
}

const noProviders: ProviderNames = { sms: [], voice: [], whatsapp: [] };

/** What the environment names of providers, whether there are such or not. */
function askedProviders(values: Readonly<Record<string, string>>): ProviderNames {
  const asked = (name: (typeof providerVariable)[Channel]) => v.parse(variables.entries[name], values[name]) ?? [];
  return {
    sms: asked("OTP_PROVIDERS"),
    voice: asked("OTP_VOICE_PROVIDERS"),
    whatsapp: asked("OTP_WHATSAPP_PROVIDERS"),
  };
}

/** The settings of providers; `faultsBetween` has checked that none is missing. */
function settingsOf(
  given: Given,
  secrets: Readonly<Record<string, unknown>>,
  declared: readonly Description[],
): ProviderSettings {
  const values: Readonly<Partial<Record<string, unknown>>> = given;
  return {
    publicUrl: given.OTP_PUBLIC_URL?.origin,
    originators: new Map(given.OTP_ORIGINATORS ?? []),
    values: { ...Object.fromEntries(providerVariables.map((name) => [name, values[name]])), ...secrets },
    declared,
  };
}

/** The texts of messages: the built-in ones, and those of the operator's file if one is named. */
function readTexts(values: Readonly<Record<string, string>>, readFile: (path: string) => string) {
  // In place of a brand that is refused the default is measured, so that the file's faults are reported too.
  const given = v.safeParse(variables.entries.OTP_BRAND, values["OTP_BRAND"]);
  const brand = given.success ? given.output : v.getDefault(variables.entries.OTP_BRAND);
  const warnings = warningsOfBrand(brand);
  const path = values["OTP_TEMPLATES_FILE"];
  if (path === undefined) return { templates: createTemplates(), json: undefined, faults: [], warnings };
  let json: string;
  try {
    json = readFile(path);
  } catch (error) {
    const faults = [`OTP_TEMPLATES_FILE names a file that ${fileTrouble(error) ?? "cannot be read"}.`];
    return { templates: createTemplates(), json: undefined, faults, warnings };
  }
  const parsed = parseTemplates(json, brand);
  return {
    templates: parsed.templates,
    json,
    faults: parsed.faults.map((rest) => `OTP_TEMPLATES_FILE ${rest}.`),
    warnings: [...warnings, ...parsed.warnings.map((rest) => `OTP_TEMPLATES_FILE ${rest}`)],
  };
}

/** Parses where the database is, for a command beside the server. `readFile` may throw. */
export function parseDatabase(env: Environment, readFile: (path: string) => string): Parsed<Database> {
  const faults: string[] = [];
  const text = secretInFile(env, "OTP_DATABASE_URL", readFile, faults);
  if (faults.length > 0) return { ok: false, faults, warnings: [] };
  // An empty file is a wrong value; an empty variable is as if not set.
  return parseOne("OTP_DATABASE_URL", text ?? (env["OTP_DATABASE_URL"] || undefined));
}

/** Parses for `prune` how long ended verifications are kept, in milliseconds. */
export function parseRetentionMs(env: Environment): Parsed<number> {
  const parsed = parseOne("OTP_RETENTION_HOURS", env["OTP_RETENTION_HOURS"] || undefined);
  return parsed.ok ? { ...parsed, value: parsed.value * hourMs } : parsed;
}

function parseOne<Name extends keyof typeof variables.entries>(
  name: Name,
  text: string | undefined,
): Parsed<v.InferOutput<(typeof variables.entries)[Name]>> {
  const parsed = v.safeParse(variables.entries[name], text);
  if (parsed.success) return { ok: true, value: parsed.output, warnings: [] };
  return { ok: false, faults: parsed.issues.map((issue) => `${name} ${issue.message}.`), warnings: [] };
}
