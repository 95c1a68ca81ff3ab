/**
 * The cap that was warned under.
 */
import type { PostgresMigration } from "../migrate.ts";

export const warnedCap: PostgresMigration = {
  name: "0002-warned-cap",
  statements: [`ALTER TABLE daily_messages ADD COLUMN warned_cap bigint NOT NULL DEFAULT 0`],
};
