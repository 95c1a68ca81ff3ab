/**
 * Sign-ins to the console.
 */
import type { PostgresMigration } from "../migrate.ts";

export const consoleSignIns: PostgresMigration = {
  name: "0015-console",
  statements: [
    // Digests of tokens: whoever has the database has no session of it.
    `CREATE TABLE console_links (
        digest bytea PRIMARY KEY,
        user_name text NOT NULL,
        scopes text NOT NULL,
        tenant text REFERENCES tenants (id),
        expire_ms bigint NOT NULL
      )`,
    `CREATE TABLE console_sessions (
        digest bytea PRIMARY KEY,
        user_name text NOT NULL,
        scopes text NOT NULL,
        tenant text REFERENCES tenants (id),
        proxied smallint NOT NULL,
        create_ms bigint NOT NULL,
        last_use_ms bigint NOT NULL
      )`,
  ],
};
