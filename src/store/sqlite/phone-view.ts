/**
 * What is kept of a phone, as decisions see it on SQLite: each part is read when a decision first looks at it, which most of
 * them never do. So a view is good within its act only.
 */
import { emptyHistory, type PhoneHistory } from "../../otp/policy.ts";
import type { PhoneView } from "../../otp/verification.ts";
import type { Instant } from "../../system.ts";
import { bucketKey, mergeHistories, toHistory } from "../rows/phone.ts";
import { lifeMaxMs } from "../rows/verification.ts";
import type { PhoneRef } from "../store.ts";
import type { Statements } from "./statements.ts";

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
