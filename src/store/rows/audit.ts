/**
 * Between an entry of the audit and its row, and between an admin key and its.
 */
import { adminScopes, type AdminKey } from "../../otp/admin-key.ts";
import type { AuditEntry } from "../../otp/audit.ts";

export interface AuditRow {
  at_ms: number;
  actor: string;
  actor_tenant: string;
  address: string;
  action: string;
  tenant: string;
  subject: string;
  before: string;
  after: string;
}

export const auditColumns = [
  "at_ms",
  "actor",
  "actor_tenant",
  "address",
  "action",
  "tenant",
  "subject",
  "before",
  "after",
] as const satisfies (keyof AuditRow)[];

/** The values in the order of `auditColumns`. */
export function auditValues(entry: AuditEntry): (string | number)[] {
  const { atMs, actor, actorTenant, address, action, tenant, subject, before, after } = entry;
  return [atMs, actor, actorTenant, address, action, tenant, subject, before, after];
}

export function toAuditEntry(row: AuditRow): AuditEntry {
  const { at_ms: atMs, actor_tenant: actorTenant, actor, address, action, tenant, subject, before, after } = row;
  return { atMs, actor, actorTenant, address, action, tenant, subject, before, after };
}

export interface AdminKeyRow {
  id: string;
  tenant: string | null;
  name: string;
  scopes: string;
  digest: Uint8Array;
  create_ms: number;
  expire_ms: number | null;
  revoke_ms: number | null;
  last_use_ms: number | null;
  last_refuse_ms: number | null;
}

export const adminKeyColumns = [
  "id",
  "tenant",
  "name",
  "scopes",
  "digest",
  "create_ms",
  "expire_ms",
  "revoke_ms",
  "last_use_ms",
  "last_refuse_ms",
] as const satisfies (keyof AdminKeyRow)[];

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
