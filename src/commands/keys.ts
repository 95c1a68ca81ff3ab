/**
 * `otpd keys`: make, list and revoke API keys.
 */
import { parseDurationMs } from "../config/shapes.ts";
import { originsOf } from "../config/tenant-settings.ts";
import {
  channelsNamed,
  keyNameCharsMax,
  publishableScopes,
  scopes,
  secretScopes,
  type ApiKey,
  type KeyKind,
  type Scope,
} from "../otp/keys/api-key.ts";
import { channels, defaultChannel, findChannel, type Channel } from "../otp/channel.ts";
import { nullOrigin, originShape, originsMax, parseOrigin } from "../otp/keys/origin.ts";
import { adminScopes, usualAdminScopes } from "../otp/keys/admin-key.ts";
import { commandLine } from "../otp/operators/audit.ts";
import { defaultTenant } from "../otp/operators/tenant.ts";
import { issueKey } from "../service/callers/api-keys.ts";
import { issueAdminKey, listAnyKeys, revokeAnyKey } from "../service/operators/keys.ts";
import { timeOf, createSystem, type Instant } from "../system.ts";
import {
  flag,
  Misused,
  onlyArgument,
  parseArgs,
  refuseHidden,
  say,
  sayList,
  Unusable,
  withStore,
  type Commands,
} from "./command.ts";
import { findTenant } from "./setup.ts";

const allScopes = scopes.join(",");

export const keyCommands: Commands = {
  "keys create": {
    summary: "make an API key",
    help: `Usage: otpd keys create [--name NAME] [--tenant NAME] [--scopes LIST] [--expires WHEN] [--test] [--json]
       otpd keys create --admin [--scopes LIST] [--tenant NAME] [--name NAME] [--expires WHEN] [--json]
       otpd keys create --publishable [--origin ORIGIN]... [--app] [--allow-send] [--channel LIST] [--name NAME]
                        [--tenant NAME] [--expires WHEN] [--test] [--json]

Makes an API key and prints it, this once.

  --name NAME      what the key is for, at most ${keyNameCharsMax} characters
  --tenant NAME    whose it is; default unless given
  --scopes LIST    what it may do, of ${allScopes};
                   ${secretScopes.join(",")} unless given; send includes resend
  --expires WHEN   when it stops working: a date such as 2030-01-31 (in UTC), or a time from now such as 90d
  --test           a key for the sandbox: fictional numbers only, nothing is ever sent (docs/testing.md)
  --admin          a key for the operators' service (docs/admin.md), with --scopes of
                   ${adminScopes.join(",")}; ${usualAdminScopes.join(",")} unless given;
                   with --tenant for that tenant alone, and for all of them without
  --publishable    a key for web pages and apps (docs/browsers.md): may ${publishableScopes.join(", ")}
  --origin ORIGIN  a site that may use it, such as https://shop.example or http://localhost:5173; at most ${originsMax}
  --app            apps may use it too, which have no origin
  --allow-send     it may send as well: strangers then cause messages, within the limits of each address
  --channel LIST   the channels it may use, of ${channels.join(",")}; ${defaultChannel} unless given. A secret key may use all that are on
  --json           print {"id","key","kind","tenant","name","scopes","origins","app","channels","expire_time"}`,
    run: createKey,
  },
  "keys list": {
    summary: "list the API keys",
    help: `Usage: otpd keys list [--tenant NAME] [--json]

Lists every API key, without its secret.

  --tenant NAME   only the keys of this tenant
  --json          print an array of {"id","kind","tenant","name","scopes","origins","app","channels","state",
                  "create_time","expire_time","last_use_time","last_refuse_time"}. The last is when somebody tried it
                  after it was revoked or had ended, to the minute`,
    run: listKeys,
  },
  "keys revoke": {
    summary: "revoke an API key",
    help: `Usage: otpd keys revoke ID

Revokes the API key with this id. It is refused from the next call on.`,
    run: revokeKey,
  },
};

async function createKey(args: string[]): Promise<void> {
  const { values: given } = parseArgs({
    args,
    options: {
      name: { type: "string", default: "" },
      tenant: { type: "string" },
      admin: flag,
      scopes: { type: "string" },
      expires: { type: "string" },
      test: flag,
      publishable: flag,
      origin: { type: "string", multiple: true, default: [] },
      app: flag,
      "allow-send": flag,
      channel: { type: "string", multiple: true, default: [] },
      json: flag,
    },
  });
  const values = { ...given, tenant: given.tenant ?? defaultTenant };
  if (values.name.length > keyNameCharsMax) {
    throw new Misused(`--name must be one line of at most ${keyNameCharsMax} characters.`);
  }
  refuseHidden("--name", values.name);
  if (given.admin) return createAdminKey(given);
  const rights = values.publishable ? publishableRights(values) : secretRights(values);
  const expireMs = values.expires === undefined ? null : parseExpiry(values.expires, createSystem().now());
  await withStore(async (store, system) => {
    const record = await findTenant(store, values.tenant);
    const { id: tenant } = record;
    const strange = rights.origins.find((origin) => originsOf(record)?.has(origin) === false);
    if (strange !== undefined) {
      throw new Unusable(`${strange} is not one of the origins of ${tenant}: otpd tenants show ${tenant} lists them.`);
    }
    const { key, text } = await issueKey(
      store,
      system,
      { ...rights, tenant, name: values.name, expireMs },
      commandLine,
    );
    if (values.json) {
      const { id, kind, name, scopes: granted, origins, isApp: app } = key;
      const may = { scopes: granted, origins, app, channels: channelsNamed(key) ?? null };
      say(JSON.stringify({ id, key: text.reveal(), kind, tenant, name, ...may, expire_time: timeOf(expireMs) }));
    } else {
      const where = [...key.origins, ...(key.isApp ? ["apps"] : [])].join(", ");
      const facts = [
        `id ${key.id}`,
        ...(tenant === "default" ? [] : [`of ${tenant}`]),
        `may ${key.scopes.join(", ")}`,
        ...(where === "" ? [] : [`for ${where}`]),
        ...(values.publishable ? [`by ${key.channels.join(", ")}`] : []),
        expireMs === null ? "does not expire" : `expires ${timeOf(expireMs)}`,
      ];
      const which = values.publishable ? "The publishable API key" : "The API key";
      say(`${which}, shown this once:\n\n  ${text.reveal()}\n\n${facts.join(", ")}`);
    }
  });
}

/** An admin key, as the command line asks for it. */
interface AdminKeyArguments extends KeyArguments {
  readonly name: string;
  readonly tenant?: string | undefined;
  readonly expires?: string | undefined;
  readonly publishable: boolean;
  readonly json: boolean;
}

async function createAdminKey(asked: AdminKeyArguments): Promise<void> {
  const { scopes: list, origin, app, "allow-send": maySend, channel, test, publishable, name, json } = asked;
  if (publishable || test || app || maySend || origin.length > 0 || channel.length > 0) {
    throw new Misused(
      "--admin makes a key for operators: it goes with --scopes, --tenant, --name, --expires and --json.",
    );
  }
  const wanted: readonly string[] = list?.split(",").map((scope) => scope.trim()) ?? usualAdminScopes;
  const isKnown = wanted.every((scope) => adminScopes.some((known) => known === scope));
  if (!isKnown) throw new Misused(`--scopes must be a list of ${adminScopes.join(",")}.`);
  const granted = adminScopes.filter((scope) => wanted.includes(scope));
  const expireMs = asked.expires === undefined ? null : parseExpiry(asked.expires, createSystem().now());
  await withStore(async (store, system) => {
    const tenant = asked.tenant === undefined ? null : (await findTenant(store, asked.tenant)).id;
    const spec = { tenant, name, scopes: granted, expireMs };
    const { key, text } = await issueAdminKey(store, system, spec, commandLine);
    if (json) {
      const none = { origins: [], app: false, channels: null };
      const shown = { id: key.id, key: text.reveal(), kind: "admin", tenant, name, scopes: granted, ...none };
      return say(JSON.stringify({ ...shown, expire_time: timeOf(expireMs) }));
    }
    const facts = [
      `id ${key.id}`,
      tenant === null ? "of all tenants" : `of ${tenant}`,
      `may ${granted.join(", ")}`,
      expireMs === null ? "does not expire" : `expires ${timeOf(expireMs)}`,
    ];
    say(`The admin key, shown this once:\n\n  ${text.reveal()}\n\n${facts.join(", ")}`);
  });
}

/** The rights of a key, as the command line gives them. */
interface KeyArguments {
  readonly scopes?: string | undefined;
  readonly origin: readonly string[];
  readonly app: boolean;
  readonly "allow-send": boolean;
  readonly channel: readonly string[];
  readonly test: boolean;
}

interface Rights {
  readonly kind: KeyKind;
  readonly scopes: readonly Scope[];
  readonly origins: readonly string[];
  readonly isApp: boolean;
  readonly channels?: readonly Channel[];
}

function secretRights({ scopes: list, origin, app, "allow-send": maySend, channel, test }: KeyArguments): Rights {
  if (origin.length > 0 || app || maySend || channel.length > 0) {
    throw new Misused("--origin, --app, --allow-send and --channel are for keys made with --publishable.");
  }
  const wanted = list?.split(",").map((scope) => scope.trim()) ?? secretScopes;
  const unknown = wanted.filter((scope) => !scopes.some((known) => known === scope));
  if (unknown.length > 0) throw new Misused(`--scopes must be a list of ${allScopes}.`);
  const granted = scopes.filter((scope: Scope) => wanted.includes(scope));
  return { kind: test ? "test" : "live", scopes: granted, origins: [], isApp: false };
}

function publishableRights({ scopes: list, origin, app, "allow-send": maySend, channel, test }: KeyArguments): Rights {
  if (list !== undefined) throw new Misused("--scopes is for secret keys; --allow-send lets a publishable one send.");
  if (origin.includes("null")) throw new Misused(`--origin null: ${nullOrigin}.`);
  const isDevelopment = process.env["OTP_ENV"] !== "production";
  const read = origin.map((text) => parseOrigin(text, { isDevelopment }));
  if (read.includes(undefined)) throw new Misused(`--origin must be ${originShape}.`);
  const origins = [...new Set(read)].filter((each) => each !== undefined);
  if (origins.length > originsMax) throw new Misused(`--origin may name ${originsMax} sites at most.`);
  if (origins.length === 0 && !app)
    throw new Misused("--publishable needs an --origin that may use the key, or --app.");
  const asked = channel.length === 0 ? [defaultChannel] : channel.flatMap((each) => each.split(","));
  const named = asked.map((each) => each.trim().toLowerCase());
  const unknown = named.filter((name) => findChannel(name, channels) === undefined);
  if (unknown.length > 0) throw new Misused(`--channel must be a list of ${channels.join(",")}.`);
  const granted = scopes.filter((scope) => publishableScopes.includes(scope) || (maySend && scope === "send"));
  const kind = test ? "pubtest" : "pub";
  return { kind, scopes: granted, origins, isApp: app, channels: channels.filter((each) => named.includes(each)) };
}

async function listKeys(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { tenant: { type: "string" }, json: flag } });
  await withStore(async (store) => {
    const only = values.tenant === undefined ? undefined : await findTenant(store, values.tenant);
    const all = (await listAnyKeys(store)).toSorted((a, b) => a.key.createMs - b.key.createMs);
    const keys = all
      .filter(({ key }) => only === undefined || key.tenant === only.id)
      .map(({ isAdmin, key }) => ({
        id: key.id,
        kind: isAdmin ? "admin" : key.kind,
        tenant: key.tenant,
        name: key.name,
        scopes: key.scopes,
        origins: isAdmin ? [] : key.origins,
        app: isAdmin ? false : key.isApp,
        channels: isAdmin ? null : (channelsNamed(key) ?? null),
        state: stateOf(key, store.now()),
        create_time: timeOf(key.createMs),
        expire_time: timeOf(key.expireMs),
        last_use_time: timeOf(key.lastUseMs),
        last_refuse_time: timeOf(key.lastRefuseMs),
      }));
    const [whose, option] = only === undefined ? ["", ""] : [` of ${only.id}`, ` --tenant ${only.id}`];
    const none = `There are no API keys${whose}. Make one: otpd keys create${option} --name me`;
    sayList(keys, values.json, none, {
      ID: (k) => k.id,
      KIND: (k) => k.kind,
      TENANT: (k) => k.tenant,
      NAME: (k) => k.name || null,
      STATE: (k) => k.state,
      SCOPES: (k) => k.scopes.join(","),
      "LAST USED": (k) => k.last_use_time ?? "never",
      EXPIRES: (k) => k.expire_time ?? "never",
      "TRIED SINCE": (k) => k.last_refuse_time,
      CHANNELS: (k) => k.channels?.join(",") ?? null,
      ORIGINS: (k) => [...k.origins, ...(k.app ? ["apps"] : [])].join(",") || null,
    });
  });
}

async function revokeKey(args: string[]): Promise<void> {
  const id = idOf(onlyArgument(args, "Give the id of one key: otpd keys list shows them."));
  await withStore(async (store) => {
    if (!(await revokeAnyKey(store, id, commandLine))) throw new Unusable(`There is no API key ${id}.`);
    say(`Revoked ${id}.`);
  });
}

/** An id as it was given; else ends the command. Of a whole key only the id is repeated, which is no secret. */
function idOf(given: string): string {
  if (/^[0-9A-Za-z]{10}$/.test(given)) return given;
  const [, id] = /^otp_[a-z]+_([0-9A-Za-z]{10})_/.exec(given) ?? [];
  throw new Unusable(
    id === undefined
      ? "That is no id of an API key, which has 10 letters and digits: otpd keys list shows them."
      : `That is a whole API key, and a secret. Its id alone revokes it: otpd keys revoke ${id}`,
  );
}

function stateOf(key: Pick<ApiKey, "revokeMs" | "expireMs">, now: Instant): string {
  if (key.revokeMs !== null) return "revoked";
  return key.expireMs !== null && key.expireMs <= now ? "expired" : "active";
}

function parseExpiry(text: string, now: Instant): Instant {
  const fromNow = /^\d+[smhd]$/.test(text) ? parseDurationMs(text) : undefined;
  const at = fromNow === undefined ? parseDate(text) : now + fromNow;
  if (at === undefined || at <= now) {
    throw new Misused("--expires must be a date to come such as 2030-01-31, or a time from now such as 90d.");
  }
  return at;
}

/** `2030-01-31` or `2030-01-31T12:00Z`, in UTC. Date.parse also takes 2030-02-31, as the 3rd of March. */
function parseDate(text: string): Instant | undefined {
  if (!/^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2})?Z)?$/.test(text)) return undefined;
  const at = Date.parse(text);
  return timeOf(Number.isNaN(at) ? null : at)?.startsWith(text.slice(0, 10)) ? at : undefined;
}
