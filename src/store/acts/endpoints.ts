/**
 * The acts on webhook endpoints.
 */
import { endpointStory } from "../../otp/operators/audit.ts";
import { eventLeaseMs, isEnabledAnew, type Endpoint } from "../../otp/operators/endpoint.ts";
import type { Engine } from "../engine.ts";
import type { EndpointQueue, Endpoints } from "../events.ts";
import { endpointColumns, endpointValues, toEndpoint, type EndpointRow } from "../rows/event.ts";
import { noteAudit } from "./audit.ts";
import { list, query, send, updates, valuesOf, type Steps } from "../statement.ts";
import { lockTenants, revise } from "./tenants.ts";

const queues = (ofEvents: string, ofEndpoints = "") =>
  `SELECT ${list(endpointColumns)}, coalesce(waiting, 0) AS waiting, oldest, tries, next
    FROM webhook_endpoints AS e LEFT JOIN (
      SELECT endpoint_id, count(*) AS waiting, min(create_ms) AS oldest, max(tries) AS tries, min(due_ms) AS next
      FROM events ${ofEvents} GROUP BY endpoint_id
    ) AS queues ON queues.endpoint_id = e.id
    ${ofEndpoints} ORDER BY create_ms, id`;

const sql = {
  find: { name: "endpoint", text: `SELECT ${list(endpointColumns)} FROM webhook_endpoints WHERE id = $1` },
  findLocked: {
    name: "lock-endpoint",
    text: `SELECT ${list(endpointColumns)} FROM webhook_endpoints WHERE id = $1`,
    locksRows: true,
  },
  all: { name: "endpoints", text: `SELECT ${list(endpointColumns)} FROM webhook_endpoints ORDER BY create_ms, id` },
  queues: { name: "queues", text: queues("") },
  queue: { name: "queue", text: queues("WHERE endpoint_id = $1", "WHERE e.id = $1") },
  /** A row if there is such a tenant. */
  countOf: {
    name: "endpoints-of-tenant",
    text: `SELECT (SELECT count(*) FROM webhook_endpoints WHERE tenant = $1) AS count FROM tenants WHERE id = $1`,
  },
  put: {
    name: "put-endpoint",
    text: `INSERT INTO webhook_endpoints (${list(endpointColumns)}) VALUES (${valuesOf(endpointColumns)})
      ON CONFLICT (id) DO UPDATE SET ${updates(endpointColumns)}`,
  },
  delete: { name: "delete-endpoint", text: `DELETE FROM webhook_endpoints WHERE id = $1` },
  /** What waits, but for what is in a worker's hand: that is due when its lease ends. */
  dueAnew: {
    name: "events-due-anew",
    text: `UPDATE events SET tries = 0, due_ms = $2 WHERE endpoint_id = $1 AND due_ms > $3`,
  },
  deleteEvents: { name: "delete-events-of", text: `DELETE FROM events WHERE endpoint_id = $1` },
} as const;

/** The last three are null where none waits. */
interface QueueRow {
  waiting: number;
  oldest: number;
  tries: number;
  next: number;
}

export function endpointActs(engine: Engine): Endpoints {
  return {
    addEndpoint: (endpoint, max, note) =>
      engine.transact(function* () {
        yield* lockTenants();
        const [found] = yield* query<{ count: number }>(sql.countOf, [endpoint.tenant]);
        if (found === undefined) return "no-tenant";
        if (found.count >= max) return "full";
        yield* putEndpoint(endpoint);
        yield* revise(endpoint.tenant);
        yield* noteAudit(engine, note, { ...audited(endpoint), after: endpointStory(endpoint) });
        return "added";
      }),
    changeEndpoint: (id, change, note) =>
      engine.transact(function* () {
        const endpoint = yield* lockEndpoint(id);
        if (endpoint === undefined) return false;
        const now = engine.now();
        const changed = change(endpoint, now);
        if (changed !== endpoint) {
          const stories = { before: endpointStory(endpoint), after: endpointStory(changed) };
          yield* noteAudit(engine, note, { ...audited(endpoint), ...stories });
        }
        yield* putEndpoint(changed);
        if (isEnabledAnew(endpoint, changed)) yield* send(sql.dueAnew, [id, now, now + eventLeaseMs]);
        yield* lockTenants();
        yield* revise(endpoint.tenant);
        return true;
      }),
    removeEndpoint: (id, note) =>
      engine.transact(function* () {
        yield* send(sql.deleteEvents, [id]);
        const endpoint = yield* lockEndpoint(id);
        if (endpoint === undefined) return false;
        yield* send(sql.delete, [id]);
        yield* noteAudit(engine, note, { ...audited(endpoint), before: endpointStory(endpoint) });
        yield* lockTenants();
        yield* revise(endpoint.tenant);
        return true;
      }),
    async findEndpoint(id) {
      return (await engine.query<EndpointRow>(sql.find, [id])).map(toEndpoint)[0];
    },
    async readEndpoints() {
      return (await engine.query<EndpointRow>(sql.all, [])).map(toEndpoint);
    },
    async readQueue(id) {
      return (await engine.query<EndpointRow & QueueRow>(sql.queue, [id])).map(toQueue)[0];
    },
    async listEndpoints() {
      // It counts all that waits, which strangers can have be 10,000 for each.
      return (await engine.longRead<EndpointRow & QueueRow>(sql.queues, [])).map(toQueue);
    },
  };
}

function toQueue({ waiting, oldest, tries, next, ...row }: EndpointRow & QueueRow): EndpointQueue {
  return {
    endpoint: toEndpoint(row),
    waiting,
    ...(waiting === 0 ? {} : { queue: { oldestMs: oldest, tries, nextTryMs: next } }),
  };
}

const audited = ({ tenant, id }: Endpoint) => ({ tenant, subject: id });

/** Locks are taken in one order: event, endpoint, tenants. */
export function* lockEndpoint(id: string): Steps<Endpoint | undefined> {
  return (yield* query<EndpointRow>(sql.findLocked, [id])).map(toEndpoint)[0];
}

export function putEndpoint(endpoint: Endpoint): Steps<void> {
  return send(sql.put, endpointValues(endpoint));
}
