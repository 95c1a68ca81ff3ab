/**
 * Acts on PostgreSQL in batches: those that arrive together share one transaction and its round trips, of which there are
 * three: lock and load what acts name, lock and load what those things belong to, write and commit. Locks are taken in one
 * order everywhere (slots, verifications, phones, prefixes, days; ascending within each), so that batches of any instance
 * queue up and do not deadlock. No act is answered before the commit.
 */
import type { Slot } from "../../otp/idempotency.ts";
import { digest } from "../../otp/key-ring.ts";
import type { Verdict } from "../../otp/destination.ts";
import { dayOf, type PhoneHistory } from "../../otp/policy.ts";
import { decisionsMax } from "../../otp/pumping-guard.ts";
import { oldestMinute, type Guesses } from "../../otp/spray.ts";
import type { Verification } from "../../otp/verification.ts";
import type { Instant } from "../../system.ts";
import { eventValues } from "../rows/event.ts";
import { type Connections, type Transaction } from "./connections.ts";
import { statements as sql } from "./statements.ts";
import { prefixKey, Work } from "./unit-of-work.ts";
import { decisionValues, prefixValues, toPrefix, type PrefixRow } from "../rows/prefix.ts";
import { recordValues, toRecord, type RecordRow } from "../rows/record.ts";
import { idBytes, idText } from "../rows/id.ts";
import { toVerification, type VerificationRow, verificationChanges, verificationValues } from "../rows/verification.ts";
import { messageValues, toMessage, type MessageRow } from "../rows/message.ts";
import { bucketKey, toHistory, type PhoneRow } from "../rows/phone.ts";
import { toDaily, type DailyRow } from "../rows/tenant.ts";
import {
  StoreUnavailable,
  type BatchMeter,
  type PhoneOf,
  type PhoneRef,
  type PrefixName,
  type PrefixNews,
  type StoreWatchers,
} from "../store.ts";

/** What one act is about, and what it does once that is locked and loaded. */
export interface Act<T> {
  readonly slot?: Slot | undefined;
  readonly verificationId?: string | undefined;
  /** True when it needs the messages of its verification. */
  readonly withMessages?: boolean;
  /** The tenant whose guesses it looks at. */
  readonly tenant?: string | undefined;
  /** The phone it is about, once its verification is loaded. */
  phoneOf?(work: Work): PhoneRef | undefined;
  /** The number that it asks the lists about, once its verification is loaded. */
  numberOf?(work: Work): ListedNumber | undefined;
  /** The tenant whose day it needs, once its verification is loaded. */
  cappedTenantOf?(work: Work): string | undefined;
  /** The prefix it is about, once its verification is loaded. */
  prefixOf?(work: Work): PrefixName | undefined;
  /** Pure but for what it does to the work; may be run again on fresh work. */
  run(work: Work): T;
}

export interface ListedNumber {
  readonly tenant: string;
  readonly number: string;
}

export const numberKey = ({ tenant, number }: ListedNumber) => `${tenant} ${number}`;

interface Waiting {
  readonly act: Act<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** The store's clock: the database's, by the latest look at it. */
export interface StoreClock {
  now(): Instant;
  /** Notes what the database's clock said just now. */
  heard(databaseMs: Instant): void;
}

const batchActsMax = 128;
/** Transactions under way. More would be smaller, and wait for one another's locks. */
const batchesMax = 3;
const queueActsMax = 4_096;
/** No verification lives longer than this, so an older one of a phone cannot be open. */
const lifeMaxMs = 600_000;

export class Batches {
  readonly #connections: Connections;
  readonly #clock: StoreClock;
  readonly #onPrefix: (news: PrefixNews) => void;
  readonly #meter: BatchMeter | undefined;
  readonly #queue: Waiting[] = [];
  #underWay = 0;
  #scheduled = false;
  #closed = false;
  #whenIdle: (() => void)[] = [];

  constructor(connections: Connections, clock: StoreClock, { onPrefix, meter }: StoreWatchers) {
    this.#meter = meter;
    this.#connections = connections;
    this.#clock = clock;
    this.#onPrefix = onPrefix ?? (() => {});
  }

  /** Runs an act within the next batch; resolves with its value once that is durable. */
  run<T>(act: Act<T>): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreUnavailable("the store is closed"));
    if (this.#queue.length >= queueActsMax) return Promise.reject(new StoreUnavailable("too many acts are waiting"));
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ act, resolve: resolve as (value: unknown) => void, reject });
      this.#schedule();
    });
  }

  /** Takes no more acts, and waits for those there are. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#underWay > 0 || this.#queue.length > 0)
      await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
  }

  #schedule(): void {
    if (this.#scheduled || this.#underWay >= batchesMax || this.#queue.length === 0) return;
    this.#scheduled = true;
    // What else arrives in this turn comes along.
    setImmediate(() => {
      this.#scheduled = false;
      if (this.#underWay >= batchesMax || this.#queue.length === 0) return;
      this.#underWay += 1;
      void this.#performNext();
      this.#schedule();
    });
  }

  async #performNext(): Promise<void> {
    await this.#perform(this.#queue.splice(0, batchActsMax));
    this.#underWay -= 1;
    this.#schedule();
    if (this.#underWay === 0 && this.#queue.length === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  async #perform(batch: readonly Waiting[]): Promise<void> {
    const began = this.#meter?.begin() ?? 0;
    try {
      const { done: outcomes, news } = await this.#connections.transact(async (transaction) => {
        const work = await this.#load(
          transaction,
          batch.map(({ act }) => act),
        );
        const done = batch.map(({ act }) => {
          const outcome = attempt(() => act.run(work));
          if (work.isHalfDone) throw new HalfDone(outcome);
          return outcome;
        });
        write(transaction, work);
        return { done, news: work.news };
      });
      this.#meter?.end(began, batch.length, true);
      news.forEach(this.#onPrefix);
      for (const [i, { resolve, reject }] of batch.entries()) {
        const outcome = outcomes[i];
        if (outcome?.ok === true) resolve(outcome.value);
        else reject(outcome?.error);
      }
    } catch (error) {
      // A fault of one act (its values were refused, it failed half way) took its neighbours' with it: each by itself then.
      if (batch.length > 1 && !(error instanceof StoreUnavailable)) {
        for (const waiting of batch) await this.#perform([waiting]);
      } else {
        if (error instanceof StoreUnavailable) this.#meter?.end(began, batch.length, false);
        const why = error instanceof HalfDone ? error.why : error;
        for (const { reject } of batch) reject(why);
      }
    }
  }

  async #load(transaction: Transaction, acts: readonly Act<unknown>[]): Promise<Work> {
    const work = new Work();
    const slots = unique(acts.map(({ slot }) => slot?.digest));
    const names = unique(acts.flatMap(({ slot }) => slot?.names ?? []));
    const ids = unique(acts.map(({ verificationId: id }) => (id === undefined ? undefined : idBytes(id))));
    const withMessages = unique(
      acts.map((act) => (act.withMessages === true ? idBytes(act.verificationId ?? "") : undefined)),
    );
    if (slots.length > 0) transaction.send(sql.lock, [lockKeys(slots)]);
    // Sent together: the database takes them one by one, each with a view of its own.
    const [records, verifications, messages] = await Promise.all([
      names.length === 0 ? [] : transaction.query<RecordRow>(sql.records, [names]),
      ids.length === 0 ? [] : transaction.query<VerificationRow>(sql.lockVerifications, [ids]),
      withMessages.length === 0 ? [] : transaction.query<MessageRow>(sql.messages, [withMessages]),
    ]);
    for (const row of records) work.loadRecord(toRecord(row));
    for (const row of verifications) loadVerification(work, toVerification(row));
    for (const row of messages) work.loadMessage(toMessage(row));
    await this.#loadPhones(transaction, work, acts, unique(records.map((row) => row.verification_id)));
    return work;
  }

  async #loadPhones(
    transaction: Transaction,
    work: Work,
    acts: readonly Act<unknown>[],
    recorded: readonly Uint8Array[],
  ): Promise<void> {
    const refs = acts.flatMap((act) => act.phoneOf?.(work) ?? []);
    const indexes = unique(refs.flatMap((ref) => ref.indexes));
    const buckets = unique(
      refs.flatMap((ref) =>
        ref.indexes.flatMap((index) =>
          Array.from({ length: ref.buckets }, (_, place) => bucketKey(index, ref.knownUser, place)),
        ),
      ),
    );
    const missing = recorded.filter((id) => work.verifications.get(idText(id)) === undefined);
    const prefixes = named(acts.map((act) => act.prefixOf?.(work)));
    const tenants = [...new Set(acts.flatMap(({ tenant }) => (tenant === undefined ? [] : [tenant])))];
    const numbers = [...new Map(acts.flatMap((act) => pairOf(act.numberOf?.(work), numberKey))).values()];
    const capped = [...new Set(acts.flatMap((act) => act.cappedTenantOf?.(work) ?? []))];
    // Phones, then prefixes, then tenants.
    const keys = [
      ...lockKeys(indexes),
      ...lockKeys(prefixes.map(prefixLock)),
      ...lockKeys(capped.map((tenant) => digest("day", tenant))),
    ];
    if (keys.length > 0) transaction.send(sql.lock, [keys]);
    const now = this.#clock.now();
    const [referred, tats, pasts, open, known, guesses, verdicts, days, clock] = await Promise.all([
      missing.length === 0 ? [] : transaction.query<VerificationRow>(sql.verifications, [missing]),
      buckets.length === 0 ? [] : transaction.query<{ bucket: Buffer; tat_ms: number }>(sql.tats, [buckets]),
      indexes.length === 0 ? [] : transaction.query<PhoneRow>(sql.pasts, [indexes]),
      indexes.length === 0
        ? []
        : transaction.query<{ phone_index: Buffer; open: number }>(sql.openAttempts, [indexes, now - lifeMaxMs, now]),
      prefixes.length === 0
        ? []
        : transaction.query<PrefixRow>(sql.prefixes, columns(prefixes.map(({ tenant, prefix }) => [tenant, prefix]))),
      tenants.length === 0
        ? []
        : transaction.query<Guesses & { tenant: string }>(sql.guesses, [tenants, oldestMinute(now)]),
      numbers.length === 0
        ? []
        : transaction.query<ListedNumber & { verdict: Verdict }>(
            sql.verdicts,
            columns(numbers.map(({ tenant, number }) => [tenant, number])),
          ),
      capped.length === 0
        ? []
        : transaction.query<DailyRow & { tenant: string }>(
            sql.days,
            // A batch that is begun at midnight may be decided on the other side of it.
            columns(
              capped.flatMap((tenant) => [
                [tenant, dayOf(now)],
                [tenant, dayOf(now) + 1],
              ]),
            ),
          ),
      transaction.query<{ now_ms: number }>(sql.clock, []),
    ]);
    for (const row of known) work.loadPrefix(row, toPrefix(row));
    for (const { tenant, wrong, right } of guesses) work.guesses.set(tenant, { wrong, right });
    for (const row of referred) loadVerification(work, toVerification(row));
    for (const { bucket, tat_ms } of tats) work.loadTat(bucket, tat_ms);
    for (const row of pasts) work.loadPast(row.phone_index, toHistory(row));
    for (const { phone_index, open: attempts } of open) work.loadOpenAttempts(phone_index, attempts);
    for (const { now_ms } of clock) this.#clock.heard(now_ms);
    work.now = this.#clock.now();
    for (const row of verdicts) work.verdicts.set(numberKey(row), row.verdict);
    for (const { tenant, ...row } of days) {
      if (row.day === dayOf(work.now)) work.days.load(tenant, { tenant, daily: toDaily(row) });
    }
  }
}

function loadVerification(work: Work, verification: Verification): void {
  work.verifications.load(verification.id, verification);
}

/** Sends all that a batch has changed. */
function write(transaction: Transaction, work: Work): void {
  const verifications = work.verifications.changes().written;
  const isNew = (v: Verification) => work.newVerifications.has(v.id);
  const inserted = verifications.filter(isNew).map(verificationValues);
  const updated = verifications.filter((v) => !isNew(v)).map(verificationChanges);
  const messages = work.messages.changes().written.map(messageValues);
  const tats = work.tats.changes();
  const pasts = work.pasts.changes();
  const records = work.records.changes();
  if (inserted.length > 0) transaction.send(sql.insertVerifications, columns(inserted));
  if (updated.length > 0) transaction.send(sql.updateVerifications, columns(updated));
  if (messages.length > 0) transaction.send(sql.putMessages, columns(messages));
  if (tats.written.length > 0)
    transaction.send(sql.putTats, columns(tats.written.map(({ bucket, tatMs, kid }) => [bucket, tatMs, kid])));
  if (tats.deleted.length > 0) transaction.send(sql.deleteTats, [tats.deleted.map(bytesOf)]);
  if (pasts.written.length > 0)
    transaction.send(
      sql.putPasts,
      columns(pasts.written.map(({ index, history, kid }) => pastValues(index, history, kid))),
    );
  if (pasts.deleted.length > 0) transaction.send(sql.deletePasts, [pasts.deleted.map(bytesOf)]);
  writePrefixes(transaction, work);
  const days = work.days.changes().written;
  if (days.length > 0) {
    transaction.send(
      sql.putDays,
      columns(days.map(({ tenant, daily }) => [tenant, daily.day, daily.count, daily.warned, daily.warnedCap])),
    );
  }
  const counts = [...work.counts.values()].toSorted((a, b) => (a.tenant < b.tenant ? -1 : 1));
  if (counts.length > 0) {
    transaction.send(
      sql.addGuesses,
      columns(counts.map(({ tenant, minute, wrong, right }) => [tenant, minute, wrong, right])),
    );
  }
  if (work.events.length > 0) {
    transaction.send(sql.insertEvents, columns(work.events.map((event) => [...eventValues(event), work.now])));
  }
  if (records.written.length > 0) transaction.send(sql.putRecords, columns(records.written.map(recordValues)));
  if (records.deleted.length > 0) transaction.send(sql.deleteRecords, [records.deleted.map(bytesOf)]);
}

function writePrefixes(transaction: Transaction, work: Work): void {
  const prefixes = work.prefixes.changes().written;
  if (prefixes.length > 0) {
    transaction.send(sql.putPrefixes, columns(prefixes.map(({ name, record }) => prefixValues(name, record))));
  }
  if (work.news.length > 0) {
    transaction.send(sql.insertPrefixDecisions, columns(work.news.map((news) => decisionValues(news, news.decision))));
    const [tenants = [], names = []] = columns(named(work.news).map(({ tenant, prefix }) => [tenant, prefix]));
    transaction.send(sql.trimPrefixDecisions, [tenants, names, decisionsMax]);
  }
}

function pastValues(index: Uint8Array, { wrongCodes, refunds }: PhoneHistory, kid: number): Cell[] {
  return [index, JSON.stringify(wrongCodes), JSON.stringify(refunds), kid];
}

function pairOf<T>(thing: T | undefined, keyOf: (thing: T) => string): [string, T][] {
  return thing === undefined ? [] : [[keyOf(thing), thing]];
}

/** Each prefix once. */
function named(list: readonly (PrefixName | undefined)[]): PrefixName[] {
  return [...new Map(list.flatMap((name) => pairOf(name, prefixKey))).values()];
}

function prefixLock({ tenant, prefix }: PrefixName): Buffer {
  return digest("prefix", tenant, prefix);
}

export type Cell = string | number | Uint8Array | null;

/** Rows as columns: one array per parameter. */
export function columns(table: readonly (readonly Cell[])[]): Cell[][] {
  return (table[0] ?? []).map((_, column) => table.map((row) => row[column] ?? null));
}

const bytesOf = (name: string) => Buffer.from(name, "latin1");

function unique(list: readonly (Uint8Array | undefined)[]): Buffer[] {
  const byName = new Map<string, Buffer>();
  for (const bytes of list) {
    if (bytes === undefined) continue;
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    byName.set(buffer.toString("latin1"), buffer);
  }
  return [...byName.values()];
}

/** The first 64 bits of each, ascending, as text: they do not fit a number. */
function lockKeys(list: readonly Buffer[]): string[] {
  return list
    .map((bytes) => bytes.readBigInt64BE(0))
    .toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0))
    .map(String);
}

type Outcome<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: unknown };

/** An act failed after it had begun to change what the batch shares: nothing of the batch may be written. */
class HalfDone extends Error {
  readonly why: unknown;

  constructor(outcome: Outcome<unknown>) {
    super("an act failed half way");
    this.why = outcome.ok ? this : outcome.error;
  }
}

function attempt<T>(run: () => T): Outcome<T> {
  try {
    return { ok: true, value: run() };
  } catch (error) {
    return { ok: false, error };
  }
}

/** The prefix that an act on a verification may have to count at: while pending it may come to its end. */
export function prefixOf(verification: Verification | undefined, phoneOf: PhoneOf): PrefixName | undefined {
  const isCounted = verification !== undefined && verification.state === "PENDING" && verification.tally !== "none";
  return isCounted ? phoneOf(verification).prefix?.name() : undefined;
}
