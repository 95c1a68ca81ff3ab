/**
 * The channel of verifications and messages.
 */
import type { PostgresMigration } from "../migrate.ts";

export const channel: PostgresMigration = {
  name: "0003-channel",
  // How a verification was asked for and a message travels: by SMS, whatever a version before this one writes.
  statements: [
    `ALTER TABLE verifications ADD COLUMN channel smallint NOT NULL DEFAULT 0`,
    `ALTER TABLE messages ADD COLUMN channel smallint NOT NULL DEFAULT 0`,
  ],
};
