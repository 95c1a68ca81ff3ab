/**
 * A tenant's lists of destinations on SQLite.
 */
import { prefixDigitsMax, prefixesOf, type Destination } from "../../otp/destination.ts";
import { toDestination } from "../rows/tenant.ts";
import type { Statements } from "./statements.ts";

/**
 * The longest entry that a number begins with. Most tenants have none, which costs 1 µs to find out; the statement over
 * the prefixes costs 20.
 */
export function longestDestination(sql: Statements, tenant: string, e164: string): Destination | undefined {
  if (sql.anyDestination.get(tenant) === undefined) return undefined;
  const prefixes = prefixesOf(e164);
  // No entry is empty: the places that a short number leaves match nothing.
  const rest = Array<string>(prefixDigitsMax - prefixes.length).fill("");
  const row = sql.longestDestination.get(tenant, ...prefixes, ...rest);
  return row === undefined ? undefined : toDestination(row);
}
