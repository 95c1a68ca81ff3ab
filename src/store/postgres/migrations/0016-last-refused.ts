/**
 * When a key was last tried in vain.
 */
import type { PostgresMigration } from "../migrate.ts";

export const lastRefused: PostgresMigration = {
  name: "0016-last-refused",
  // When somebody last called with it after it was revoked or had ended, to the minute. A version before this one neither
  // reads nor writes it.
  statements: [
    `ALTER TABLE api_keys ADD COLUMN last_refuse_ms bigint`,
    `ALTER TABLE admin_keys ADD COLUMN last_refuse_ms bigint`,
  ],
};
