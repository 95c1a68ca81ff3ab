/**
 * By which channels a verification goes on, and when.
 */
import type { Migration } from "../migrate.ts";

export const fallback: Migration = {
  name: "0020-fallback",
  sqlite: `
      -- Both NULL for most. What is due is found by its time.
      ALTER TABLE verifications ADD COLUMN fallback TEXT;
      ALTER TABLE verifications ADD COLUMN fallback_ms INTEGER;
      CREATE INDEX verifications_fallback ON verifications (fallback_ms) WHERE fallback_ms IS NOT NULL;
    `,
};
