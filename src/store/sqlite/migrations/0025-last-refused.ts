/**
 * When a key was last tried in vain.
 */
import type { Migration } from "../migrate.ts";

export const lastRefused: Migration = {
  name: "0025-last-refused",
  sqlite: `
      -- When somebody last called with it after it was revoked or had ended, to the minute.
      ALTER TABLE api_keys ADD COLUMN last_refuse_ms INTEGER;
      ALTER TABLE admin_keys ADD COLUMN last_refuse_ms INTEGER;
    `,
};
