/**
 * An index of events by endpoint.
 */
import type { Migration } from "../migrate.ts";

export const eventsByEndpoint: Migration = {
  name: "0009-events-by-endpoint",
  sqlite: `
      -- What is due for one endpoint is found without going through what waits for it.
      CREATE INDEX events_endpoint_due ON events (endpoint_id, due_ms);
    `,
};
