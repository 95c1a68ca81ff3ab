/**
 * The audit by each of what it is asked for.
 */
import type { Migration } from "../migrate.ts";

export const auditFilters: Migration = {
  name: "0027-audit-filters",
  // No query went by the tenant and the id: pages are in the order of time, and the row's id ends every index.
  sqlite: `
      DROP INDEX audit_tenant;
      CREATE INDEX audit_of_tenant ON audit (tenant, at_ms);
      CREATE INDEX audit_of_actor ON audit (actor, at_ms);
      CREATE INDEX audit_of_action ON audit (action, at_ms);
      CREATE INDEX audit_of_subject ON audit (subject, at_ms);
    `,
};
