/**
 * What a message has taken of its country's cap and of the cap on money.
 */
import type { PostgresMigration } from "../migrate.ts";

export const spending: PostgresMigration = {
  name: "0009-spending",
  // The UTC day of each, as place_day has it for the daily cap, and the millionths of a currency. A version before this one
  // counts neither, and leaves them alone.
  statements: [
    `ALTER TABLE messages ADD COLUMN country_day bigint, ADD COLUMN reserved_day bigint, ADD COLUMN reserved bigint`,
  ],
};
