/**
 * The acts on tenants' lists of destinations.
 */
import type { Engine } from "../engine.ts";
import type { Destinations } from "../registry.ts";
import { destinationColumns, toDestination, type DestinationRow } from "../rows/tenant.ts";
import { list } from "../statement.ts";

const sql = {
  /** Nothing is added for a tenant that there is not. */
  put: {
    name: "put-destination",
    text: `INSERT INTO destinations (tenant, prefix, verdict, note, create_ms)
      SELECT id, $1, $2, $3, CAST($4 AS bigint) FROM tenants WHERE id = $5
      ON CONFLICT (tenant, prefix) DO UPDATE
      SET verdict = excluded.verdict, note = excluded.note, create_ms = excluded.create_ms RETURNING prefix`,
    changesRecalled: true,
  },
  delete: {
    name: "delete-destination",
    text: `DELETE FROM destinations WHERE tenant = $1 AND prefix = $2 RETURNING prefix`,
    changesRecalled: true,
  },
  all: {
    name: "destinations",
    text: `SELECT ${list(destinationColumns)} FROM destinations WHERE tenant = $1 ORDER BY prefix`,
  },
} as const;

export function destinationActs(engine: Engine): Destinations {
  return {
    async putDestination({ tenant, prefix, verdict, note, createMs }) {
      return (await engine.write(sql.put, [prefix, verdict, note, createMs, tenant])).length === 1;
    },
    async removeDestination(tenant, prefix) {
      return (await engine.write(sql.delete, [tenant, prefix])).length === 1;
    },
    async listDestinations(tenant) {
      return (await engine.query<DestinationRow>(sql.all, [tenant])).map(toDestination);
    },
    findDestination: (tenant, e164) => engine.findDestination(tenant, e164),
  };
}
