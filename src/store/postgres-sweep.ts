/**
 * The sweep on PostgreSQL, as on SQLite (sqlite-sweep.ts), but that several instances may sweep at once: what another has
 * locked is passed over, and what is deleted is looked at again under its lock.
 */
import { isForgettable } from "../otp/policy.ts";
import { expire } from "../otp/verification.ts";
import type { Instant } from "../system.ts";
import { columns } from "./postgres-batches.ts";
import type { Connections } from "./postgres-connections.ts";
import { statements as sql } from "./postgres-statements.ts";
import * as rows from "./rows.ts";
import type { Swept } from "./store.ts";

const beforeAll = new Uint8Array();
const newRound = { buckets: beforeAll, phones: beforeAll, records: beforeAll };

/** Makes the sweep. It remembers where its round through the tables without an index on time has come to. */
export function createPostgresSweep(connections: Connections) {
  let sweepFrom: Record<"buckets" | "phones" | "records", Uint8Array | undefined> = newRound;

  return async function sweep(now: Instant, max: number, retentionMs: number): Promise<Swept> {
    const from = sweepFrom;
    const told = await connections.transact(async (transaction) => {
      const look = <Row>(statement: typeof sql.lapsed, start: Uint8Array | undefined) =>
        start === undefined ? [] : transaction.query<Row>(statement, [start, max]);
      const [lapsed, outlived, buckets, phones, records] = await Promise.all([
        transaction.query<rows.VerificationRow>(sql.lapsed, [now, max]),
        transaction.query<{ id: Uint8Array }>(sql.outlived, [now - retentionMs, max]),
        look<{ bucket: Uint8Array; tat_ms: number }>(sql.bucketsFrom, from.buckets),
        look<rows.PhoneRow>(sql.phonesFrom, from.phones),
        look<{ slot: Uint8Array; expire_ms: number }>(sql.staleRecords, from.records),
      ]);
      const expired = lapsed.map((row) => rows.verificationChanges(expire(rows.toVerification(row))));
      const full = buckets.filter(({ tat_ms }) => tat_ms <= now).map(({ bucket }) => bucket);
      const forgettable = phones.filter((row) => isForgettable(rows.toHistory(row), now));
      const stale = records.filter(({ expire_ms }) => expire_ms <= now).map(({ slot }) => slot);
      if (expired.length > 0) transaction.send(sql.updateVerifications, columns(expired));
      if (outlived.length > 0) transaction.send(sql.deleteMessages, [outlived.map(({ id }) => id)]);
      if (full.length > 0) transaction.send(sql.deleteFullTats, [full, now]);
      if (forgettable.length > 0)
        transaction.send(
          sql.deleteForgottenPasts,
          columns(forgettable.map((row) => [row.phone_index, row.wrong_codes, row.refunds])),
        );
      if (stale.length > 0) transaction.send(sql.deleteStaleRecords, [stale, now]);
      const next = {
        buckets: nextFrom(buckets, max, ({ bucket }) => bucket),
        phones: nextFrom(phones, max, ({ phone_index }) => phone_index),
        records: nextFrom(records, max, ({ slot }) => slot),
      };
      const isThrough = Object.values(next).every((key) => key === undefined);
      return {
        next: isThrough ? newRound : next,
        swept: {
          expired: lapsed.length,
          deleted: outlived.length + full.length + forgettable.length + stale.length,
          more: !isThrough || lapsed.length === max || outlived.length === max,
        },
      };
    });
    sweepFrom = told.next;
    return told.swept;
  };
}

function nextFrom<Row>(found: readonly Row[], max: number, keyOf: (row: Row) => Uint8Array): Uint8Array | undefined {
  const last = found.at(-1);
  return found.length < max || last === undefined ? undefined : keyOf(last);
}
