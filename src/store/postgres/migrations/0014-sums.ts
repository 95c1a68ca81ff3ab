/**
 * Sums of what verifications came to, by the hour in which they were asked for.
 */
import type { PostgresMigration } from "../migrate.ts";

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

export const sums: PostgresMigration = {
  name: "0014-sums",
  statements: [
    // Hours since the epoch. The cost is in millionths of the currency.
    `CREATE TABLE sums (
        hour bigint NOT NULL,
        tenant text NOT NULL,
        country text NOT NULL,
        provider text NOT NULL,
        channel smallint NOT NULL,
        currency text NOT NULL,
        ${[...counts, ...steps].map((name) => `${name} bigint NOT NULL`).join(", ")},
        PRIMARY KEY (hour, tenant, country, provider, channel, currency)
      )`,
    // How far summing has come: what ended at or before this is in the sums.
    `CREATE TABLE summing (id bigint PRIMARY KEY CHECK (id = 1), end_ms bigint NOT NULL)`,
    `INSERT INTO summing VALUES (1, 0)`,
    // Calls that were refused.
    `CREATE TABLE refusal_sums (
        hour bigint NOT NULL,
        tenant text NOT NULL,
        reason text NOT NULL,
        count bigint NOT NULL,
        PRIMARY KEY (hour, tenant, reason)
      )`,
  ],
};
