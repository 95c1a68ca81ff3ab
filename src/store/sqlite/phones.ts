/**
 * What is kept of a phone, on SQLite: the buckets of its limits, and its past. All of it runs within an act.
 */
import { emptyHistory, type PhoneHistory } from "../../otp/policy.ts";
import type { PhoneView, Writes } from "../../otp/verification.ts";
import type { Instant } from "../../system.ts";
import { bucketKey, mergeHistories, toHistory } from "../rows/phone.ts";
import type { prepare } from "./statements.ts";
import type { PhoneRef } from "../store.ts";

/** No verification lives longer than this, so an older one of a phone cannot be open. */
const lifeMaxMs = 600_000;

export function createPhones(sql: ReturnType<typeof prepare>) {
  function tatsOf({ indexes, knownUser, buckets }: PhoneRef): Instant[] {
    const tatOf = (index: Uint8Array, place: number) => sql.tat.get(bucketKey(index, knownUser, place))?.tat_ms ?? 0;
    return Array.from({ length: buckets }, (_, place) =>
      indexes.reduce((latest, index) => Math.max(latest, tatOf(index, place)), 0),
    );
  }

  function historyOf({ indexes }: PhoneRef): PhoneHistory {
    let history = emptyHistory;
    for (const index of indexes) {
      const row = sql.phone.get(index);
      if (row !== undefined) history = mergeHistories(history, toHistory(row));
    }
    return history;
  }

  function openAttemptsOf({ indexes }: PhoneRef, now: Instant): number {
    return indexes.reduce((sum, index) => sum + (sql.openAttempts.get(index, now - lifeMaxMs, now)?.open ?? 0), 0);
  }

  return {
    /**
     * A phone's limits and past, merged over every master key it may be indexed by. Each part is read when a decision
     * first looks at it, which most of them never do; so the view is good within its act only.
     */
    load(ref: PhoneRef, now: Instant): PhoneView {
      let tats: Instant[] | undefined;
      let history: PhoneHistory | undefined;
      return {
        get tats() {
          return (tats ??= tatsOf(ref));
        },
        get history() {
          return (history ??= historyOf(ref));
        },
        get openAttempts() {
          return openAttemptsOf(ref, now);
        },
      };
    },

    put({ tats = [], history }: Writes, { indexes, knownUser, kid }: PhoneRef): void {
      const [current = new Uint8Array(), ...older] = indexes;
      for (const [place, tatMs] of tats.entries()) {
        sql.putTat.run(bucketKey(current, knownUser, place), tatMs, kid);
        for (const index of older) sql.deleteTat.run(bucketKey(index, knownUser, place));
      }
      if (history === undefined) return;
      for (const index of older) sql.deletePhone.run(index);
      sql.putPhone.run(current, JSON.stringify(history.wrongCodes), JSON.stringify(history.refunds), kid);
    },

    /** Fills every bucket of a phone, and forgets its past. */
    reset({ indexes, buckets }: PhoneRef): void {
      for (const index of indexes) {
        sql.deletePhone.run(index);
        for (let place = 0; place < buckets; place++) {
          for (const knownUser of [false, true]) sql.deleteTat.run(bucketKey(index, knownUser, place));
        }
      }
    },
  };
}
