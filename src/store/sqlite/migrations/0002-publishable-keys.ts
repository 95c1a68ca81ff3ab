/**
 * Publishable keys: the origins that a key lists.
 */
import type { Migration } from "../migrate.ts";

export const publishableKeys: Migration = {
  name: "0002-publishable-keys",
  sqlite: `
      -- Origins are separated by a space, as scopes are.
      ALTER TABLE api_keys ADD COLUMN origins TEXT NOT NULL DEFAULT '';
      ALTER TABLE api_keys ADD COLUMN is_app INTEGER NOT NULL DEFAULT 0;

      -- Every preflight asks whether any active key lists its origin: one seek here, however many keys there are. A key's
      -- rows go when it is revoked, and count until it expires.
      CREATE TABLE key_origins (
        origin TEXT NOT NULL,
        end_ms INTEGER NOT NULL,
        key_id TEXT NOT NULL,
        PRIMARY KEY (origin, end_ms, key_id)
      ) WITHOUT ROWID;
    `,
};
