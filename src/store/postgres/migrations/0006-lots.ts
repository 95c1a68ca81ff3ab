/**
 * The lots that instances have taken of a tenant's day.
 */
import type { PostgresMigration } from "../migrate.ts";

export const lots: PostgresMigration = {
  name: "0006-lots",
  // What instances have taken of a counter in advance: it is in the count, and unused so far.
  statements: [
    `CREATE TABLE counter_lots (
        tenant text NOT NULL,
        day bigint NOT NULL,
        kind text NOT NULL,
        holder text NOT NULL,
        units bigint NOT NULL CONSTRAINT counter_lots_units CHECK (units >= 0),
        PRIMARY KEY (tenant, day, kind, holder)
      ) WITH (fillfactor = 50)`,
  ],
};
