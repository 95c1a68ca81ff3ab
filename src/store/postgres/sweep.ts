/**
 * The sweep on PostgreSQL, as on SQLite (sqlite-sweep.ts), but that several instances may sweep at once: what another has
 * locked is passed over, and what is deleted is looked at again under its lock.
 */
import { verificationEvents } from "../../otp/event.ts";
import { dayOf, isForgettable } from "../../otp/policy.ts";
import { isPrefixForgettable, prefixMemoryMs } from "../../otp/pumping-guard.ts";
import { oldestMinute } from "../../otp/spray.ts";
import { expire, stateAt } from "../../otp/verification.ts";
import type { Instant } from "../../system.ts";
import { columns, prefixOf, type Batches } from "./batches.ts";
import type { Connections } from "./connections.ts";
import { statements as sql } from "./statements.ts";
import { toPrefix, type PrefixRow } from "../rows/prefix.ts";
import { idText } from "../rows/id.ts";
import { toHistory, type PhoneRow } from "../rows/phone.ts";
import type { PhoneOf, Swept } from "../store.ts";

/** As on SQLite: a clock that was set back may come by a day again. */
const keptDays = 7;
const beforeAll = new Uint8Array();
const newRound: Round = { buckets: beforeAll, phones: beforeAll, records: beforeAll, prefixes: ["", ""] };

interface Round extends Record<"buckets" | "phones" | "records", Uint8Array | undefined> {
  readonly prefixes: readonly [tenant: string, prefix: string] | undefined;
}

/** Makes the sweep. It remembers where its round through the tables without an index on time has come to. */
export function createPostgresSweep(connections: Connections, batches: Batches) {
  let sweepFrom = newRound;

  /** Ends what has lapsed, as an act on each like any other. */
  async function endLapsed(now: Instant, max: number, phoneOf?: PhoneOf) {
    const found = await connections.query<{ id: Uint8Array }>(sql.lapsed, [now, max]);
    const isHeard = found.length > 0 && (await connections.query(sql.anyEndpoint, [])).length > 0;
    const ended = found.map(({ id }) => {
      const verificationId = idText(id);
      return batches.run({
        verificationId,
        prefixOf: (work) => phoneOf && prefixOf(work.verifications.get(verificationId), phoneOf),
        run: (work) => {
          const verification = work.verifications.get(verificationId);
          if (verification?.state !== "PENDING" || stateAt(verification, work.now) === "PENDING") return false;
          const expired = expire(verification);
          work.putVerification(expired);
          if (isHeard) work.events.push(...verificationEvents(verification, expired, undefined, work.now));
          work.mature(expired, phoneOf?.(expired).prefix);
          return true;
        },
      });
    });
    return (await Promise.all(ended)).filter(Boolean).length;
  }

  return async function sweep(now: Instant, max: number, retentionMs: number, phoneOf?: PhoneOf): Promise<Swept> {
    const from = sweepFrom;
    const expired = await endLapsed(now, max, phoneOf);
    const told = await connections.transact(async (transaction) => {
      const look = <Row>(statement: typeof sql.lapsed, start: Uint8Array | undefined) =>
        start === undefined ? [] : transaction.query<Row>(statement, [start, max]);
      const [outlived, past, decisions, buckets, phones, records, prefixes] = await Promise.all([
        transaction.query<{ id: Uint8Array }>(sql.outlived, [now - retentionMs, max]),
        transaction.query(sql.deleteGuesses, [oldestMinute(now), max]),
        transaction.query(sql.outlivedPrefixDecisions, [now - prefixMemoryMs, max]),
        look<{ bucket: Uint8Array; tat_ms: number }>(sql.bucketsFrom, from.buckets),
        look<PhoneRow>(sql.phonesFrom, from.phones),
        look<{ slot: Uint8Array; expire_ms: number }>(sql.staleRecords, from.records),
        from.prefixes === undefined ? [] : transaction.query<PrefixRow>(sql.prefixesFrom, [...from.prefixes, max]),
      ]);
      const silent = prefixes.filter((row) => isPrefixForgettable(toPrefix(row), now));
      const full = buckets.filter(({ tat_ms }) => tat_ms <= now).map(({ bucket }) => bucket);
      const forgettable = phones.filter((row) => isForgettable(toHistory(row), now));
      const stale = records.filter(({ expire_ms }) => expire_ms <= now).map(({ slot }) => slot);
      if (silent.length > 0)
        transaction.send(sql.deletePrefixes, columns(silent.map((row) => [row.tenant, row.prefix, row.last_ms])));
      transaction.send(sql.deleteDays, [dayOf(now) - keptDays]);
      if (outlived.length > 0) transaction.send(sql.deleteMessages, [outlived.map(({ id }) => id)]);
      if (full.length > 0) transaction.send(sql.deleteFullTats, [full, now]);
      if (forgettable.length > 0)
        transaction.send(
          sql.deleteForgottenPasts,
          columns(forgettable.map((row) => [row.phone_index, row.wrong_codes, row.refunds])),
        );
      if (stale.length > 0) transaction.send(sql.deleteStaleRecords, [stale, now]);
      const next: Round = {
        buckets: nextFrom(buckets, max, ({ bucket }) => bucket),
        phones: nextFrom(phones, max, ({ phone_index }) => phone_index),
        records: nextFrom(records, max, ({ slot }) => slot),
        prefixes: nextFrom(prefixes, max, ({ tenant, prefix }) => [tenant, prefix] as const),
      };
      const isThrough = Object.values(next).every((key) => key === undefined);
      return {
        next: isThrough ? newRound : next,
        swept: {
          expired,
          deleted: [outlived, past, decisions, full, forgettable, stale, silent].reduce(
            (sum, { length }) => sum + length,
            0,
          ),
          more: !isThrough || expired === max || [outlived, past, decisions].some(({ length }) => length === max),
        },
      };
    });
    sweepFrom = told.next;
    return told.swept;
  };
}

function nextFrom<Row, Key>(found: readonly Row[], max: number, keyOf: (row: Row) => Key): Key | undefined {
  const last = found.at(-1);
  return found.length < max || last === undefined ? undefined : keyOf(last);
}
