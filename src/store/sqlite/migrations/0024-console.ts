/**
 * Sign-ins to the console.
 */
import type { Migration } from "../migrate.ts";

export const consoleSignIns: Migration = {
  name: "0024-console",
  sqlite: `
      -- Digests of tokens: whoever has the database has no session of it.
      CREATE TABLE console_links (
        digest BLOB PRIMARY KEY,
        user_name TEXT NOT NULL,
        scopes TEXT NOT NULL,
        tenant TEXT REFERENCES tenants (id),
        expire_ms INTEGER NOT NULL
      ) WITHOUT ROWID;
      CREATE TABLE console_sessions (
        digest BLOB PRIMARY KEY,
        user_name TEXT NOT NULL,
        scopes TEXT NOT NULL,
        tenant TEXT REFERENCES tenants (id),
        proxied INTEGER NOT NULL,
        create_ms INTEGER NOT NULL,
        last_use_ms INTEGER NOT NULL
      ) WITHOUT ROWID;
    `,
};
