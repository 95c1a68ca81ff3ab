/**
 * The RPCs on API keys, callers' and operators'. Nobody can give rights that he does not have: only admins of no tenant
 * make and rotate admin keys, with scopes that they have.
 */
import { durationMs } from "@bufbuild/protobuf/wkt";
import type { Duration } from "@bufbuild/protobuf/wkt";
import { adminScopes, usualAdminScopes, type AdminScope } from "../../otp/keys/admin-key.ts";
import {
  channelsNamed,
  isPublishable,
  keyKinds,
  keyNameCharsMax,
  publishableScopes,
  scopes,
  secretScopes,
  type KeyKind,
  type Scope,
} from "../../otp/keys/api-key.ts";
import { channels, defaultChannel, type Channel } from "../../otp/channel.ts";
import { hiddenCharacter } from "../../otp/hidden-characters.ts";
import { nullOrigin, originShape, originsMax, parseOrigin, type Setup } from "../../otp/keys/origin.ts";
import { ok } from "../../otp/reason.ts";
import { issueKey, type KeySpec } from "../../service/callers/api-keys.ts";
import {
  findAnyKey,
  issueAdminKey,
  keptMaxMs,
  keptMs,
  listAnyKeys,
  revokeAnyKey,
  rotateAnyKey,
  type AnyKey,
} from "../../service/operators/keys.ts";
import type { Store } from "../../store/store.ts";
import type { System } from "../../system.ts";
import { forOperators, lacking, sees, tenantListed, tenantMeant, type Asker } from "./asker.ts";
import { timeField, type HandlersOf } from "./handlers.ts";
import { badField, notFound, refuseAdmin, type AdminResult } from "./refusal.ts";

export interface KeyDependencies {
  readonly store: Store;
  readonly system: System;
  /** The origins that a tenant's keys may list; undefined for any. */
  readonly originsOf: (tenant: string) => ReadonlySet<string> | undefined;
  /** In development keys may list pages of private networks. */
  readonly isDevelopment: boolean;
}

const lifetimeMaxMs = 10 * 366 * 24 * 3_600_000;

/** What is asked of a new key. */
interface KeyRequest {
  readonly kind: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly origins: readonly string[];
  readonly channels: readonly string[];
  readonly app: boolean;
  readonly lifetime?: Duration | undefined;
}

type KeyRpcs = "listApiKeys" | "createApiKey" | "rotateApiKey" | "revokeApiKey";

export function keyHandlers(dependencies: KeyDependencies): HandlersOf<KeyRpcs> {
  const { store, system, originsOf } = dependencies;

  /** A key that is there for this admin. */
  async function find(asker: Asker, id: string): Promise<AnyKey | undefined> {
    const found = await findAnyKey(store, id);
    return found !== undefined && sees(asker, found.key.tenant) ? found : undefined;
  }

  return {
    async listApiKeys({ tenant }, asker) {
      const listed = tenantListed(asker, tenant);
      if (!listed.ok) return listed;
      const { value: only } = listed;
      if (only !== undefined && (await store.registry.findTenant(only)) === undefined) return notFound;
      const all = await listAnyKeys(store);
      return ok({ apiKeys: all.filter(({ key }) => only === undefined || key.tenant === only).map(shown) });
    },

    async createApiKey(asked, asker) {
      const name = nameOf(asked.name);
      if (!name.ok) return name;
      const expireMs = expiryOf(asked, store.now());
      if (!expireMs.ok) return expireMs;
      if (asked.kind === "admin") {
        if (asker.tenant !== undefined) return forOperators;
        const granted = adminScopesOf(asked, asker);
        if (!granted.ok) return granted;
        const tenant = asked.tenant === "" ? null : asked.tenant;
        if (tenant !== null && (await store.registry.findTenant(tenant)) === undefined) return notFound;
        const spec = { tenant, name: asked.name, scopes: granted.value, expireMs: expireMs.value };
        const { key, text } = await issueAdminKey(store, system, spec, asker.author);
        return ok({ apiKey: shown({ isAdmin: true, key }), text: text.reveal() });
      }
      const tenant = tenantMeant(asker, asked.tenant);
      if (!tenant.ok) return tenant;
      if ((await store.registry.findTenant(tenant.value)) === undefined) return notFound;
      const rights = rightsOf(asked, originsOf(tenant.value), dependencies);
      if (!rights.ok) return rights;
      const spec = { ...rights.value, tenant: tenant.value, name: asked.name, expireMs: expireMs.value };
      const { key, text } = await issueKey(store, system, spec, asker.author);
      return ok({ apiKey: shown({ isAdmin: false, key }), text: text.reveal() });
    },

    async rotateApiKey({ id, keep }, asker) {
      const keepMs = keep === undefined ? keptMs : durationMs(keep);
      if (!(keepMs >= 0 && keepMs <= keptMaxMs)) return badField("keep", "must be 0 seconds to 30 days");
      const found = await find(asker, id);
      if (found === undefined) return notFound;
      if (found.isAdmin) {
        if (asker.tenant !== undefined) return forOperators;
        const lacked = found.key.scopes.find((scope) => !asker.scopes.includes(scope));
        if (lacked !== undefined) return lacking(lacked);
      }
      const made = await rotateAnyKey(store, system, found, keepMs, asker.author);
      if (made === undefined) return refuseAdmin("ENDED");
      const next = await findAnyKey(store, made.key.id);
      return next === undefined ? notFound : ok({ apiKey: shown(next), text: made.text.reveal() });
    },

    async revokeApiKey({ id }, asker) {
      if ((await find(asker, id)) === undefined) return notFound;
      await revokeAnyKey(store, id, asker.author);
      const found = await findAnyKey(store, id);
      return found === undefined ? notFound : ok({ apiKey: shown(found) });
    },
  };
}

/** A key as it is told, without its digest. */
function shown(found: AnyKey) {
  const { id, tenant, name, scopes: granted, createMs, expireMs, revokeMs, lastUseMs, lastRefuseMs } = found.key;
  const rights = found.isAdmin
    ? { kind: "admin" }
    : {
        kind: found.key.kind,
        origins: [...found.key.origins],
        channels: [...(channelsNamed(found.key) ?? [])],
        app: found.key.isApp,
      };
  return {
    id,
    tenant: tenant ?? "",
    name,
    scopes: [...granted],
    ...rights,
    ...timeField("createTime", createMs),
    ...timeField("expireTime", expireMs),
    ...timeField("revokeTime", revokeMs),
    ...timeField("lastUseTime", lastUseMs),
    ...timeField("lastRefuseTime", lastRefuseMs),
  };
}

function nameOf(name: string): AdminResult<string> {
  const isFit = name.length <= keyNameCharsMax && hiddenCharacter(name) === undefined;
  return isFit ? ok(name) : badField("name", `must be one line of at most ${keyNameCharsMax} visible characters`);
}

function expiryOf({ lifetime }: KeyRequest, now: number): AdminResult<number | null> {
  if (lifetime === undefined) return ok(null);
  const ms = durationMs(lifetime);
  if (ms > 0 && ms <= lifetimeMaxMs) return ok(now + Math.floor(ms));
  return badField("lifetime", "must be more than 0, and at most ten years");
}

function adminScopesOf(asked: KeyRequest, asker: Asker): AdminResult<readonly AdminScope[]> {
  const { origins, channels: named, app } = asked;
  if (origins.length > 0 || named.length > 0 || app) return badField("kind", "admin takes no origins, channels or app");
  const wanted: readonly string[] = asked.scopes.length === 0 ? usualAdminScopes : asked.scopes;
  const granted = adminScopes.filter((scope) => wanted.includes(scope));
  if (granted.length < new Set(wanted).size) return badField("scopes", `must be of ${adminScopes.join(", ")}`);
  const lacked = granted.find((scope) => !asker.scopes.includes(scope));
  return lacked === undefined ? ok(granted) : lacking(lacked);
}

type Rights = Pick<KeySpec, "kind" | "scopes" | "origins" | "isApp" | "channels">;

/** The rights of a caller's key. `allowed` are the origins of its tenant, if that has named any. */
function rightsOf(asked: KeyRequest, allowed: ReadonlySet<string> | undefined, setup: Setup): AdminResult<Rights> {
  const kind = keyKinds.find((each) => each === asked.kind);
  if (kind === undefined) return badField("kind", `must be one of ${[...keyKinds, "admin"].join(", ")}`);
  const granted = scopesOf(kind, asked.scopes);
  if (granted === undefined) return badField("scopes", `must be of ${scopes.join(", ")}, as the kind takes them`);
  if (!isPublishable(kind)) {
    if (asked.origins.length > 0) return badField("origins", "are for publishable keys");
    if (asked.channels.length > 0) return badField("channels", "are for publishable keys");
    return asked.app ? badField("app", "is for publishable keys") : ok({ kind, scopes: granted });
  }
  if (asked.origins.includes("null")) return badField("origins", `must not name null: ${nullOrigin}`);
  const origins = [...new Set(asked.origins.map((text) => parseOrigin(text, setup)))];
  const isRead = origins.every((origin) => origin !== undefined && (allowed?.has(origin) ?? true));
  if (!isRead || origins.length > originsMax) {
    return badField("origins", `must be at most ${originsMax} origins of the tenant's pages, each ${originShape}`);
  }
  if (origins.length === 0 && !asked.app) return badField("origins", "must name a site, or app be true");
  const wanted: readonly string[] = asked.channels.length === 0 ? [defaultChannel] : asked.channels;
  const named: Channel[] = channels.filter((channel) => wanted.includes(channel));
  if (named.length < new Set(wanted).size) return badField("channels", `must be of ${channels.join(", ")}`);
  const read = origins.filter((origin) => origin !== undefined);
  return ok({ kind, scopes: granted, origins: read, isApp: asked.app, channels: named });
}

function scopesOf(kind: KeyKind, asked: readonly string[]): readonly Scope[] | undefined {
  if (asked.length === 0) return isPublishable(kind) ? publishableScopes : secretScopes;
  const granted = scopes.filter((scope) => asked.includes(scope));
  return granted.length < new Set(asked).size ? undefined : granted;
}
