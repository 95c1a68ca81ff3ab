/**
 * Between an entry of the audit and its row, and between an admin key and its.
 */
import { adminScopes, type AdminKey } from "../../otp/keys/admin-key.ts";
import type { AuditEntry } from "../../otp/operators/audit.ts";
import { namesAndTypes, type Columns, type RowOf } from "./values.ts";

const columns = {
  at_ms: "bigint",
  actor: "text",
  actor_tenant: "text",
  address: "text",
  action: "text",
  tenant: "text",
  subject: "text",
  before: "text",
  after: "text",
} as const satisfies Columns;
export const { names: auditColumns } = namesAndTypes(columns);
export type AuditRow = RowOf<typeof columns>;

/** The values in the order of `auditColumns`. */
export function auditValues(entry: AuditEntry): (string | number)[] {
  const { atMs, actor, actorTenant, address, action, tenant, subject, before, after } = entry;
  return [atMs, actor, actorTenant, address, action, tenant, subject, before, after];
}

export function toAuditEntry(row: AuditRow): AuditEntry {
  const { at_ms: atMs, actor_tenant: actorTenant, actor, address, action, tenant, subject, before, after } = row;
  return { atMs, actor, actorTenant, address, action, tenant, subject, before, after };
}

const ofAdminKey = {
  id: "text",
  tenant: "text or null",
  name: "text",
  scopes: "text",
  digest: "bytea",
  create_ms: "bigint",
  expire_ms: "bigint or null",
  revoke_ms: "bigint or null",
  last_use_ms: "bigint or null",
  last_refuse_ms: "bigint or null",
} as const satisfies Columns;
export const { names: adminKeyColumns } = namesAndTypes(ofAdminKey);
export type AdminKeyRow = RowOf<typeof ofAdminKey>;

export function toAdminKey(row: AdminKeyRow): AdminKey {
  const named = row.scopes.split(" ");
  return {
    id: row.id,
    tenant: row.tenant,
    name: row.name,
    scopes: adminScopes.filter((scope) => named.includes(scope)),
    digest: row.digest,
    createMs: row.create_ms,
    expireMs: row.expire_ms,
    revokeMs: row.revoke_ms,
    lastUseMs: row.last_use_ms,
    lastRefuseMs: row.last_refuse_ms,
  };
}

/** The values in the order of `adminKeyColumns`. */
export function adminKeyValues(key: AdminKey): (string | number | Uint8Array | null)[] {
  const { id, tenant, name, digest, createMs, expireMs, revokeMs, lastUseMs, lastRefuseMs } = key;
  return [id, tenant, name, key.scopes.join(" "), digest, createMs, expireMs, revokeMs, lastUseMs, lastRefuseMs];
}
