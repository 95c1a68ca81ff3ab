/**
 * The audit by each of what it is asked for.
 */
import type { PostgresMigration } from "../migrate.ts";

export const auditFilters: PostgresMigration = {
  name: "0018-audit-filters",
  // No query went by the tenant and the id: pages are in the order of time. An act of an operator waits while they are made, some
  // seconds at a million entries; calls write none.
  statements: [
    `DROP INDEX audit_tenant`,
    ...["tenant", "actor", "action", "subject"].map(
      (column) => `CREATE INDEX audit_of_${column} ON audit (${column}, at_ms, id)`,
    ),
  ],
};
