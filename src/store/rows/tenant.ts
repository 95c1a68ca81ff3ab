/**
 * Between a tenant and its row, and those of its lists and of its days.
 */
import { type DailyCount } from "../../otp/verification/daily-cap.ts";
import { type Destination, type Verdict } from "../../otp/verification/destination.ts";
import { type TenantRecord } from "../../otp/operators/tenant.ts";

export interface TenantRow {
  id: string;
  settings: string;
  create_ms: number;
  disable_ms: number | null;
  revision: number;
  /** 1 if any of its endpoints is not disabled. */
  has_webhooks: number;
}

export const tenantColumns = [
  "id",
  "settings",
  "create_ms",
  "disable_ms",
  "revision",
  "(SELECT count(*) FROM (SELECT 1 FROM webhook_endpoints AS e WHERE e.tenant = tenants.id AND e.disable_ms IS NULL LIMIT 1) AS any_endpoint) AS has_webhooks",
] as const;

export function toTenant(row: TenantRow): TenantRecord {
  const { id, settings, create_ms: createMs, disable_ms: disableMs, revision } = row;
  return { id, settings, createMs, disableMs, revision, ...(row.has_webhooks > 0 ? { hasWebhooks: true } : {}) };
}

export interface DestinationRow {
  tenant: string;
  prefix: string;
  verdict: Verdict;
  note: string;
  create_ms: number;
}

export const destinationColumns = [
  "tenant",
  "prefix",
  "verdict",
  "note",
  "create_ms",
] as const satisfies (keyof DestinationRow)[];

export function toDestination({ tenant, prefix, verdict, note, create_ms: createMs }: DestinationRow): Destination {
  return { tenant, prefix, verdict, note, createMs };
}

export interface CounterRow {
  day: number;
  count: number;
  warned: DailyCount["warned"];
  warned_cap: number;
}

export function toDaily({ day, count, warned, warned_cap: warnedCap }: CounterRow): DailyCount {
  return { day, count, warned, warnedCap };
}
