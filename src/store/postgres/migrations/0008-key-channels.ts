/**
 * The channels that a publishable key may use.
 */
import type { PostgresMigration } from "../migrate.ts";

export const keyChannels: PostgresMigration = {
  name: "0008-key-channels",
  // Separated by spaces. A version before this one makes keys for SMS alone.
  statements: [`ALTER TABLE api_keys ADD COLUMN channels text NOT NULL DEFAULT 'sms'`],
};
