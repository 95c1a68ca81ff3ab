/**
 * What a batch of acts has changed, sent together with its commit.
 */
import type { PhoneHistory } from "../../otp/policy.ts";
import { decisionsMax } from "../../otp/pumping-guard.ts";
import type { Verification } from "../../otp/verification.ts";
import { eventValues } from "../rows/event.ts";
import { messageValues } from "../rows/message.ts";
import { decisionValues, prefixValues } from "../rows/prefix.ts";
import { recordValues } from "../rows/record.ts";
import { messageKind } from "../rows/tenant.ts";
import { verificationChanges, verificationValues } from "../rows/verification.ts";
import { columns, type Cell } from "./columns.ts";
import type { Transaction } from "./connections.ts";
import { named } from "./load.ts";
import { statements as sql } from "./statements.ts";
import type { PostgresUnitOfWork } from "./unit-of-work.ts";

export function write(transaction: Transaction, unit: PostgresUnitOfWork): void {
  const verifications = unit.verifications.changes().written;
  const isNew = (v: Verification) => unit.newVerifications.has(v.id);
  const inserted = verifications.filter(isNew).map(verificationValues);
  const updated = verifications.filter((v) => !isNew(v)).map(verificationChanges);
  const messages = unit.messages.changes().written.map(messageValues);
  const buckets = unit.buckets.changes();
  const histories = unit.histories.changes();
  const records = unit.storedRecords.changes();
  if (inserted.length > 0) transaction.send(sql.insertVerifications, columns(inserted));
  if (updated.length > 0) transaction.send(sql.updateVerifications, columns(updated));
  if (messages.length > 0) transaction.send(sql.putMessages, columns(messages));
  if (buckets.written.length > 0)
    transaction.send(sql.putTats, columns(buckets.written.map(({ bucket, tatMs, kid }) => [bucket, tatMs, kid])));
  if (buckets.deleted.length > 0) transaction.send(sql.deleteTats, [buckets.deleted.map(bytesOf)]);
  if (histories.written.length > 0)
    transaction.send(
      sql.putHistories,
      columns(histories.written.map(({ index, history, kid }) => historyValues(index, history, kid))),
    );
  if (histories.deleted.length > 0) transaction.send(sql.deleteHistories, [histories.deleted.map(bytesOf)]);
  writePrefixes(transaction, unit);
  const days = unit.days.changes().written;
  if (days.length > 0) {
    transaction.send(
      sql.putCounters,
      columns(
        days.map(({ tenant, daily }) => [tenant, daily.day, messageKind, daily.count, daily.warned, daily.warnedCap]),
      ),
    );
  }
  const counts = [...unit.counts.values()].toSorted((a, b) => (a.tenant < b.tenant ? -1 : 1));
  if (counts.length > 0) {
    transaction.send(
      sql.addGuesses,
      columns(counts.map(({ tenant, minute, wrong, right }) => [tenant, minute, wrong, right])),
    );
  }
  if (unit.events.length > 0) {
    transaction.send(sql.insertEvents, columns(unit.events.map((event) => [...eventValues(event), unit.now])));
  }
  if (records.written.length > 0) transaction.send(sql.putRecords, columns(records.written.map(recordValues)));
  if (records.deleted.length > 0) transaction.send(sql.deleteRecords, [records.deleted.map(bytesOf)]);
}

function writePrefixes(transaction: Transaction, unit: PostgresUnitOfWork): void {
  const prefixes = unit.prefixes.changes().written;
  if (prefixes.length > 0) {
    transaction.send(sql.putPrefixes, columns(prefixes.map(({ name, record }) => prefixValues(name, record))));
  }
  if (unit.decided.length > 0) {
    transaction.send(
      sql.insertPrefixDecisions,
      columns(unit.decided.map((decided) => decisionValues(decided, decided.decision))),
    );
    const [tenants = [], names = []] = columns(named(unit.decided).map(({ tenant, prefix }) => [tenant, prefix]));
    transaction.send(sql.trimPrefixDecisions, [tenants, names, decisionsMax]);
  }
}

function historyValues(index: Uint8Array, { wrongCodes, refunds }: PhoneHistory, kid: number): Cell[] {
  return [index, JSON.stringify(wrongCodes), JSON.stringify(refunds), kid];
}

const bytesOf = (name: string) => Buffer.from(name, "latin1");
