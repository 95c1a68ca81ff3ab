/**
 * The named limits that come back should nothing of a verification leave.
 */
import type { PostgresMigration } from "../migrate.ts";

export const spentLimits: PostgresMigration = {
  name: "0011-spent-limits",
  // NULL for most, and for all once a message may have left.
  statements: [`ALTER TABLE verifications ADD COLUMN spent_limits text`],
};
