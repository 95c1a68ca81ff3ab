/**
 * The sweep on SQLite: what has lapsed is ended, and what no longer matters is deleted, a bounded number of rows at a time.
 */
import { verificationEvents } from "../../otp/event.ts";
import { isForgettable } from "../../otp/policy.ts";
import { isPrefixForgettable, prefixMemoryMs } from "../../otp/pumping-guard.ts";
import { oldestMinute } from "../../otp/spray.ts";
import { expire, type Verification } from "../../otp/verification.ts";
import type { Instant } from "../../system.ts";
import { toPrefix, type PrefixRow } from "../rows/prefix.ts";
import { toVerification } from "../rows/verification.ts";
import { toHistory } from "../rows/phone.ts";
import { putEvent } from "./events.ts";
import type { createPrefixes } from "./prefixes.ts";
import type { createWork } from "./verifications.ts";
import type { prepare } from "./statements.ts";
import type { PhoneRef, Swept } from "../store.ts";

/** A sweep's round begins before every key. */
const beforeAll = new Uint8Array();
const newRound: Round = { buckets: beforeAll, phones: beforeAll, records: beforeAll, prefixes: ["", ""] };

/** Where the round through each table without an index on time goes on; undefined once it is through. */
interface Round extends Record<"buckets" | "phones" | "records", Uint8Array | undefined> {
  readonly prefixes: readonly [tenant: string, prefix: string] | undefined;
}

/** Makes the sweep, which runs within an act. It remembers where its round has come to. */
export function createSweep(
  sql: ReturnType<typeof prepare>,
  work: ReturnType<typeof createWork>,
  prefixes: ReturnType<typeof createPrefixes>,
) {
  let sweepFrom = newRound;

  return function sweep(
    now: Instant,
    max: number,
    retentionMs: number,
    phoneOf?: (verification: Verification) => PhoneRef,
  ): Swept {
    const lapsed = sql.lapsed.all(now, max);
    const isHeard = lapsed.length > 0 && sql.anyEndpoint.get() !== undefined;
    for (const row of lapsed) {
      const before = toVerification(row);
      const expired = expire(before);
      if (isHeard) for (const event of verificationEvents(before, expired, undefined, now)) putEvent(sql, event, now);
      work.update(expired);
      prefixes.mature(expired, phoneOf?.(expired).prefix, now);
    }

    const outlived = sql.outlived.all(now - retentionMs, max);
    for (const { id } of outlived) work.delete(id);
    const past = sql.oldGuesses.all(oldestMinute(now), max);
    for (const { tenant, minute } of past) sql.deleteGuesses.run(tenant, minute);

    // Each table is gone through once a round. Were a short one begun again while a long one is not yet through, the
    // two could miss each other's ends, and the round would last for ever.
    const from = sweepFrom;
    const nextFrom = <Row, Key>(found: readonly Row[], keyOf: (row: Row) => Key) => {
      const last = found.at(-1);
      return found.length < max || last === undefined ? undefined : keyOf(last);
    };
    const buckets = from.buckets === undefined ? [] : sql.bucketsFrom.all(from.buckets, max);
    const full = buckets.filter(({ tat_ms }) => tat_ms <= now);
    for (const { bucket } of full) sql.deleteTat.run(bucket);

    const phones = from.phones === undefined ? [] : sql.phonesFrom.all(from.phones, max);
    const forgettable = phones.filter((row) => isForgettable(toHistory(row), now));
    for (const { phone_index } of forgettable) sql.deletePhone.run(phone_index);

    const records = from.records === undefined ? [] : sql.recordsFrom.all(from.records, max);
    const stale = records.filter(({ expire_ms }) => expire_ms <= now);
    for (const { slot } of stale) sql.deleteRecord.run(slot);

    const named: PrefixRow[] = from.prefixes === undefined ? [] : sql.prefixesFrom.all(...from.prefixes, max);
    const silent = named.filter((row) => isPrefixForgettable(toPrefix(row), now));
    silent.forEach(prefixes.delete);

    const decisions = sql.outlivedPrefixDecisions.all(now - prefixMemoryMs, max);
    for (const { id } of decisions) sql.deletePrefixDecision.run(id);

    const next: Round = {
      buckets: nextFrom(buckets, ({ bucket }) => bucket),
      phones: nextFrom(phones, ({ phone_index }) => phone_index),
      records: nextFrom(records, ({ slot }) => slot),
      prefixes: nextFrom(named, ({ tenant, prefix }) => [tenant, prefix] as const),
    };
    const through = Object.values(next).every((key) => key === undefined);
    sweepFrom = through ? newRound : next;
    return {
      expired: lapsed.length,
      deleted:
        outlived.length +
        full.length +
        forgettable.length +
        stale.length +
        past.length +
        silent.length +
        decisions.length,
      more: !through || [lapsed, outlived, past, decisions].some((found) => found.length === max),
    };
  };
}
