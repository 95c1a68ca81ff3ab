/**
 * What a sweep reads and deletes on PostgreSQL, in one transaction. Several instances may sweep at once: a sweep passes
 * over what another has locked, and checks again under its lock what it deletes. What may be forgotten is decided in
 * sweep.ts of the store.
 */
import type { Deleted, Found, Horizon } from "../engine.ts";
import type { BucketRow, PhoneRow } from "../rows/phone.ts";
import type { PrefixRow } from "../rows/prefix.ts";
import type { RecordRow } from "../rows/record.ts";
import { columns } from "./columns.ts";
import type { Statement, Transaction } from "./connections.ts";
import { statements as sql } from "./statements.ts";

export async function deleteForgettable(
  transaction: Transaction,
  horizon: Horizon,
  judge: (found: Found) => Found,
): Promise<Deleted> {
  const { now, max, from } = horizon;
  const look = <Row>(statement: Statement, start: Uint8Array | undefined) =>
    start === undefined ? [] : transaction.query<Row>(statement, [start, max]);
  const [ended, guesses, decisions, audited, ...rows] = await Promise.all([
    transaction.query<{ id: Uint8Array }>(sql.outlived, [horizon.endedMs, max]),
    transaction.query(sql.deleteGuesses, [horizon.minute, max]),
    transaction.query(sql.outlivedPrefixDecisions, [horizon.decidedMs, max]),
    transaction.query(sql.outlivedAudit, [horizon.auditMs, max]),
    look<BucketRow>(sql.bucketsFrom, from.buckets),
    look<PhoneRow>(sql.phonesFrom, from.phones),
    look<Pick<RecordRow, "slot" | "expire_ms">>(sql.staleRecords, from.records),
    from.prefixes === undefined ? [] : transaction.query<PrefixRow>(sql.prefixesFrom, [...from.prefixes, max]),
  ]);
  const found: Found = { buckets: rows[0], phones: rows[1], records: rows[2], prefixes: rows[3] };
  const { buckets, phones, records, prefixes } = judge(found);
  if (prefixes.length > 0) {
    transaction.send(sql.deletePrefixes, columns(prefixes.map((row) => [row.tenant, row.prefix, row.last_ms])));
  }
  transaction.send(sql.deleteCounters, [horizon.day]);
  if (ended.length > 0) transaction.send(sql.deleteMessages, [ended.map(({ id }) => id)]);
  if (buckets.length > 0) transaction.send(sql.deleteFullTats, [buckets.map(({ bucket }) => bucket), now]);
  if (phones.length > 0) {
    const values = phones.map((row) => [row.phone_index, row.wrong_codes, row.refunds]);
    transaction.send(sql.deleteForgottenHistories, columns(values));
  }
  if (records.length > 0) transaction.send(sql.deleteStaleRecords, [records.map(({ slot }) => slot), now]);
  const all = [ended, guesses, decisions, audited, buckets, phones, records, prefixes];
  return {
    found,
    count: all.reduce((sum, { length }) => sum + length, 0),
    more: [ended, guesses, decisions, audited].some(({ length }) => length === max),
  };
}
