/**
 * The channels that a publishable key may use.
 */
import type { Migration } from "../migrate.ts";

export const keyChannels: Migration = {
  name: "0016-key-channels",
  sqlite: `
      -- Separated by spaces. Without effect on a secret key.
      ALTER TABLE api_keys ADD COLUMN channels TEXT NOT NULL DEFAULT 'sms';
    `,
};
