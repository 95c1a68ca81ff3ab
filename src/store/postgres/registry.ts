/**
 * The registry on PostgreSQL: what operators write. Each is a statement by itself.
 */
import type { ApiKey } from "../../otp/api-key.ts";
import { prefixesOf } from "../../otp/destination.ts";
import type { Instant } from "../../system.ts";
import type { Connections, Statement, Transaction } from "./connections.ts";
import { judgeMasterKeys, type Registry } from "../registry.ts";
import { tenantColumns, toDestination, toTenant, type DestinationRow, type TenantRow } from "../rows/tenant.ts";
import { neverMs, toApiKey, type ApiKeyRow } from "../rows/api-key.ts";

const keyColumns =
  "id, kind, tenant, name, scopes, origins, is_app, digest, create_ms, expire_ms, revoke_ms, last_use_ms";
const tenantList = tenantColumns.join(", ");
const statement = (name: string, text: string): Statement => ({ name, text });

const sql = {
  apiKey: statement("api-key", `SELECT ${keyColumns} FROM api_keys WHERE id = $1`),
  apiKeys: statement("api-keys", `SELECT ${keyColumns} FROM api_keys ORDER BY create_ms, id`),
  insertApiKey: statement(
    "insert-api-key",
    `INSERT INTO api_keys (id, kind, tenant, name, scopes, origins, is_app, digest, create_ms, expire_ms)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
  ),
  insertKeyOrigins: statement(
    "insert-key-origins",
    `INSERT INTO key_origins (origin, end_ms, key_id) SELECT origin, $2::bigint, $3::text FROM unnest($1::text[]) AS origin`,
  ),
  /** One adds first keys at a time; none is added meanwhile. Readers go on. */
  lockApiKeys: statement("lock-api-keys", `LOCK TABLE api_keys IN SHARE ROW EXCLUSIVE MODE`),
  anyApiKey: statement("any-api-key", `SELECT 1 FROM api_keys LIMIT 1`),
  deleteKeyOrigins: statement("delete-key-origins", `DELETE FROM key_origins WHERE key_id = $1`),
  listsOrigin: statement("lists-origin", `SELECT 1 FROM key_origins WHERE origin = $1 AND end_ms > $2 LIMIT 1`),
  revokeApiKey: statement(
    "revoke-api-key",
    `UPDATE api_keys SET revoke_ms = coalesce(revoke_ms, $1) WHERE id = $2 RETURNING id`,
  ),
  touchApiKey: statement("touch-api-key", `UPDATE api_keys SET last_use_ms = $1 WHERE id = $2`),
  putDestination: statement(
    "put-destination",
    `INSERT INTO destinations (tenant, prefix, verdict, note, create_ms)
     SELECT id, $1, $2, $3, $4::bigint FROM tenants WHERE id = $5
     ON CONFLICT (tenant, prefix) DO UPDATE
     SET verdict = excluded.verdict, note = excluded.note, create_ms = excluded.create_ms RETURNING prefix`,
  ),
  deleteDestination: statement(
    "delete-destination",
    `DELETE FROM destinations WHERE tenant = $1 AND prefix = $2 RETURNING prefix`,
  ),
  destinations: statement(
    "destinations",
    `SELECT tenant, prefix, verdict, note, create_ms FROM destinations WHERE tenant = $1 ORDER BY prefix`,
  ),
  longestDestination: statement(
    "longest-destination",
    `SELECT tenant, prefix, verdict, note, create_ms FROM destinations
     WHERE tenant = $1 AND prefix = ANY($2::text[]) ORDER BY length(prefix) DESC LIMIT 1`,
  ),
  tenant: statement("tenant", `SELECT ${tenantList} FROM tenants WHERE id = $1`),
  tenantsAfter: statement(
    "tenants-after",
    `SELECT ${tenantList} FROM tenants WHERE revision > $1 ORDER BY revision, id`,
  ),
  tenantsRevision: statement("tenants-revision", `SELECT max(revision) AS revision FROM tenants`),
  tenantCount: statement("tenant-count", `SELECT count(*) AS count FROM tenants`),
  /** One writer at a time, so that no revision is seen before a lower one. Readers go on. */
  lockTenants: statement("lock-tenants", `LOCK TABLE tenants IN SHARE ROW EXCLUSIVE MODE`),
  putTenant: statement(
    "put-tenant",
    `INSERT INTO tenants (id, create_ms, settings, disable_ms, revision)
     VALUES ($1, $2, $3, $4, (SELECT coalesce(max(revision), 0) + 1 FROM tenants))
     ON CONFLICT (id) DO UPDATE SET settings = excluded.settings, disable_ms = excluded.disable_ms, revision = excluded.revision`,
  ),
  lockMasterKeys: statement("lock-master-keys", `LOCK TABLE master_keys IN EXCLUSIVE MODE`),
  masterKeys: statement("master-keys", `SELECT kid, key_check FROM master_keys`),
  // Rows from before they bore a key's id may be any key's.
  usedMasterKeys: statement(
    "used-master-keys",
    `SELECT kid FROM master_keys AS k WHERE EXISTS (SELECT 1 FROM verifications AS v WHERE v.kid = k.kid)
       OR EXISTS (SELECT 1 FROM phones AS p WHERE p.kid = k.kid OR p.kid IS NULL)
       OR EXISTS (SELECT 1 FROM buckets AS b WHERE (b.kid = k.kid OR b.kid IS NULL) AND b.tat_ms > $1)
       OR EXISTS (SELECT 1 FROM webhook_endpoints AS w WHERE w.kid = k.kid)
       OR EXISTS (SELECT 1 FROM events AS e WHERE e.kid = k.kid)`,
  ),
  putMasterKey: statement(
    "put-master-key",
    `INSERT INTO master_keys (kid, key_check, create_ms) VALUES ($1, $2, $3) ON CONFLICT (kid) DO NOTHING`,
  ),
  deleteMasterKey: statement("delete-master-key", `DELETE FROM master_keys WHERE kid = $1`),
};

async function addApiKey(transaction: Transaction, key: ApiKey): Promise<void> {
  const { id, kind, tenant, name, scopes, origins, isApp, digest, createMs, expireMs } = key;
  const [granted, listed] = [scopes.join(" "), origins.join(" ")];
  const values = [id, kind, tenant, name, granted, listed, isApp ? 1 : 0, digest, createMs, expireMs];
  await transaction.query(sql.insertApiKey, values);
  transaction.send(sql.insertKeyOrigins, [origins, expireMs ?? neverMs, id]);
}

export function createPostgresRegistry(connections: Connections, clock: { now(): Instant }): Registry {
  return {
    async findApiKey(id) {
      const [row] = await connections.query<ApiKeyRow>(sql.apiKey, [id]);
      return row === undefined ? undefined : toApiKey(row);
    },
    addApiKey: (key) => connections.transact((transaction) => addApiKey(transaction, key)),
    addFirstApiKeys(keys) {
      return connections.transact(async (transaction) => {
        transaction.send(sql.lockApiKeys, []);
        if ((await transaction.query(sql.anyApiKey, [])).length > 0) return false;
        for (const key of keys) await addApiKey(transaction, key);
        return true;
      });
    },
    async listApiKeys() {
      return (await connections.query<ApiKeyRow>(sql.apiKeys, [])).map(toApiKey);
    },
    async revokeApiKey(id, now) {
      return connections.transact(async (transaction) => {
        transaction.send(sql.deleteKeyOrigins, [id]);
        return (await transaction.query(sql.revokeApiKey, [now, id])).length === 1;
      });
    },
    async listsOrigin(origin, now) {
      return (await connections.query(sql.listsOrigin, [origin, now])).length === 1;
    },
    async touchApiKey(id, now) {
      await connections.query(sql.touchApiKey, [now, id]);
    },
    async putDestination({ tenant, prefix, verdict, note, createMs }) {
      return (await connections.query(sql.putDestination, [prefix, verdict, note, createMs, tenant])).length === 1;
    },
    async removeDestination(tenant, prefix) {
      return (await connections.query(sql.deleteDestination, [tenant, prefix])).length === 1;
    },
    async listDestinations(tenant) {
      return (await connections.query<DestinationRow>(sql.destinations, [tenant])).map(toDestination);
    },
    async findDestination(tenant, e164) {
      const [row] = await connections.query<DestinationRow>(sql.longestDestination, [tenant, prefixesOf(e164)]);
      return row === undefined ? undefined : toDestination(row);
    },
    async findTenant(id) {
      const [row] = await connections.query<TenantRow>(sql.tenant, [id]);
      return row === undefined ? undefined : toTenant(row);
    },
    async listTenants(afterRevision) {
      return (await connections.query<TenantRow>(sql.tenantsAfter, [afterRevision])).map(toTenant);
    },
    async tenantsRevision() {
      const [row] = await connections.query<{ revision: number | null }>(sql.tenantsRevision, []);
      return row?.revision ?? 0;
    },
    changeTenant(id, decide) {
      return connections.transact(async (transaction) => {
        transaction.send(sql.lockTenants, []);
        const [[row], [total]] = await Promise.all([
          transaction.query<TenantRow>(sql.tenant, [id]),
          transaction.query<{ count: number }>(sql.tenantCount, []),
        ]);
        const tenant = row === undefined ? undefined : toTenant(row);
        const now = clock.now();
        const { keep, result } = decide({ now, tenant, count: total?.count ?? 0 });
        if (keep !== undefined)
          transaction.send(sql.putTenant, [id, tenant?.createMs ?? now, keep.settings, keep.disableMs]);
        return result;
      });
    },
    admitMasterKeys(keys) {
      return connections.transact(async (transaction) => {
        transaction.send(sql.lockMasterKeys, []);
        const known = await transaction.query<{ kid: number; key_check: Uint8Array }>(sql.masterKeys, []);
        const used = await transaction.query<{ kid: number }>(sql.usedMasterKeys, [clock.now()]);
        const kept = new Set(used.map(({ kid }) => kid));
        const unneeded = judgeMasterKeys(keys, known, (kid) => kept.has(kid));
        for (const kid of unneeded) transaction.send(sql.deleteMasterKey, [kid]);
        for (const { kid, check } of keys.slice(0, 1)) transaction.send(sql.putMasterKey, [kid, check, clock.now()]);
      });
    },
  };
}
