/**
 * The log of a verification.
 */
import type { PostgresMigration } from "../migrate.ts";

export const log: PostgresMigration = {
  name: "0004-log",
  // What happened to a verification (rows/verification.ts); NULL in rows that an earlier version writes.
  statements: [`ALTER TABLE verifications ADD COLUMN log bytea`],
};
