/**
 * Sums by the day beside those by the hour, so that a long period is read from few rows. The database keeps them: whatever is
 * added to an hour is added to its day.
 */
import type { Migration } from "../migrate.ts";

const key = ["hour", "tenant", "country", "provider", "channel", "currency"];
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
const measures = [...counts, ...steps];

/** The day of an hour, by its first. */
const day = "NEW.hour - NEW.hour % 24";
const ofDay = key.map((name) => (name === "hour" ? day : `NEW.${name}`));
const adds = measures.map((name) => `${name} = day_sums.${name} + excluded.${name}`);
const onConflict = `ON CONFLICT (${key.join(", ")}) DO UPDATE SET ${adds.join(", ")}`;
const columns = [...key, ...measures].join(", ");
const added = [...ofDay, ...measures.map((name) => `NEW.${name}`)].join(", ");
const changed = [...ofDay, ...measures.map((name) => `NEW.${name} - OLD.${name}`)].join(", ");
const summed = measures.map((name) => `sum(${name})`).join(", ");
const rest = key.slice(1).join(", ");
const onRefusal = `ON CONFLICT (hour, tenant, reason) DO UPDATE SET count = refusal_day_sums.count + excluded.count`;

export const daySums: Migration = {
  name: "0028-day-sums",
  sqlite: `
      -- By the first hour of a day.
      CREATE TABLE day_sums (
        hour INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        country TEXT NOT NULL,
        provider TEXT NOT NULL,
        channel INTEGER NOT NULL,
        currency TEXT NOT NULL,
        ${measures.map((name) => `${name} INTEGER NOT NULL`).join(", ")},
        PRIMARY KEY (${key.join(", ")})
      ) WITHOUT ROWID;
      INSERT INTO day_sums SELECT hour - hour % 24, ${rest}, ${summed} FROM sums GROUP BY hour - hour % 24, ${rest};
      CREATE TRIGGER follow_new_sums AFTER INSERT ON sums BEGIN
        INSERT INTO day_sums (${columns}) VALUES (${added}) ${onConflict};
      END;
      CREATE TRIGGER follow_sums AFTER UPDATE ON sums BEGIN
        INSERT INTO day_sums (${columns}) VALUES (${changed}) ${onConflict};
      END;
      CREATE TABLE refusal_day_sums (
        hour INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        reason TEXT NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (hour, tenant, reason)
      ) WITHOUT ROWID;
      INSERT INTO refusal_day_sums SELECT hour - hour % 24, tenant, reason, sum(count) FROM refusal_sums
        GROUP BY hour - hour % 24, tenant, reason;
      CREATE TRIGGER follow_new_refusals AFTER INSERT ON refusal_sums BEGIN
        INSERT INTO refusal_day_sums VALUES (${day}, NEW.tenant, NEW.reason, NEW.count) ${onRefusal};
      END;
      CREATE TRIGGER follow_refusals AFTER UPDATE ON refusal_sums BEGIN
        INSERT INTO refusal_day_sums VALUES (${day}, NEW.tenant, NEW.reason, NEW.count - OLD.count) ${onRefusal};
      END;
    `,
};
