/**
 * The cap that was warned under.
 */
import type { Migration } from "../migrate.ts";

export const warnedCap: Migration = {
  name: "0010-warned-cap",
  sqlite: `
      -- The highest cap that was warned under: one that is raised is warned of again.
      ALTER TABLE daily_messages ADD COLUMN warned_cap INTEGER NOT NULL DEFAULT 0;
    `,
};
