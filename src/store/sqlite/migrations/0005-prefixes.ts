/**
 * What the pumping guard knows of prefixes.
 */
import type { Migration } from "../migrate.ts";

export const prefixes: Migration = {
  name: "0005-prefixes",
  sqlite: `
      -- What the pumping guard knows of a prefix, a number without its last four digits, in the clear. No row of a
      -- verification holds it, nor a time as exact as theirs.
      CREATE TABLE prefixes (
        tenant TEXT NOT NULL,
        prefix TEXT NOT NULL,
        phase INTEGER NOT NULL,
        sent INTEGER NOT NULL,
        matured INTEGER NOT NULL,
        verified INTEGER NOT NULL,
        beyond_sent INTEGER NOT NULL,
        beyond_verified INTEGER NOT NULL,
        proven INTEGER NOT NULL,
        trips INTEGER NOT NULL,
        since_ms INTEGER NOT NULL,
        until_ms INTEGER NOT NULL,
        tat_ms INTEGER NOT NULL,
        last_ms INTEGER NOT NULL,
        refused INTEGER NOT NULL,
        refused_first_ms INTEGER NOT NULL,
        refused_last_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant, prefix)
      ) WITHOUT ROWID;

      CREATE TABLE prefix_decisions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        tenant TEXT NOT NULL,
        prefix TEXT NOT NULL,
        kind INTEGER NOT NULL,
        at_ms INTEGER NOT NULL,
        matured INTEGER NOT NULL,
        verified INTEGER NOT NULL,
        refused INTEGER NOT NULL,
        until_ms INTEGER,
        enforced INTEGER NOT NULL
      );
      CREATE INDEX prefix_decisions_prefix ON prefix_decisions (tenant, prefix, id);
      CREATE INDEX prefix_decisions_at ON prefix_decisions (at_ms);

      -- What a verification counts for at its prefix; nothing, for those that were there before.
      ALTER TABLE verifications ADD COLUMN tally INTEGER NOT NULL DEFAULT 0;
    `,
};
