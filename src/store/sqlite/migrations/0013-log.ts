/**
 * The log of a verification.
 */
import type { Migration } from "../migrate.ts";

export const log: Migration = {
  name: "0013-log",
  sqlite: `
      -- What happened to a verification (rows/verification.ts); NULL in those that were there before.
      ALTER TABLE verifications ADD COLUMN log BLOB;
    `,
};
