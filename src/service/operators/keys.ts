/**
 * What operators do with keys, their own and callers': list, make, rotate and revoke them.
 */
import type { AdminKey, AdminScope } from "../../otp/keys/admin-key.ts";
import { apiKeyBytes, makeApiKey, type ApiKey } from "../../otp/keys/api-key.ts";
import { noteOf, type Author } from "../../otp/operators/audit.ts";
import type { Secret } from "../../otp/keys/secret.ts";
import type { Store } from "../../store/store.ts";
import type { Instant, System } from "../../system.ts";
import { makeKey, type IssuedKey } from "../callers/api-keys.ts";

/** A key of either table. */
export type AnyKey =
  | { readonly isAdmin: false; readonly key: ApiKey }
  | { readonly isAdmin: true; readonly key: AdminKey };

export interface AdminKeySpec {
  /** Null for an admin of no tenant. */
  readonly tenant: string | null;
  readonly name: string;
  readonly scopes: readonly AdminScope[];
  readonly expireMs: Instant | null;
}

export interface IssuedAdminKey {
  readonly key: AdminKey;
  readonly text: Secret;
}

/** For so long a key that was replaced still works, unless it is said otherwise; and at most. */
export const keptMs = 24 * 3_600_000;
export const keptMaxMs = 30 * 24 * 3_600_000;

/** Makes an admin key and stores its digest. */
export async function issueAdminKey(
  store: Store,
  system: System,
  spec: AdminKeySpec,
  by: Author,
): Promise<IssuedAdminKey> {
  const issued = makeAdminKey(store, system, spec);
  await store.registry.addAdminKey(issued.key, noteOf(by, "api_key.create"));
  return issued;
}

function makeAdminKey(store: Store, system: System, spec: AdminKeySpec): IssuedAdminKey {
  const { id, text, digest } = makeApiKey("admin", system.randomBytes(apiKeyBytes));
  const life = { createMs: store.now(), revokeMs: null, lastUseMs: null, lastRefuseMs: null };
  return { key: { ...spec, ...life, id, digest }, text };
}

/** All keys, those used last first. */
export async function listAnyKeys({ registry }: Pick<Store, "registry">): Promise<AnyKey[]> {
  const [callers, admins] = await Promise.all([registry.listApiKeys(), registry.listAdminKeys()]);
  const all: AnyKey[] = [
    ...callers.map((key) => ({ isAdmin: false, key }) as const),
    ...admins.map((key) => ({ isAdmin: true, key }) as const),
  ];
  return all.toSorted((a, b) => (b.key.lastUseMs ?? 0) - (a.key.lastUseMs ?? 0) || b.key.createMs - a.key.createMs);
}

export async function findAnyKey({ registry }: Pick<Store, "registry">, id: string): Promise<AnyKey | undefined> {
  const key = await registry.findApiKey(id);
  if (key !== undefined) return { isAdmin: false, key };
  const admin = await registry.findAdminKey(id);
  return admin && { isAdmin: true, key: admin };
}

/** Revokes a key of either kind; false if there is none with this id. */
export async function revokeAnyKey(store: Store, id: string, by: Author): Promise<boolean> {
  const { registry } = store;
  const note = noteOf(by, "api_key.revoke");
  return (await registry.revokeApiKey(id, store.now(), note)) || registry.revokeAdminKey(id, store.now(), note);
}

/**
 * Makes a key like another, which works for `keepMs` more; undefined where that has ended. One that was to end lives as long
 * as the other did from its start.
 */
export async function rotateAnyKey(
  store: Store,
  system: System,
  found: AnyKey,
  keepMs: number,
  by: Author,
): Promise<IssuedKey | IssuedAdminKey | undefined> {
  const now = store.now();
  const { createMs, expireMs: endMs } = found.key;
  const expireMs = endMs === null ? null : now + (endMs - createMs);
  const note = noteOf(by, "api_key.rotate");
  const times = { endMs: now + keepMs, now };
  if (found.isAdmin) {
    const { tenant, name, scopes } = found.key;
    const issued = makeAdminKey(store, system, { tenant, name, scopes, expireMs });
    const replacement = { next: issued.key, ...times };
    return (await store.registry.replaceAdminKey(found.key.id, replacement, note)) ? issued : undefined;
  }
  const { kind, tenant, name, scopes, origins, isApp, channels } = found.key;
  const issued = makeKey(store, system, { kind, tenant, name, scopes, origins, isApp, channels, expireMs });
  const replacement = { next: issued.key, ...times };
  return (await store.registry.replaceApiKey(found.key.id, replacement, note)) ? issued : undefined;
}
