/**
 * What a batch of acts has changed, sent together with its commit.
 */
import { decisionsMax } from "../../otp/limits/pumping-guard.ts";
import type { Verification } from "../../otp/verification/verification.ts";
import { auditValues } from "../rows/audit.ts";
import { eventValues } from "../rows/event.ts";
import { messageValues } from "../rows/message.ts";
import { historyValues } from "../rows/phone.ts";
import { decisionValues, prefixValues } from "../rows/prefix.ts";
import { recordValues } from "../rows/record.ts";
import { verificationChanges, verificationValues } from "../rows/verification.ts";
import { sumValues } from "../rows/sums.ts";
import { columns, type Cell } from "./columns.ts";
import type { Transaction } from "./connections.ts";
import { named } from "./load.ts";
import type { BatchDays } from "./lots.ts";
import { statements as sql } from "./statements.ts";
import type { PostgresUnitOfWork } from "./unit-of-work.ts";

/** Written together, each statement beyond these would cost as much again as all of its rows. */
const togetherMin = 3;

export function write(transaction: Transaction, unit: PostgresUnitOfWork): void {
  const days = unit.counting?.writes(({ tenant, kind }) => unit.day(tenant, kind));
  // Before all else: who takes a lot back waits for who uses it, and then for the rows that both of them write.
  if (days !== undefined && days.changeLots.length > 0) changeLots(transaction, days.changeLots);
  const parts = partsOf(unit, days);
  if (parts.length < togetherMin) for (const [name, values] of parts) transaction.send(sql[name], values);
  else transaction.send(sql.writes.statement, sql.writes.values(Object.fromEntries(parts)));
  writeRarely(transaction, unit);
}

/** In the order of their tenants, as who takes lots back locks them (lots.ts). One alone has no order. */
function changeLots(transaction: Transaction, lots: readonly (readonly Cell[])[]): void {
  const values = columns(lots);
  if (lots.length > 1) transaction.send(sql.lockLots, values.slice(0, -1));
  transaction.send(sql.changeLots, values);
}

type Part =
  Parameters<typeof sql.writes.values>[0] extends Partial<Record<infer Name, unknown>>
    ? readonly [Name & keyof typeof sql, Cell[][]]
    : never;

/** What is to be written, by statement. */
function partsOf(unit: PostgresUnitOfWork, days: ReturnType<BatchDays["writes"]> | undefined): Part[] {
  const verifications = unit.verifications.changes().written;
  const isNew = (v: Verification) => unit.newVerifications.has(v.id);
  const counts = [...unit.counts.values()].toSorted((a, b) => (a.tenant < b.tenant ? -1 : 1));
  const rows: Record<Part[0], Cell[][]> = {
    insertVerifications: verifications.filter(isNew).map(verificationValues),
    updateVerifications: verifications.filter((v) => !isNew(v)).map(verificationChanges),
    putMessages: unit.messages.changes().written.map(messageValues),
    putTats: unit.buckets.changes().written.map(({ bucket, tatMs, kid }) => [bucket, tatMs, kid]),
    putHistories: unit.histories.changes().written.map(({ index, history, kid }) => historyValues(index, history, kid)),
    putPrefixes: unit.prefixes.changes().written.map(({ name, record }) => prefixValues(name, record)),
    putCounters: days?.putCounters ?? [],
    putLots: days?.putLots ?? [],
    addGuesses: counts.map(({ tenant, minute, wrong, right }) => [tenant, minute, wrong, right]),
    insertEvents: unit.events.map((event) => [...eventValues(event), unit.now]),
    putRecords: unit.storedRecords.changes().written.map(recordValues),
  };
  const all = Object.entries(rows) as [Part[0], Cell[][]][];
  return all.flatMap(([name, table]): Part[] => (table.length === 0 ? [] : [[name, columns(table)]]));
}

/** What few batches have. */
function writeRarely(transaction: Transaction, unit: PostgresUnitOfWork): void {
  const buckets = unit.buckets.changes().deleted;
  const histories = unit.histories.changes().deleted;
  const records = unit.storedRecords.changes().deleted;
  if (buckets.length > 0) transaction.send(sql.deleteTats, [buckets.map(bytesOf)]);
  if (histories.length > 0) transaction.send(sql.deleteHistories, [histories.map(bytesOf)]);
  if (records.length > 0) transaction.send(sql.deleteRecords, [records.map(bytesOf)]);
  if (unit.decided.length > 0) {
    transaction.send(
      sql.insertPrefixDecisions,
      columns(unit.decided.map((decided) => decisionValues(decided, decided.decision))),
    );
    const [tenants = [], names = []] = columns(named(unit.decided).map(({ tenant, prefix }) => [tenant, prefix]));
    transaction.send(sql.trimPrefixDecisions, [tenants, names, decisionsMax]);
  }
  for (const entry of unit.notes) transaction.send(sql.addAudit, auditValues(entry));
  // After all else: whoever holds the note of how far summing has come waits for nothing more.
  for (const { endMs, row } of unit.lateSums) transaction.send(sql.addLateSums, [...sumValues(row), endMs]);
}

const bytesOf = (name: string) => Buffer.from(name, "latin1");
