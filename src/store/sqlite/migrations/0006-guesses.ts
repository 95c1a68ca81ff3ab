/**
 * Codes compared, by tenant and minute.
 */
import type { Migration } from "../migrate.ts";

export const guesses: Migration = {
  name: "0006-guesses",
  sqlite: `
      -- Codes that were compared, by tenant and by minute since the epoch. Minutes past the window are swept.
      CREATE TABLE guesses (
        tenant TEXT NOT NULL,
        minute INTEGER NOT NULL,
        wrong_codes INTEGER NOT NULL,
        right_codes INTEGER NOT NULL,
        PRIMARY KEY (tenant, minute)
      ) WITHOUT ROWID;
      CREATE INDEX guesses_minute ON guesses (minute);

      -- The master key that a row is found under. It is not to be dropped while the row matters. Of rows from before it
      -- is known where one key wrote them all; the others count as anyone's, and are gone in 90 days.
      ALTER TABLE phones ADD COLUMN kid INTEGER;
      ALTER TABLE buckets ADD COLUMN kid INTEGER;
      UPDATE phones SET kid = (SELECT kid FROM master_keys) WHERE (SELECT count(*) FROM master_keys) = 1;
      UPDATE buckets SET kid = (SELECT kid FROM master_keys) WHERE (SELECT count(*) FROM master_keys) = 1;
    `,
};
