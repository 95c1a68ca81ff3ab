/**
 * What a batch of acts declares, locked and loaded in two round trips: first what they name, then what belongs to it.
 */
import { digest } from "../../otp/key-ring.ts";
import type { Verdict } from "../../otp/destination.ts";
import { dayOf } from "../../otp/policy.ts";
import { oldestMinute, type Guesses } from "../../otp/spraying.ts";
import type { Instant } from "../../system.ts";
import { idBytes, idText } from "../rows/values.ts";
import { toMessage, type MessageRow } from "../rows/message.ts";
import { bucketKey, toHistory, type BucketRow, type PhoneRow } from "../rows/phone.ts";
import { toPrefix, type PrefixRow } from "../rows/prefix.ts";
import { toRecord, type RecordRow } from "../rows/record.ts";
import { messageKind, toDaily, type CounterRow } from "../rows/tenant.ts";
import { lifeMaxMs, toVerification, type VerificationRow } from "../rows/verification.ts";
import type { PhoneRef, PrefixName } from "../store.ts";
import type { Act, ListedNumber } from "../unit-of-work.ts";
import type { StoreClock } from "./clock.ts";
import type { Transaction } from "./connections.ts";
import { statements as sql } from "./statements.ts";
import { columns } from "./columns.ts";
import { numberKey, PostgresUnitOfWork, prefixKey } from "./unit-of-work.ts";

/** Locks and loads what acts declare, in two round trips. `clock` hears the database's time. */
export async function load(
  transaction: Transaction,
  clock: StoreClock,
  acts: readonly Act<unknown>[],
): Promise<PostgresUnitOfWork> {
  const unit = new PostgresUnitOfWork();
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
  for (const row of records) unit.loadRecord(toRecord(row));
  for (const row of verifications) unit.loadVerification(toVerification(row));
  for (const row of messages) unit.loadMessage(toMessage(row));
  await loadBelongings(transaction, clock, unit, acts, unique(records.map((row) => row.verification_id)));
  return unit;
}

/** Locks and loads what belongs to the verifications and phones that acts are about. */
async function loadBelongings(
  transaction: Transaction,
  clock: StoreClock,
  unit: PostgresUnitOfWork,
  acts: readonly Act<unknown>[],
  recorded: readonly Uint8Array[],
): Promise<void> {
  const refs = acts.flatMap((act) => act.phone?.(unit) ?? []);
  const indexes = unique(refs.flatMap((ref) => ref.indexes));
  const missing = recorded.filter((id) => unit.verifications.get(idText(id)) === undefined);
  const prefixes = named(acts.map((act) => act.prefix?.(unit)));
  const tenants = [...new Set(acts.flatMap(({ guessesOf }) => guessesOf ?? []))];
  const numbers = [...new Map(acts.flatMap((act) => pairOf(act.number?.(unit), numberKey))).values()];
  const capped = [...new Set(acts.flatMap((act) => act.cappedTenant?.(unit) ?? []))];
  // Phones, then prefixes, then tenants.
  const keys = [
    ...lockKeys(indexes),
    ...lockKeys(prefixes.map(prefixLock)),
    ...lockKeys(capped.map((tenant) => digest("day", tenant))),
  ];
  if (keys.length > 0) transaction.send(sql.lock, [keys]);
  const now = clock.now();
  const [referred, known, guesses, verdicts, days, times] = await Promise.all([
    missing.length === 0 ? [] : transaction.query<VerificationRow>(sql.verifications, [missing]),
    prefixes.length === 0
      ? []
      : transaction.query<PrefixRow>(sql.prefixes, columns(prefixes.map(({ tenant, prefix }) => [tenant, prefix]))),
    tenants.length === 0
      ? []
      : transaction.query<Guesses & { tenant: string }>(sql.guesses, [tenants, oldestMinute(now)]),
    numbers.length === 0
      ? []
      : transaction.query<ListedNumber & { verdict: Verdict }>(
          sql.longestDestinations,
          columns(numbers.map(({ tenant, number }) => [tenant, number])),
        ),
    capped.length === 0
      ? []
      : transaction.query<CounterRow & { tenant: string }>(
          sql.counters,
          // A batch that is begun at midnight may be decided on the other side of it.
          columns(
            capped.flatMap((tenant) => [
              [tenant, dayOf(now), messageKind],
              [tenant, dayOf(now) + 1, messageKind],
            ]),
          ),
        ),
    transaction.query<{ now_ms: number }>(sql.clock, []),
    loadPhones(transaction, now, unit, refs),
  ]);
  for (const row of known) unit.loadPrefix(row, toPrefix(row));
  for (const { tenant, wrong, right } of guesses) unit.loadGuesses(tenant, { wrong, right });
  for (const row of referred) unit.loadVerification(toVerification(row));
  for (const { now_ms } of times) clock.heard(now_ms);
  unit.now = clock.now();
  for (const row of verdicts) unit.loadVerdict(row, row.verdict);
  for (const { tenant, ...row } of days) {
    if (row.day === dayOf(unit.now)) unit.loadDay(tenant, toDaily(row));
  }
}

/** Loads what is kept of phones: the buckets of their limits, their histories, and the attempts left on their requests. */
export async function loadPhones(
  { query }: Pick<Transaction, "query">,
  now: Instant,
  unit: PostgresUnitOfWork,
  refs: readonly PhoneRef[],
): Promise<void> {
  if (refs.length === 0) return;
  const indexes = unique(refs.flatMap((ref) => ref.indexes));
  const keys = refs.flatMap(({ indexes: own, knownUser, buckets }) =>
    own.flatMap((index) => Array.from({ length: buckets }, (_, place) => bucketKey(index, knownUser, place))),
  );
  const [buckets, histories, open] = await Promise.all([
    query<BucketRow>(sql.tats, [unique(keys)]),
    query<PhoneRow>(sql.histories, [indexes]),
    query<{ phone_index: Buffer; open: number }>(sql.openAttempts, [indexes, now - lifeMaxMs, now]),
  ]);
  for (const { bucket, tat_ms } of buckets) unit.loadBucket(bucket, tat_ms);
  for (const row of histories) unit.loadHistory(row.phone_index, toHistory(row));
  for (const { phone_index, open: attempts } of open) unit.loadOpenAttempts(phone_index, attempts);
}

function pairOf<T>(thing: T | undefined, keyOf: (thing: T) => string): [string, T][] {
  return thing === undefined ? [] : [[keyOf(thing), thing]];
}

/** Each prefix once. */
export function named(list: readonly (PrefixName | undefined)[]): PrefixName[] {
  return [...new Map(list.flatMap((name) => pairOf(name, prefixKey))).values()];
}

function prefixLock({ tenant, prefix }: PrefixName): Buffer {
  return digest("prefix", tenant, prefix);
}

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
