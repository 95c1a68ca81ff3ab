/**
 * Endpoints and events on PostgreSQL. Rows are locked in one order: event, endpoint, tenants.
 */
import { eventLeaseMs, type Endpoint } from "../../otp/endpoint.ts";
import type { Instant } from "../../system.ts";
import {
  endpointColumns,
  endpointValues,
  toEndpoint,
  toEventJob,
  type EndpointRow,
  type EventRow,
} from "../rows/event.ts";
import type { EventJob, EventStore } from "../events.ts";
import type { Connections, Statement, Transaction } from "./connections.ts";

const statement = (name: string, text: string): Statement => ({ name, text });
const columns = endpointColumns.join(", ");
const parameters = endpointColumns.map((_, i) => `$${i + 1}`).join(", ");
const changes = endpointColumns.map((column) => `${column} = excluded.${column}`).join(", ");

const sql = {
  lockTenants: statement("lock-tenants", `LOCK TABLE tenants IN SHARE ROW EXCLUSIVE MODE`),
  reviseTenant: statement(
    "revise-tenant",
    `UPDATE tenants SET revision = (SELECT max(revision) + 1 FROM tenants) WHERE id = $1`,
  ),
  addable: statement(
    "addable-endpoint",
    `SELECT (SELECT count(*) FROM webhook_endpoints WHERE tenant = $1) AS count FROM tenants WHERE id = $1`,
  ),
  endpoint: statement("endpoint", `SELECT ${columns} FROM webhook_endpoints WHERE id = $1`),
  /** Neither they nor their tenants are disabled. */
  enabledEndpoints: statement(
    "enabled-endpoints",
    `SELECT ${columns} FROM webhook_endpoints AS e WHERE id = ANY($1::text[]) AND disable_ms IS NULL
     AND EXISTS (SELECT 1 FROM tenants AS t WHERE t.id = e.tenant AND t.disable_ms IS NULL)`,
  ),
  lockEndpoint: statement("lock-endpoint", `SELECT ${columns} FROM webhook_endpoints WHERE id = $1 FOR UPDATE`),
  allEndpoints: statement(
    "all-endpoints",
    `SELECT ${columns}, (SELECT count(*) FROM events WHERE endpoint_id = e.id) AS waiting
     FROM webhook_endpoints AS e ORDER BY create_ms, id`,
  ),
  putEndpoint: statement(
    "put-endpoint",
    `INSERT INTO webhook_endpoints (${columns}) VALUES (${parameters}) ON CONFLICT (id) DO UPDATE SET ${changes}`,
  ),
  deleteEndpoint: statement("delete-endpoint", `DELETE FROM webhook_endpoints WHERE id = $1`),
  deleteEventsOf: statement("delete-events-of", `DELETE FROM events WHERE endpoint_id = $1`),
  /**
   * From one endpoint that something waits for to the next, so that a long backlog costs no more than a short one. Another
   * instance may look at the same moment: what it has locked is passed over, what it has claimed is not due.
   */
  claim: statement(
    "claim-events",
    `WITH RECURSIVE waiting (id) AS (
       SELECT min(endpoint_id) FROM events
       UNION ALL SELECT (SELECT min(endpoint_id) FROM events WHERE endpoint_id > w.id) FROM waiting AS w
       WHERE w.id IS NOT NULL
     ), due AS (
       SELECT d.* FROM waiting AS w CROSS JOIN LATERAL (
         SELECT endpoint_id, id, due_ms FROM events WHERE endpoint_id = w.id AND due_ms <= $1
         ORDER BY due_ms LIMIT $4 FOR UPDATE SKIP LOCKED
       ) AS d WHERE w.id <> ALL($3::text[]) ORDER BY d.due_ms LIMIT $5
     )
     UPDATE events AS e SET due_ms = $2 FROM due
     WHERE e.endpoint_id = due.endpoint_id AND e.id = due.id RETURNING e.*`,
  ),
  lockEvent: statement(
    "lock-event",
    `SELECT due_ms FROM events WHERE endpoint_id = $1 AND id = $2 AND due_ms = $3 FOR UPDATE`,
  ),
  putEventDue: statement(
    "put-event-due",
    `UPDATE events SET tries = $3, due_ms = $4 WHERE endpoint_id = $1 AND id = $2`,
  ),
  releaseEvent: statement(
    "release-event",
    `UPDATE events SET due_ms = $4 WHERE endpoint_id = $1 AND id = $2 AND due_ms = $3`,
  ),
  deleteEvent: statement("delete-event", `DELETE FROM events WHERE endpoint_id = $1 AND id = $2`),
  nextEventDue: statement("next-event-due", `SELECT min(due_ms) AS due FROM events`),
  count: statement("count-events", `SELECT count(*) AS count FROM (SELECT 1 FROM events LIMIT $1) AS waiting`),
  trim: statement(
    "trim-events",
    `DELETE FROM events WHERE (endpoint_id, id) IN (
       SELECT endpoint_id, id FROM (
         SELECT endpoint_id, id, row_number() OVER (PARTITION BY endpoint_id ORDER BY create_ms DESC, id) AS place
         FROM events WHERE endpoint_id IN (SELECT endpoint_id FROM events GROUP BY endpoint_id HAVING count(*) > $1)
       ) AS ranked WHERE place > $1 ORDER BY place DESC LIMIT $2
     ) RETURNING id`,
  ),
};

export function createPostgresEvents(connections: Connections, clock: { now(): Instant }): EventStore {
  async function lockEndpoint(transaction: Transaction, id: string): Promise<Endpoint | undefined> {
    const [row] = await transaction.query<EndpointRow>(sql.lockEndpoint, [id]);
    return row === undefined ? undefined : toEndpoint(row);
  }

  function revise(transaction: Transaction, tenant: string): void {
    transaction.send(sql.lockTenants, []);
    transaction.send(sql.reviseTenant, [tenant]);
  }

  return {
    addEndpoint(endpoint, max) {
      return connections.transact(async (transaction) => {
        transaction.send(sql.lockTenants, []);
        const [found] = await transaction.query<{ count: number }>(sql.addable, [endpoint.tenant]);
        if (found === undefined) return "no-tenant";
        if (found.count >= max) return "full";
        transaction.send(sql.putEndpoint, endpointValues(endpoint));
        transaction.send(sql.reviseTenant, [endpoint.tenant]);
        return "added";
      });
    },

    changeEndpoint(id, change) {
      return connections.transact(async (transaction) => {
        const endpoint = await lockEndpoint(transaction, id);
        if (endpoint === undefined) return false;
        transaction.send(sql.putEndpoint, endpointValues(change(endpoint, clock.now())));
        revise(transaction, endpoint.tenant);
        return true;
      });
    },

    removeEndpoint(id) {
      return connections.transact(async (transaction) => {
        transaction.send(sql.deleteEventsOf, [id]);
        const endpoint = await lockEndpoint(transaction, id);
        if (endpoint === undefined) return false;
        transaction.send(sql.deleteEndpoint, [id]);
        revise(transaction, endpoint.tenant);
        return true;
      });
    },

    async findEndpoint(id) {
      const [row] = await connections.query<EndpointRow>(sql.endpoint, [id]);
      return row === undefined ? undefined : toEndpoint(row);
    },

    async listEndpoints() {
      const found = await connections.query<EndpointRow & { waiting: number }>(sql.allEndpoints, []);
      return found.map((row) => ({ endpoint: toEndpoint(row), waiting: row.waiting }));
    },

    claimEvents({ max, perEndpointMax, busy }) {
      return connections.transact(async (transaction) => {
        const now = clock.now();
        const leaseEndMs = now + eventLeaseMs;
        const found = await transaction.query<EventRow>(sql.claim, [now, leaseEndMs, busy, perEndpointMax, max]);
        if (found.length === 0) return [];
        const ids = [...new Set(found.map((row) => row.endpoint_id))];
        const endpoints = await transaction.query<EndpointRow>(sql.enabledEndpoints, [ids]);
        const byId = new Map(endpoints.map((row) => [row.id, toEndpoint(row)]));
        const jobs: EventJob[] = [];
        for (const row of found) {
          const endpoint = byId.get(row.endpoint_id);
          if (endpoint === undefined) transaction.send(sql.deleteEvent, [row.endpoint_id, row.id]);
          else jobs.push(toEventJob(row, endpoint, leaseEndMs));
        }
        return jobs;
      });
    },

    settleEvent({ event, endpoint: { id }, dueMs }, decide) {
      return connections.transact(async (transaction) => {
        const claimed = await transaction.query(sql.lockEvent, [id, event.id, dueMs]);
        const endpoint = claimed.length === 0 ? undefined : await lockEndpoint(transaction, id);
        if (endpoint === undefined) return undefined;
        const { retry, endpoint: next } = decide(endpoint, clock.now());
        if (retry === null) transaction.send(sql.deleteEvent, [id, event.id]);
        else transaction.send(sql.putEventDue, [id, event.id, retry.tries, retry.dueMs]);
        if (next !== endpoint) transaction.send(sql.putEndpoint, endpointValues(next));
        if (next.disableMs !== endpoint.disableMs) revise(transaction, next.tenant);
        return next;
      });
    },

    async releaseEvents(jobs) {
      await connections.transact(async (transaction) => {
        for (const { event, endpoint, dueMs } of jobs) {
          transaction.send(sql.releaseEvent, [endpoint.id, event.id, dueMs, clock.now()]);
        }
      });
    },

    async nextEventDue() {
      const [row] = await connections.query<{ due: number | null }>(sql.nextEventDue, []);
      return row?.due ?? undefined;
    },

    async countEvents(max) {
      const [row] = await connections.query<{ count: number }>(sql.count, [max]);
      return row?.count ?? 0;
    },

    async trimEvents(backlogMax, rowsMax) {
      return (await connections.query(sql.trim, [backlogMax, rowsMax])).length;
    },
  };
}
