/**
 * Keys of operators, and the audit of what they do.
 */
import type { Migration } from "../migrate.ts";

export const audit: Migration = {
  name: "0022-audit",
  sqlite: `
      -- Apart from the callers' keys, so that no look-up of a call finds one. Without a tenant it is bound to none.
      CREATE TABLE admin_keys (
        id TEXT PRIMARY KEY,
        tenant TEXT REFERENCES tenants (id),
        name TEXT NOT NULL,
        scopes TEXT NOT NULL,
        digest BLOB NOT NULL,
        create_ms INTEGER NOT NULL,
        expire_ms INTEGER,
        revoke_ms INTEGER,
        last_use_ms INTEGER
      ) WITHOUT ROWID;

      -- It is only added to, and deleted by age. What was before and after is JSON, or empty.
      CREATE TABLE audit (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at_ms INTEGER NOT NULL,
        actor TEXT NOT NULL,
        actor_tenant TEXT NOT NULL,
        address TEXT NOT NULL,
        action TEXT NOT NULL,
        tenant TEXT NOT NULL,
        subject TEXT NOT NULL,
        before TEXT NOT NULL,
        after TEXT NOT NULL
      );
      CREATE INDEX audit_at ON audit (at_ms);
      CREATE INDEX audit_tenant ON audit (tenant, id);
    `,
};
