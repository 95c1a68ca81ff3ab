/**
 * By which channels a verification goes on, and when.
 */
import type { PostgresMigration } from "../migrate.ts";

export const fallback: PostgresMigration = {
  name: "0010-fallback",
  // Both NULL for most. What is due is found by its time.
  statements: [
    `ALTER TABLE verifications ADD COLUMN fallback text, ADD COLUMN fallback_ms bigint`,
    `CREATE INDEX verifications_fallback ON verifications (fallback_ms) WHERE fallback_ms IS NOT NULL`,
  ],
};
