/**
 * Sums by the day beside those by the hour, so that a long period is read from few rows. The database keeps them: whatever is
 * added to an hour is added to its day, by instances of the version before this one too.
 */
import type { PostgresMigration } from "../migrate.ts";

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

export const daySums: PostgresMigration = {
  name: "0019-day-sums",
  statements: [
    `LOCK TABLE sums, refusal_sums IN SHARE ROW EXCLUSIVE MODE`,
    // By the first hour of a day.
    `CREATE TABLE day_sums (
        hour bigint NOT NULL,
        tenant text NOT NULL,
        country text NOT NULL,
        provider text NOT NULL,
        channel smallint NOT NULL,
        currency text NOT NULL,
        ${measures.map((name) => `${name} bigint NOT NULL`).join(", ")},
        PRIMARY KEY (${key.join(", ")})
      )`,
    `INSERT INTO day_sums SELECT hour - hour % 24, ${rest}, ${summed} FROM sums GROUP BY hour - hour % 24, ${rest}`,
    `CREATE FUNCTION follow_sums() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
        IF TG_OP = 'INSERT' THEN
          INSERT INTO day_sums (${columns}) VALUES (${added}) ${onConflict};
        ELSE
          INSERT INTO day_sums (${columns}) VALUES (${changed}) ${onConflict};
        END IF;
        RETURN NULL;
      END $$`,
    `CREATE TRIGGER follow_sums AFTER INSERT OR UPDATE ON sums FOR EACH ROW EXECUTE FUNCTION follow_sums()`,
    `CREATE TABLE refusal_day_sums (
        hour bigint NOT NULL,
        tenant text NOT NULL,
        reason text NOT NULL,
        count bigint NOT NULL,
        PRIMARY KEY (hour, tenant, reason)
      )`,
    `INSERT INTO refusal_day_sums SELECT hour - hour % 24, tenant, reason, sum(count) FROM refusal_sums
        GROUP BY hour - hour % 24, tenant, reason`,
    `CREATE FUNCTION follow_refusals() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
        INSERT INTO refusal_day_sums VALUES (${day}, NEW.tenant, NEW.reason,
          CASE WHEN TG_OP = 'INSERT' THEN NEW.count ELSE NEW.count - OLD.count END) ${onRefusal};
        RETURN NULL;
      END $$`,
    `CREATE TRIGGER follow_refusals AFTER INSERT OR UPDATE ON refusal_sums FOR EACH ROW
        EXECUTE FUNCTION follow_refusals()`,
  ],
};
