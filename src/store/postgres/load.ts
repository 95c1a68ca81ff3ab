/**
 * What a batch of acts declares, locked and loaded in two round trips: first what they name, then what belongs to it.
 */
import { digest } from "../../otp/keys/key-ring.ts";
import type { Verdict } from "../../otp/verification/destination.ts";
import { oldestMinute, type Guesses } from "../../otp/verification/spraying.ts";
import type { Instant } from "../../system.ts";
import { idBytes, idText } from "../rows/values.ts";
import { toMessage, type MessageRow } from "../rows/message.ts";
import { bucketKey, lanes, toHistory, type BucketRow, type PhoneRow } from "../rows/phone.ts";
import { prefixKey, toPrefix, type PrefixRow } from "../rows/prefix.ts";
import { toRecord, type RecordRow } from "../rows/record.ts";
import { lifeMaxMs } from "../../otp/verification/verification.ts";
import { toVerification, type VerificationRow } from "../rows/verification.ts";
import type { PhoneRef, PrefixName } from "../store.ts";
import type { Act, ListedNumber } from "../unit-of-work.ts";
import type { StoreClock } from "./clock.ts";
import { BatchDays, type CountedRow, type CountName, type Lots } from "./lots.ts";
import type { Transaction } from "./connections.ts";
import { statements as sql } from "./statements.ts";
import { columns } from "./columns.ts";
import { numberKey, PostgresUnitOfWork } from "./unit-of-work.ts";

/** Locks and loads what acts declare, in two round trips. `clock` hears the database's time. */
export async function load(
  transaction: Transaction,
  clock: StoreClock,
  acts: readonly Act<unknown>[],
  lots: Lots,
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
  await loadBelongings({ transaction, clock, lots }, unit, acts, unique(records.map((row) => row.verification_id)));
  return unit;
}

/** Locks and loads what belongs to the verifications and phones that acts are about. */
async function loadBelongings(
  { transaction, clock, lots }: { transaction: Transaction; clock: StoreClock; lots: Lots },
  unit: PostgresUnitOfWork,
  acts: readonly Act<unknown>[],
  recorded: readonly Uint8Array[],
): Promise<void> {
  const refs = acts.flatMap((act) => act.phone?.(unit) ?? []);
  const phones = phoneKeys(refs);
  const missing = recorded.filter((id) => unit.verifications.get(idText(id)) === undefined);
  const prefixes = named(acts.map((act) => act.prefix?.(unit)));
  const tenants = [...new Set(acts.flatMap(({ guessesOf }) => guessesOf ?? []))];
  const numbers = [...new Map(acts.flatMap((act) => pairOf(act.number?.(unit), numberKey))).values()];
  const now = clock.now();
  const days = new BatchDays(
    lots,
    acts.flatMap((act) => act.daily?.(unit) ?? []),
    now,
  );
  // Phones, then prefixes, then tenants.
  const keys = [
    ...lockKeys([...phones.indexes, ...phones.limits]),
    ...lockKeys(prefixes.map(prefixLock)),
    ...lockKeys(days.locked().map(dayLock)),
  ];
  if (keys.length > 0) transaction.send(sql.lock, [keys]);
  const rows = days.keys();
  const [referred, [found]] = await Promise.all([
    missing.length === 0 ? [] : transaction.query<VerificationRow>(sql.verifications, [missing]),
    transaction.query<Belongings>(
      sql.belongings.statement,
      sql.belongings.values({
        ...(prefixes.length === 0 ? {} : { prefixes: columns(prefixes.map(({ tenant, prefix }) => [tenant, prefix])) }),
        ...(tenants.length === 0 ? {} : { guesses: [tenants, oldestMinute(now)] }),
        ...(numbers.length === 0
          ? {}
          : { longestDestinations: columns(numbers.map(({ tenant, number }) => [tenant, number])) }),
        ...(rows.length === 0 ? {} : { counters: columns(rows) }),
        ...phoneValues(phones, now),
      }),
    ),
  ]);
  for (const row of referred) unit.loadVerification(toVerification(row));
  if (found === undefined) throw new Error("a statement without a table has one row");
  for (const { now_ms } of found.clock ?? []) clock.heard(now_ms);
  unit.now = clock.now();
  for (const row of found.prefixes ?? []) unit.loadPrefix(row, toPrefix(row));
  for (const { tenant, wrong, right } of found.guesses ?? []) unit.loadGuesses(tenant, { wrong, right });
  for (const row of found.longestDestinations ?? []) unit.loadVerdict(row, row.verdict);
  loadFound(unit, phones, found);
  unit.counting = days;
  for (const count of await days.load(transaction, found.counters ?? [], unit.now)) unit.loadDay(count, count.seen);
}

/** What one statement has read: rows of each kind, null for none. Those of bytes tell which, from 1 on. */
interface Belongings {
  readonly clock: readonly { readonly now_ms: number }[] | null;
  readonly prefixes: readonly PrefixRow[] | null;
  readonly guesses: readonly (Guesses & { tenant: string })[] | null;
  readonly longestDestinations: readonly (ListedNumber & { verdict: Verdict })[] | null;
  readonly counters: readonly CountedRow[] | null;
  readonly tats: readonly (Placed & Omit<BucketRow, "bucket">)[] | null;
  readonly histories: readonly (Placed & Omit<PhoneRow, "phone_index">)[] | null;
  readonly openAttempts: readonly (Placed & { readonly open: number })[] | null;
}

interface Placed {
  readonly place: number;
}

/** What is kept of phones is found by these. */
interface PhoneKeys {
  readonly buckets: readonly Buffer[];
  readonly indexes: readonly Buffer[];
  /** Those of them that have limits: in the sandbox one number may have all requests, and nothing asks for its open attempts. */
  readonly limited: readonly Buffer[];
  /** Those of named limits, which are locked in one order with them. */
  readonly limits: readonly Buffer[];
}

function phoneKeys(refs: readonly PhoneRef[]): PhoneKeys {
  const buckets = refs.flatMap(({ indexes: own, knownUser, buckets: places }) =>
    own.flatMap((index) =>
      Array.from({ length: places }, (_, place) => bucketKey(index, (knownUser ? lanes.known : lanes.first) | place)),
    ),
  );
  const limits = refs.flatMap((ref) => ref.limits ?? []);
  const ofLimits = limits.flatMap(({ indexes, limits: places }) =>
    indexes.flatMap((index) => places.map((_, place) => bucketKey(index, lanes.named | place))),
  );
  return {
    buckets: unique([...buckets, ...ofLimits]),
    indexes: unique(refs.flatMap((ref) => ref.indexes)),
    limited: unique(refs.flatMap((ref) => (ref.buckets > 0 ? ref.indexes : []))),
    limits: unique(limits.flatMap(({ indexes }) => indexes)),
  };
}

function phoneValues(
  { buckets, indexes, limited }: PhoneKeys,
  now: Instant,
): Parameters<typeof sql.belongings.values>[0] {
  if (indexes.length === 0) return {};
  const openAttempts = limited.length === 0 ? {} : { openAttempts: [limited, now - lifeMaxMs, now] as const };
  return { tats: [buckets], histories: [indexes], ...openAttempts };
}

/** Loads what was found of phones: the buckets of their limits, their histories, and the attempts left on their requests. */
function loadFound(unit: PostgresUnitOfWork, { buckets, indexes, limited }: PhoneKeys, found: Belongings): void {
  const at = (keys: readonly Buffer[], { place }: Placed) => keys[place - 1] ?? Buffer.alloc(0);
  for (const row of found.tats ?? []) unit.loadBucket(at(buckets, row), row.tat_ms);
  for (const row of found.histories ?? []) {
    const index = at(indexes, row);
    unit.loadHistory(index, toHistory({ ...row, phone_index: index }));
  }
  for (const row of found.openAttempts ?? []) unit.loadOpenAttempts(at(limited, row), row.open);
}

/** Loads what is kept of phones, unlocked. */
export async function loadPhones(
  { query }: Pick<Transaction, "query">,
  now: Instant,
  unit: PostgresUnitOfWork,
  refs: readonly PhoneRef[],
): Promise<void> {
  const phones = phoneKeys(refs);
  const [found] = await query<Belongings>(sql.belongings.statement, sql.belongings.values(phoneValues(phones, now)));
  if (found !== undefined) loadFound(unit, phones, found);
}

function pairOf<T>(thing: T | undefined, keyOf: (thing: T) => string): [string, T][] {
  return thing === undefined ? [] : [[keyOf(thing), thing]];
}

/** Each prefix once. */
export function named(list: readonly (PrefixName | undefined)[]): PrefixName[] {
  return [...new Map(list.flatMap((name) => pairOf(name, prefixKey))).values()];
}

/** A version before kinds locked the day of a tenant, which is that of its messages. */
function dayLock({ tenant, kind }: CountName): Buffer {
  return kind === "messages" ? digest("day", tenant) : digest("day", tenant, kind);
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
