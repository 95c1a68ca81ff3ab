/**
 * The named limits that come back should nothing of a verification leave.
 */
import type { Migration } from "../migrate.ts";

export const spentLimits: Migration = {
  name: "0021-spent-limits",
  sqlite: `
      -- NULL for most, and for all once a message may have left.
      ALTER TABLE verifications ADD COLUMN spent_limits TEXT;
    `,
};
