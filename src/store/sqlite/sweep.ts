/**
 * What a sweep reads and deletes on SQLite, within an act. What may be forgotten is decided in sweep.ts of the store.
 */
import type { Deleted, Found, Horizon } from "../engine.ts";
import type { PrefixRow } from "../rows/prefix.ts";
import { moveOut } from "./phone-states.ts";
import type { Statements } from "./statements.ts";

/** Gives also the prefixes that it deleted. The transaction holds the database, so rows are as they were read. */
export function deleteForgettable(
  sql: Statements,
  horizon: Horizon,
  judge: (found: Found) => Found,
): Deleted & { readonly prefixes: readonly PrefixRow[] } {
  const { max, from } = horizon;
  const found: Found = {
    buckets: from.buckets === undefined ? [] : sql.bucketsFrom.all(from.buckets, max),
    phones: from.phones === undefined ? [] : sql.phonesFrom.all(from.phones, max),
    records: from.records === undefined ? [] : sql.recordsFrom.all(from.records, max),
    prefixes: from.prefixes === undefined ? [] : sql.prefixesFrom.all(...from.prefixes, max),
  };
  const { buckets, phones, records, prefixes } = judge(found);
  for (const { bucket } of buckets) sql.deleteTat.run(bucket);
  for (const { phone_index } of phones) sql.deletePhone.run(phone_index);
  for (const { slot } of records) sql.deleteRecord.run(slot);
  for (const { tenant, prefix } of prefixes) sql.deletePrefix.run(tenant, prefix);

  const ended = sql.outlived.all(horizon.endedMs, max);
  moveOut(sql, ended, horizon.now);
  for (const { id, create_ms } of ended) {
    sql.deleteMessages.run(create_ms, id);
    sql.deleteVerification.run(id);
  }
  const guesses = sql.oldGuesses.all(horizon.minute, max);
  for (const { tenant, minute } of guesses) sql.deleteGuesses.run(tenant, minute);
  const decisions = sql.outlivedPrefixDecisions.all(horizon.decidedMs, max);
  for (const { id } of decisions) sql.deletePrefixDecision.run(id);
  const audited = sql.outlivedAudit.all(horizon.auditMs, max);
  for (const { id } of audited) sql.deleteAudit.run(id);
  sql.deleteCounters.run(horizon.day);

  const all = [buckets, phones, records, prefixes, ended, guesses, decisions, audited];
  return {
    found,
    prefixes,
    count: all.reduce((sum, { length }) => sum + length, 0),
    more: [ended, guesses, decisions, audited].some(({ length }) => length === max),
  };
}
