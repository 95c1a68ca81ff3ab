/**
 * What acts and plain reads look up alike on SQLite: what is kept of a phone, and the entry of a list for a number.
 */
import { prefixDigitsMax, prefixesOf, type Destination } from "../../otp/destination.ts";
import { emptyHistory, type PhoneHistory } from "../../otp/policy.ts";
import type { PhoneView } from "../../otp/verification.ts";
import type { Instant } from "../../system.ts";
import { bucketKey, mergeHistories, toHistory } from "../rows/phone.ts";
import { toDestination } from "../rows/tenant.ts";
import { lifeMaxMs } from "../rows/verification.ts";
import type { PhoneRef } from "../store.ts";
import type { Statements } from "./statements.ts";

/** Each part is read when a decision first looks at it, which most never do. So a view is good within its act only. */
export function phoneView(sql: Statements, ref: PhoneRef, now: Instant): PhoneView {
  let tats: readonly Instant[] | undefined;
  let history: PhoneHistory | undefined;
  let openAttempts: number | undefined;
  return {
    get tats() {
      return (tats ??= tatsOf(sql, ref));
    },
    get history() {
      return (history ??= historyOf(sql, ref));
    },
    get openAttempts() {
      return (openAttempts ??= openAttemptsOf(sql, ref, now));
    },
  };
}

function tatsOf(sql: Statements, { indexes, knownUser, buckets }: PhoneRef): Instant[] {
  const tatOf = (index: Uint8Array, place: number) => sql.tat.get(bucketKey(index, knownUser, place))?.tat_ms ?? 0;
  return Array.from({ length: buckets }, (_, place) =>
    indexes.reduce((latest, index) => Math.max(latest, tatOf(index, place)), 0),
  );
}

function historyOf(sql: Statements, { indexes }: PhoneRef): PhoneHistory {
  let history = emptyHistory;
  for (const index of indexes) {
    const row = sql.phone.get(index);
    if (row !== undefined) history = mergeHistories(history, toHistory(row));
  }
  return history;
}

function openAttemptsOf(sql: Statements, { indexes }: PhoneRef, now: Instant): number {
  return indexes.reduce((sum, index) => sum + (sql.openAttempts.get(index, now - lifeMaxMs, now)?.open ?? 0), 0);
}

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
