/**
 * Between an API key and its row.
 */
import { keyKinds, scopes, type ApiKey, type Scope } from "../../otp/keys/api-key.ts";
import { channels } from "../../otp/channel.ts";
import { at, namesAndTypes, type Columns, type RowOf } from "./values.ts";

const columns = {
  id: "text",
  kind: "text",
  tenant: "text",
  name: "text",
  scopes: "text",
  origins: "text",
  is_app: "bigint",
  channels: "text",
  digest: "bytea",
  create_ms: "bigint",
  expire_ms: "bigint or null",
  revoke_ms: "bigint or null",
  last_use_ms: "bigint or null",
  last_refuse_ms: "bigint or null",
} as const satisfies Columns;
export const { names: apiKeyColumns } = namesAndTypes(columns);
export type ApiKeyRow = RowOf<typeof columns>;

export function toApiKey(row: ApiKeyRow): ApiKey {
  const named = new Set(row.scopes.split(" "));
  return {
    id: row.id,
    // Not taken for some other kind: every kind may do what another may not.
    kind: at(keyKinds, keyKinds.indexOf(row.kind as ApiKey["kind"])),
    tenant: row.tenant,
    name: row.name,
    scopes: scopes.filter((scope: Scope) => named.has(scope)),
    origins: row.origins === "" ? [] : row.origins.split(" "),
    isApp: row.is_app === 1,
    channels: channels.filter((channel) => row.channels.split(" ").includes(channel)),
    digest: row.digest,
    createMs: row.create_ms,
    expireMs: row.expire_ms,
    revokeMs: row.revoke_ms,
    lastUseMs: row.last_use_ms,
    lastRefuseMs: row.last_refuse_ms,
  };
}

/** The values in the order of `apiKeyColumns`. */
export function apiKeyValues(key: ApiKey): (string | number | Uint8Array | null)[] {
  const { id, kind, tenant, name, digest, createMs, expireMs, revokeMs, lastUseMs, lastRefuseMs } = key;
  const [granted, listed, named] = [key.scopes.join(" "), key.origins.join(" "), key.channels.join(" ")];
  const rights = [granted, listed, key.isApp ? 1 : 0, named];
  return [id, kind, tenant, name, ...rights, digest, createMs, expireMs, revokeMs, lastUseMs, lastRefuseMs];
}

/** When the origins of a key that does not expire end. */
export const neverMs = Number.MAX_SAFE_INTEGER;
