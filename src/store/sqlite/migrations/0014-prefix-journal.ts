/**
 * The journal of changed prefixes.
 */
import type { Migration } from "../migrate.ts";

export const prefixJournal: Migration = {
  name: "0014-prefix-journal",
  sqlite: `
      -- Prefixes as a batch has changed them (rows/prefix.ts), until their rows are brought up to date.
      CREATE TABLE prefix_journal (id INTEGER PRIMARY KEY, prefixes BLOB NOT NULL);
    `,
};
