/**
 * What is counted of a tenant's day, a row for each kind.
 */
import type { Migration } from "../migrate.ts";

export const counters: Migration = {
  name: "0012-counters",
  sqlite: `
      -- What is counted of a tenant's day, each kind by itself and in whole numbers: so far the messages.
      CREATE TABLE counters (
        tenant TEXT NOT NULL,
        day INTEGER NOT NULL,
        kind TEXT NOT NULL,
        count INTEGER NOT NULL,
        warned INTEGER NOT NULL,
        warned_cap INTEGER NOT NULL,
        PRIMARY KEY (tenant, day, kind)
      ) WITHOUT ROWID;
      INSERT INTO counters SELECT tenant, day, 'messages', count, warned, warned_cap FROM daily_messages;
      DROP TABLE daily_messages;
    `,
};
