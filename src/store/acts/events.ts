/**
 * The acts on events that wait to be posted. Each is written by the act that it tells of (`UnitOfWork.owe`).
 */
import { eventLeaseMs } from "../../otp/operators/endpoint.ts";
import { withNote } from "../../otp/verification/verification.ts";
import type { Engine } from "../engine.ts";
import type { Events } from "../events.ts";
import { endpointColumns, toEndpoint, toEventJob, type EndpointRow, type EventRow } from "../rows/event.ts";
import { changeVerification, list, query, queryEach, send, type Steps } from "../statement.ts";
import { lockEndpoint, putEndpoint } from "./endpoints.ts";
import { lockTenants, revise } from "./tenants.ts";

/** 1, or 0 for an event of a test key. */
const isOfLiveKey = `CASE WHEN facts LIKE '%"test":true%' THEN 0 ELSE 1 END`;

const sql = {
  /** Neither it nor its tenant is disabled. */
  enabledEndpoint: {
    name: "enabled-endpoint",
    text: `SELECT ${list(endpointColumns)} FROM webhook_endpoints AS e WHERE id = $1 AND disable_ms IS NULL
      AND EXISTS (SELECT 1 FROM tenants AS t WHERE t.id = e.tenant AND t.disable_ms IS NULL)`,
  },
  /** An event, if it is claimed by the very claim whose lease ends then. */
  claimed: {
    name: "claimed-event",
    text: `SELECT id FROM events WHERE endpoint_id = $1 AND id = $2 AND due_ms = $3`,
    locksRows: true,
  },
  putDue: {
    name: "put-event-due",
    text: `UPDATE events SET tries = $3, due_ms = $4 WHERE endpoint_id = $1 AND id = $2`,
  },
  release: {
    name: "release-event",
    text: `UPDATE events SET due_ms = $4 WHERE endpoint_id = $1 AND id = $2 AND due_ms = $3`,
  },
  delete: { name: "delete-event", text: `DELETE FROM events WHERE endpoint_id = $1 AND id = $2` },
  nextDue: { name: "next-event-due", text: `SELECT min(due_ms) AS due FROM events` },
  count: {
    name: "count-events",
    text: `SELECT count(*) AS count FROM (SELECT 1 FROM events LIMIT $1) AS waiting`,
  },
  longBacklogs: {
    name: "long-backlogs",
    text: `SELECT endpoint_id AS id FROM events GROUP BY endpoint_id HAVING count(*) > $1`,
  },
  /** Those of test keys go first, and then the oldest. Counted anew, since another instance may have cut it meanwhile. */
  trim: {
    name: "trim-events",
    text: `WITH beyond AS (SELECT count(*) - $2 AS count FROM events WHERE endpoint_id = $1)
      DELETE FROM events WHERE endpoint_id = $1 AND id IN (
        SELECT id FROM events WHERE endpoint_id = $1 ORDER BY ${isOfLiveKey}, create_ms, id DESC
        LIMIT (SELECT CASE WHEN count < 0 THEN 0 WHEN count < $3 THEN count ELSE $3 END FROM beyond)
      ) RETURNING ${isOfLiveKey} AS live`,
  },
} as const;

export function eventActs(engine: Engine): Events {
  const transact = <T>(steps: () => Steps<T>) => engine.inTurn(() => engine.transact(steps));
  async function countEvents(max: number): Promise<number> {
    const [row] = await engine.query<{ count: number }>(sql.count, [max]);
    return row?.count ?? 0;
  }
  return {
    countEvents,
    claimEvents: ({ max, perEndpointMax, busy }) =>
      transact(function* () {
        const now = engine.now();
        const values = [now, perEndpointMax, JSON.stringify(busy), max];
        const due = yield* query<EventRow>(engine.dueEvents, values);
        const ids = [...new Set(due.map((row) => row.endpoint_id))];
        const enabled = yield* queryEach<EndpointRow>(
          sql.enabledEndpoint,
          ids.map((id) => [id]),
        );
        const endpoints = new Map(enabled.map((row) => [row.id, toEndpoint(row)]));
        const leaseEndMs = now + eventLeaseMs;
        const jobs = due.flatMap((row) => {
          const endpoint = endpoints.get(row.endpoint_id);
          return endpoint === undefined ? [] : [toEventJob(row, endpoint, leaseEndMs)];
        });
        const dropped = due.filter((row) => !endpoints.has(row.endpoint_id));
        yield* send(sql.delete, ...dropped.map((row) => [row.endpoint_id, row.id]));
        yield* send(
          sql.putDue,
          ...jobs.map(({ endpoint, event, tries }) => [endpoint.id, event.id, tries, leaseEndMs]),
        );
        return jobs;
      }),
    recordTry: ({ event, endpoint: { id }, dueMs }, decide) =>
      transact(function* () {
        const claimed = yield* query(sql.claimed, [id, event.id, dueMs]);
        const endpoint = claimed.length === 0 ? undefined : yield* lockEndpoint(id);
        if (endpoint === undefined) return undefined;
        const now = engine.now();
        const { retry, isTaken, endpoint: next } = decide(endpoint, now);
        if (retry === null) yield* send(sql.delete, [id, event.id]);
        else yield* send(sql.putDue, [id, event.id, retry.tries, retry.dueMs]);
        if (next !== endpoint) yield* putEndpoint(next);
        if (next.disableMs !== endpoint.disableMs) {
          yield* lockTenants();
          yield* revise(next.tenant);
        }
        if (retry === null && event.phone !== null && event.type !== "webhook.test") {
          const note = { kind: isTaken ? "posted" : "dropped", outcome: event.type } as const;
          yield* changeVerification(event.phone.requestId, (found) => withNote(found, note, now));
        }
        return next;
      }),
    releaseEvents: (jobs) =>
      transact(() => {
        const now = engine.now();
        return send(sql.release, ...jobs.map(({ endpoint, event, dueMs }) => [endpoint.id, event.id, dueMs, now]));
      }),
    async nextEventDue() {
      const [row] = await engine.inTurn(() => engine.query<{ due: number | null }>(sql.nextDue, []));
      return row?.due ?? undefined;
    },
    async longBacklogs(backlogMax) {
      // Where no more wait in all, none is long, and there is less to count.
      if ((await countEvents(backlogMax + 1)) <= backlogMax) return [];
      return (await engine.query<{ id: string }>(sql.longBacklogs, [backlogMax])).map(({ id }) => id);
    },
    async trimEvents(endpointId, backlogMax, rowsMax) {
      const rows = await engine.write<{ live: number }>(sql.trim, [endpointId, backlogMax, rowsMax]);
      return { all: rows.length, live: rows.filter(({ live }) => live === 1).length };
    },
  };
}
