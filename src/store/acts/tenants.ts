/**
 * The acts on tenants and their settings.
 */
import { tenantStory } from "../../otp/operators/audit.ts";
import type { Engine } from "../engine.ts";
import type { Tenants } from "../registry.ts";
import { tenantColumns, toTenant, type TenantRow } from "../rows/tenant.ts";
import { noteAudit } from "./audit.ts";
import { list, lock, query, send, type Steps } from "../statement.ts";

const sql = {
  find: { name: "tenant", text: `SELECT ${list(tenantColumns)} FROM tenants WHERE id = $1` },
  after: {
    name: "tenants-after",
    text: `SELECT ${list(tenantColumns)} FROM tenants WHERE revision > $1 ORDER BY revision, id`,
  },
  revision: { name: "tenants-revision", text: `SELECT max(revision) AS revision FROM tenants` },
  count: { name: "tenant-count", text: `SELECT count(*) AS count FROM tenants` },
  put: {
    name: "put-tenant",
    text: `INSERT INTO tenants (id, create_ms, settings, disable_ms, revision)
      VALUES ($1, $2, $3, $4, (SELECT coalesce(max(revision), 0) + 1 FROM tenants))
      ON CONFLICT (id) DO UPDATE
      SET settings = excluded.settings, disable_ms = excluded.disable_ms, revision = excluded.revision`,
    changesRecalled: true,
  },
  revise: {
    name: "revise-tenant",
    text: `UPDATE tenants SET revision = (SELECT max(revision) + 1 FROM tenants) WHERE id = $1`,
    changesRecalled: true,
  },
} as const;

export function tenantActs(engine: Engine): Tenants {
  return {
    async findTenant(id) {
      return (await engine.query<TenantRow>(sql.find, [id])).map(toTenant)[0];
    },
    async listTenants(afterRevision = -1) {
      return (await engine.query<TenantRow>(sql.after, [afterRevision])).map(toTenant);
    },
    async tenantsRevision() {
      return (await engine.recall(sql.revision, undefined, revisionIn)) ?? 0;
    },
    changeTenant: (id, decide, note) =>
      engine.transact(function* () {
        yield* lockTenants();
        const [tenant] = (yield* query<TenantRow>(sql.find, [id])).map(toTenant);
        const [total] = yield* query<{ count: number }>(sql.count);
        const now = engine.now();
        const { keep, result } = decide({ now, tenant, count: total?.count ?? 0 });
        if (keep === undefined) return result;
        yield* send(sql.put, [id, tenant?.createMs ?? now, keep.settings, keep.disableMs]);
        if (note === undefined) return result;
        const before = tenant && tenantStory(tenant);
        yield* noteAudit(engine, note, { tenant: id, subject: id, before, after: tenantStory(keep) });
        return result;
      }),
  };
}

function revisionIn([row]: readonly { readonly revision: number | null }[]): number {
  return row?.revision ?? 0;
}

/** One writer at a time, so that no revision is seen before a lower one. */
export function lockTenants(): Steps<void> {
  return lock("tenants");
}

/** Has servers take up a tenant anew, which is locked. */
export function revise(tenant: string): Steps<void> {
  return send(sql.revise, [tenant]);
}
