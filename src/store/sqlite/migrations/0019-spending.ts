/**
 * What a message has taken of its country's cap and of the cap on money.
 */
import type { Migration } from "../migrate.ts";

export const spending: Migration = {
  name: "0019-spending",
  sqlite: `
      -- The UTC day of each, as place_day has it for the daily cap, and the millionths of a currency.
      ALTER TABLE messages ADD COLUMN country_day INTEGER;
      ALTER TABLE messages ADD COLUMN reserved_day INTEGER;
      ALTER TABLE messages ADD COLUMN reserved INTEGER;
    `,
};
