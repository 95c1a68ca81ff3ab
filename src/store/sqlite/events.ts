/**
 * Endpoints and events on SQLite.
 */
import { eventLeaseMs } from "../../otp/endpoint.ts";
import type { OwedEvent } from "../../otp/event.ts";
import type { Instant } from "../../system.ts";
import { endpointValues, eventValues, toEndpoint, toEventJob } from "../rows/event.ts";
import type { EventJob, EventStore } from "../events.ts";
import type { prepare } from "./statements.ts";

type Act = <T>(run: (now: Instant) => T) => Promise<T>;

/** Writes an event within an act, once for each endpoint that asks for it. */
export function putEvent(sql: ReturnType<typeof prepare>, event: OwedEvent, now: Instant): void {
  const [id, tenant, type, ...rest] = eventValues(event);
  sql.insertEvent.run(id, tenant, type, ...rest, now, tenant, type);
}

export interface EventGround {
  /** Runs a write within the next transaction. */
  readonly act: Act;
  /** The same for a write that servers must hear of. */
  readonly changing: Act;
  /** Runs a read on what is committed. */
  readonly read: <T>(run: () => T) => T;
  /** Has this server hear of what it has written itself. */
  readonly forget: () => void;
}

export function createSqliteEvents(
  sql: ReturnType<typeof prepare>,
  { act, changing, read, forget }: EventGround,
): EventStore {
  const find = (id: string) => {
    const row = sql.endpoint.get(id);
    return row === undefined ? undefined : toEndpoint(row);
  };
  const isClaimed = ({ event, endpoint, dueMs }: EventJob) => sql.eventDue.get(endpoint.id, event.id)?.due_ms === dueMs;

  return {
    addEndpoint(endpoint, max) {
      return changing(() => {
        if (sql.tenant.get(endpoint.tenant) === undefined) return "no-tenant";
        if ((sql.endpointCount.get(endpoint.tenant)?.count ?? 0) >= max) return "full";
        sql.putEndpoint.run(...endpointValues(endpoint));
        sql.reviseTenant.run(endpoint.tenant);
        return "added";
      });
    },

    changeEndpoint(id, change) {
      return changing((now) => {
        const endpoint = find(id);
        if (endpoint === undefined) return false;
        sql.putEndpoint.run(...endpointValues(change(endpoint, now)));
        sql.reviseTenant.run(endpoint.tenant);
        return true;
      });
    },

    removeEndpoint(id) {
      return changing(() => {
        const endpoint = find(id);
        if (endpoint === undefined) return false;
        sql.deleteEventsOf.run(id);
        sql.deleteEndpoint.run(id);
        sql.reviseTenant.run(endpoint.tenant);
        return true;
      });
    },

    async findEndpoint(id) {
      return read(() => find(id));
    },

    async listEndpoints() {
      return read(() => sql.endpoints.all().map((row) => ({ endpoint: toEndpoint(row), waiting: row.waiting })));
    },

    claimEvents({ max, perEndpointMax, busy }) {
      return act((now) => {
        const jobs: EventJob[] = [];
        for (const row of sql.dueEvents.all(now, perEndpointMax, JSON.stringify(busy), max)) {
          const endpoint = sql.enabledEndpoint.get(row.endpoint_id);
          if (endpoint === undefined) sql.deleteEvent.run(row.endpoint_id, row.id);
          else {
            sql.putEventDue.run(row.tries, now + eventLeaseMs, row.endpoint_id, row.id);
            jobs.push(toEventJob(row, toEndpoint(endpoint), now + eventLeaseMs));
          }
        }
        return jobs;
      });
    },

    async settleEvent(job, decide) {
      let isNews = false;
      const settled = await act((now) => {
        const endpoint = isClaimed(job) ? find(job.endpoint.id) : undefined;
        if (endpoint === undefined) return undefined;
        const { retry, endpoint: next } = decide(endpoint, now);
        if (retry === null) sql.deleteEvent.run(endpoint.id, job.event.id);
        else sql.putEventDue.run(retry.tries, retry.dueMs, endpoint.id, job.event.id);
        if (next !== endpoint) sql.putEndpoint.run(...endpointValues(next));
        isNews = next.disableMs !== endpoint.disableMs;
        if (isNews) sql.reviseTenant.run(next.tenant);
        return next;
      });
      if (isNews) forget();
      return settled;
    },

    releaseEvents(jobs) {
      return act((now) => {
        for (const job of jobs) {
          if (isClaimed(job)) sql.putEventDue.run(job.tries, now, job.endpoint.id, job.event.id);
        }
      });
    },

    async nextEventDue() {
      return read(() => sql.nextEventDue.get()?.due ?? undefined);
    },

    async countEvents(max) {
      return read(() => sql.eventCount.get(max)?.count ?? 0);
    },

    trimEvents(backlogMax, rowsMax) {
      return act(() => {
        let left = rowsMax;
        for (const { endpoint_id, waiting } of sql.longBacklogs.all(backlogMax)) {
          left -= sql.deleteOldestEvents.run(endpoint_id, Math.min(waiting - backlogMax, left)).changes;
        }
        return rowsMax - left;
      });
    },
  };
}
