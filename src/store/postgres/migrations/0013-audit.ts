/**
 * Keys of operators, and the audit of what they do.
 */
import type { PostgresMigration } from "../migrate.ts";

export const audit: PostgresMigration = {
  name: "0013-audit",
  statements: [
    // Apart from the callers' keys, so that no look-up of a call finds one. Without a tenant it is bound to none.
    `CREATE TABLE admin_keys (
        id text PRIMARY KEY,
        tenant text REFERENCES tenants (id),
        name text NOT NULL,
        scopes text NOT NULL,
        digest bytea NOT NULL,
        create_ms bigint NOT NULL,
        expire_ms bigint,
        revoke_ms bigint,
        last_use_ms bigint
      )`,
    // It is only added to, and deleted by age. What was before and after is JSON, or empty.
    `CREATE TABLE audit (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        at_ms bigint NOT NULL,
        actor text NOT NULL,
        actor_tenant text NOT NULL,
        address text NOT NULL,
        action text NOT NULL,
        tenant text NOT NULL,
        subject text NOT NULL,
        before text NOT NULL,
        after text NOT NULL
      )`,
    `CREATE INDEX audit_at ON audit (at_ms)`,
    `CREATE INDEX audit_tenant ON audit (tenant, id)`,
  ],
};
