/**
 * Sums of what verifications came to, by the hour in which they were asked for.
 */
import type { Migration } from "../migrate.ts";

const counts = [
  "asked",
  "messages",
  "segments",
  "delivered",
  "undelivered",
  "verified",
  "expired",
  "locked",
  "canceled",
  "failed",
  "cost",
];
/** Of the histogram of the time to verify. */
const steps = Array.from({ length: 25 }, (_, i) => `step_${i}`);

export const sums: Migration = {
  name: "0023-sums",
  sqlite: `
      -- Hours since the epoch. The cost is in millionths of the currency.
      CREATE TABLE sums (
        hour INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        country TEXT NOT NULL,
        provider TEXT NOT NULL,
        channel INTEGER NOT NULL,
        currency TEXT NOT NULL,
        ${[...counts, ...steps].map((name) => `${name} INTEGER NOT NULL`).join(", ")},
        PRIMARY KEY (hour, tenant, country, provider, channel, currency)
      ) WITHOUT ROWID;
      -- How far summing has come: what ended at or before this is in the sums.
      CREATE TABLE summing (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        end_ms INTEGER NOT NULL
      );
      INSERT INTO summing VALUES (1, 0);
      -- Calls that were refused.
      CREATE TABLE refusal_sums (
        hour INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        reason TEXT NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (hour, tenant, reason)
      ) WITHOUT ROWID;
    `,
};
