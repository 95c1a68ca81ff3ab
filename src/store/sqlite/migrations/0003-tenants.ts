/**
 * What a tenant has set, and what changes with it.
 */
import type { Migration } from "../migrate.ts";

export const tenants: Migration = {
  name: "0003-tenants",
  sqlite: `
      -- What a tenant has of its own, as a JSON object, and since when it is disabled, if it is.
      ALTER TABLE tenants ADD COLUMN settings TEXT NOT NULL DEFAULT '{}';
      ALTER TABLE tenants ADD COLUMN disable_ms INTEGER;
      -- Grows with every write to any tenant, so that one look tells a server whether it has to read them again.
      ALTER TABLE tenants ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
      CREATE INDEX tenants_revision ON tenants (revision);
    `,
};
