/**
 * The channel of verifications and messages.
 */
import type { Migration } from "../migrate.ts";

export const channel: Migration = {
  name: "0011-channel",
  sqlite: `
      -- How a verification was asked for, and how a message travels: by SMS, all that were there before.
      ALTER TABLE verifications ADD COLUMN channel INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE messages ADD COLUMN channel INTEGER NOT NULL DEFAULT 0;
    `,
};
