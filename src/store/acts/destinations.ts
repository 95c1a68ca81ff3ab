/**
 * The acts on tenants' lists of destinations.
 */
import { destinationStory, type Story } from "../../otp/operators/audit.ts";
import type { Engine } from "../engine.ts";
import type { Destinations } from "../registry.ts";
import { destinationColumns, toDestination, type DestinationRow } from "../rows/tenant.ts";
import { list, query, type Steps } from "../statement.ts";
import { noteAudit } from "./audit.ts";

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
    text: `DELETE FROM destinations WHERE tenant = $1 AND prefix = $2 AND ($3 = '' OR verdict = $3)
      RETURNING prefix`,
    changesRecalled: true,
  },
  locked: {
    name: "lock-destination",
    text: `SELECT ${list(destinationColumns)} FROM destinations WHERE tenant = $1 AND prefix = $2`,
    locksRows: true,
  },
  all: {
    name: "destinations",
    text: `SELECT ${list(destinationColumns)} FROM destinations WHERE tenant = $1 ORDER BY prefix`,
  },
} as const;

function* storyOf(tenant: string, prefix: string): Steps<Story | undefined> {
  const [row] = yield* query<DestinationRow>(sql.locked, [tenant, prefix]);
  return row === undefined ? undefined : destinationStory(toDestination(row));
}

export function destinationActs(engine: Engine): Destinations {
  return {
    putDestination: (entry, by) =>
      engine.transact(function* () {
        const { tenant, prefix, verdict, note, createMs } = entry;
        const before = yield* storyOf(tenant, prefix);
        const put = yield* query(sql.put, [prefix, verdict, note, createMs, tenant]);
        if (put.length !== 1) return false;
        yield* noteAudit(engine, by, { tenant, subject: by?.subject ?? "", before, after: destinationStory(entry) });
        return true;
      }),
    removeDestination: (tenant, prefix, by, only) =>
      engine.transact(function* () {
        const before = yield* storyOf(tenant, prefix);
        if ((yield* query(sql.delete, [tenant, prefix, only ?? ""])).length !== 1) return false;
        yield* noteAudit(engine, by, { tenant, subject: by?.subject ?? "", before });
        return true;
      }),
    async listDestinations(tenant) {
      return (await engine.query<DestinationRow>(sql.all, [tenant])).map(toDestination);
    },
    findDestination: (tenant, e164) => engine.findDestination(tenant, e164),
  };
}
