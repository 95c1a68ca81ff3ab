/**
 * The operator's lists of destinations.
 */
import type { Migration } from "../migrate.ts";

export const destinations: Migration = {
  name: "0004-destinations",
  sqlite: `
      -- The operator's lists: what a prefix or a whole number is told, before anything is spent on it.
      CREATE TABLE destinations (
        tenant TEXT NOT NULL REFERENCES tenants (id),
        prefix TEXT NOT NULL,
        verdict TEXT NOT NULL CHECK (verdict IN ('block', 'allow')),
        note TEXT NOT NULL,
        create_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant, prefix)
      ) WITHOUT ROWID;

      -- Messages of a tenant in a UTC day (its number since the epoch), and the share of the cap that was warned of.
      CREATE TABLE daily_messages (
        tenant TEXT NOT NULL,
        day INTEGER NOT NULL,
        count INTEGER NOT NULL,
        warned INTEGER NOT NULL,
        PRIMARY KEY (tenant, day)
      ) WITHOUT ROWID;
      -- The day of which a message has a place that no call has used up yet.
      ALTER TABLE messages ADD COLUMN place_day INTEGER;
    `,
};
