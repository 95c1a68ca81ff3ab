/**
 * Rows of endpoints and events, on either database.
 */
import type { Disabling, Endpoint } from "../../otp/operators/endpoint.ts";
import type { OwedEvent } from "../../otp/decisions/event.ts";
import { eventTypes, type EventType } from "../../otp/event-type.ts";
import type { EventJob } from "../events.ts";
import { namesAndTypes, type Columns, type RowOf } from "./values.ts";

const ofEndpoint = {
  id: "text",
  tenant: "text",
  url: "text",
  types: "text",
  show_phones: "bigint",
  kid: "bigint",
  secrets: "text",
  create_ms: "bigint",
  disable_ms: "bigint or null",
  why: "text or null",
  failing_since_ms: "bigint or null",
} as const satisfies Columns;
export const { names: endpointColumns } = namesAndTypes(ofEndpoint);
export type EndpointRow = RowOf<typeof ofEndpoint>;

/** How a secret is kept: its box in base64url, and its times. */
type SecretRow = readonly [box: string, createMs: number, endMs: number | null];

export function toEndpoint(row: EndpointRow): Endpoint {
  const asked = new Set(row.types.split(" "));
  return {
    id: row.id,
    tenant: row.tenant,
    url: row.url,
    types: eventTypes.filter((type: EventType) => asked.has(type)),
    showPhones: row.show_phones === 1,
    kid: row.kid,
    secrets: (JSON.parse(row.secrets) as SecretRow[]).map(([box, createMs, endMs]) => ({
      box: Buffer.from(box, "base64url"),
      createMs,
      endMs,
    })),
    createMs: row.create_ms,
    disableMs: row.disable_ms,
    why: row.why as Disabling | null,
    failingSinceMs: row.failing_since_ms,
  };
}

/** The values in the order of `endpointColumns`. */
export function endpointValues(e: Endpoint): (string | number | null)[] {
  const secrets = e.secrets.map(({ box, createMs, endMs }): SecretRow => [
    Buffer.from(box).toString("base64url"),
    createMs,
    endMs,
  ]);
  return [
    e.id,
    e.tenant,
    e.url,
    e.types.join(" "),
    e.showPhones ? 1 : 0,
    e.kid,
    JSON.stringify(secrets),
    e.createMs,
    e.disableMs,
    e.why,
    e.failingSinceMs,
  ];
}

export interface EventRow {
  endpoint_id: string;
  id: string;
  tenant: string;
  type: string;
  create_ms: number;
  facts: string;
  kid: number | null;
  phone_box: Uint8Array | null;
  tries: number;
  due_ms: number;
}

/** Whether an endpoint `e` gets events of a type, which is an SQL expression. An endpoint without types gets all. */
export const isTold = (type: string) =>
  `e.disable_ms IS NULL AND (e.types = '' OR replace(' ' || e.types || ' ', ' ' || ${type} || ' ', '') <> ' ' || e.types || ' ')`;

/** What is written of an event; its endpoints are found by the statement that writes it. */
export const eventColumns = ["id", "tenant", "type", "create_ms", "facts", "kid", "phone_box"] as const;

/** The values in the order of `eventColumns`. */
export function eventValues(event: OwedEvent): (string | number | Uint8Array | null)[] {
  const { id, tenant, type, createMs, facts, phone } = event;
  return [id, tenant, type, createMs, JSON.stringify(facts), phone?.kid ?? null, phone?.box ?? null];
}

/** A claimed event; `dueMs` is the end of its lease. */
export function toEventJob(row: EventRow, endpoint: Endpoint, dueMs: number): EventJob {
  const facts = JSON.parse(row.facts) as Record<string, unknown>;
  const { kid, phone_box: box } = row;
  const phone = kid === null || box === null ? null : { requestId: String(facts["request_id"]), kid, box };
  const { id, tenant, create_ms: createMs } = row;
  return {
    event: { id, tenant, type: row.type as EventType, createMs, facts, phone },
    endpoint,
    tries: row.tries,
    dueMs,
  };
}
