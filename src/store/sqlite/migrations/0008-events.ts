/**
 * Webhook endpoints, and the events that they have not taken yet.
 */
import type { Migration } from "../migrate.ts";

export const events: Migration = {
  name: "0008-events",
  sqlite: `
      -- Where tenants want to be told of what happens. Secrets are encrypted, all of an endpoint under one master key.
      CREATE TABLE webhook_endpoints (
        id TEXT PRIMARY KEY,
        tenant TEXT NOT NULL REFERENCES tenants (id),
        url TEXT NOT NULL,
        types TEXT NOT NULL,
        show_phones INTEGER NOT NULL,
        kid INTEGER NOT NULL,
        secrets TEXT NOT NULL,
        create_ms INTEGER NOT NULL,
        disable_ms INTEGER,
        why TEXT,
        failing_since_ms INTEGER
      ) WITHOUT ROWID;
      CREATE INDEX webhook_endpoints_tenant ON webhook_endpoints (tenant);

      -- Events that an endpoint has not taken yet: a row for each of the two. Deleted once taken or given up.
      CREATE TABLE events (
        endpoint_id TEXT NOT NULL,
        id TEXT NOT NULL,
        tenant TEXT NOT NULL,
        type TEXT NOT NULL,
        create_ms INTEGER NOT NULL,
        facts TEXT NOT NULL,
        kid INTEGER,
        phone_box BLOB,
        tries INTEGER NOT NULL,
        due_ms INTEGER NOT NULL,
        PRIMARY KEY (endpoint_id, id)
      );
      CREATE INDEX events_due ON events (due_ms);
    `,
};
