/**
 * The acts on sums. The sweep sums what has ended in slices of time: a verification is summed if it ended at or before the
 * note of how far summing has come, which is written with the sums. So no row is marked, and calls pay nothing.
 *
 * What ends now must not end before that note, and what changes now must be seen as summed or not. So summing stays a
 * minute behind the store's clock, and before every verification that is still pending: it will end at its expiry at the
 * earliest. A transaction on a database lasts some seconds at most (postgres/pool.ts).
 */
import { channels } from "../../otp/channel.ts";
import { isSandbox } from "../../otp/sandbox.ts";
import {
  difference,
  dimensions,
  grouped,
  hourMs,
  hourOf,
  measures,
  merge,
  sumsKeptHours,
  tally,
  type ChargeOf,
  type Dimension,
  type GroupedRow,
  type Interval,
  type SumRow,
  type SumsQuery,
} from "../../otp/statistics.ts";
import type { Message } from "../../otp/message.ts";
import type { Verification } from "../../otp/verification.ts";
import type { Instant } from "../../system.ts";
import type { Engine } from "../engine.ts";
import {
  addSums,
  sumKeys,
  sumsOf,
  sumValues,
  tallyColumns,
  tallyRowOf,
  tallyText,
  type TallyRow,
} from "../rows/sums.ts";
import { at, idBytesOf } from "../rows/values.ts";
import { list, query, send, type Statement, type Steps, type Value } from "../statement.ts";
import type { DayUsed, Refusals, Statistics } from "../statistics.ts";

/** How far behind the store's clock summing stays, */
export const behindMs = 60_000;
/** and from when on a report may be late. Between the two, either is right. */
const lateFromMs = 30_000;
/** Of one group there is a row for each currency, and one of what has no cost. */
const rowsPerGroup = 4;
/** Below what a report may have (engine.ts), with room for what is not summed yet. */
const storedRowsMax = 40_000;

/** What a sample month (sample.ts) does to the sums, too. */
export const summing = {
  summed: { name: "summed", text: `SELECT end_ms FROM summing WHERE id = 1`, locksRows: true },
  oldestPending: {
    name: "oldest-pending",
    text: `SELECT min(expire_ms) AS expire_ms FROM verifications WHERE end_ms IS NULL`,
  },
  note: { name: "summing-note", text: `SELECT end_ms FROM summing WHERE id = 1` },
  advance: { name: "advance-summing", text: `UPDATE summing SET end_ms = $1 WHERE id = 1` },
  addRefusals: {
    name: "add-refusals",
    text: `INSERT INTO refusal_sums (hour, tenant, reason, count) VALUES ($1, $2, $3, $4)
      ON CONFLICT (hour, tenant, reason) DO UPDATE SET count = refusal_sums.count + excluded.count`,
  },
} as const;

const sql = {
  ...summing,
  progress: {
    name: "summing-progress",
    text: `SELECT s.end_ms AS summed, (SELECT min(end_ms) FROM verifications WHERE end_ms > s.end_ms) AS next
      FROM summing AS s WHERE id = 1`,
  },
  sliceEnd: {
    name: "slice-end",
    text: `SELECT end_ms FROM verifications WHERE end_ms > $1 AND end_ms <= $2 ORDER BY end_ms LIMIT 1 OFFSET $3`,
  },
  anyOld: { name: "any-old-sums", text: `SELECT 1 FROM sums WHERE hour < $1 LIMIT 1` },
  deleteOld: { name: "delete-old-sums", text: `DELETE FROM sums WHERE hour < $1` },
  deleteOldRefusals: { name: "delete-old-refusals", text: `DELETE FROM refusal_sums WHERE hour < $1` },
  day: {
    name: "day-used",
    text: `SELECT tenant, kind, count FROM counters WHERE day = $1 AND ($2 = '' OR tenant = $2)
      ORDER BY count DESC, tenant, kind LIMIT $3`,
  },
} as const;

/** How far summing has come, and whether there is more to do at once. */
export interface Summing {
  /** What ended by then is summed. */
  readonly summedMs: Instant;
  readonly more: boolean;
}

/**
 * Sums what has ended next: up to `max` verifications, and those that ended in the same millisecond as the last one. It stays
 * less far behind where even the retention is shorter.
 */
export type SumNext = (max: number, retentionMs: number) => Promise<Summing>;

export function createSumming(engine: Engine, chargeOf: ChargeOf): SumNext {
  const slice: Statement = {
    name: "sum-slice",
    text: tallyText({ where: ["end_ms > $1 AND end_ms <= $2"], join: engine.messagesJoin }),
  };
  return async function sumNext(max, retentionMs) {
    const [progress] = await engine.query<{ summed: number; next: number | null }>(sql.progress, []);
    const summedMs = progress?.summed ?? 0;
    const untilMs = engine.now() - Math.min(behindMs, retentionMs);
    if ((progress?.next ?? Number.POSITIVE_INFINITY) > untilMs) return { summedMs, more: false };
    return engine.transact(function* () {
      const [note] = yield* query<{ end_ms: number }>(sql.summed);
      const fromMs = note?.end_ms ?? 0;
      const [pending] = yield* query<{ expire_ms: number | null }>(sql.oldestPending);
      const lastMs = Math.min(untilMs, (pending?.expire_ms ?? Number.POSITIVE_INFINITY) - 1);
      const [last] = yield* query<{ end_ms: number }>(sql.sliceEnd, [fromMs, lastMs, max - 1]);
      const toMs = last?.end_ms ?? lastMs;
      // Another instance was here meanwhile, or something pending is in the way.
      if (toMs <= fromMs) return { summedMs: fromMs, more: false };
      const rows = yield* query<TallyRow>(slice, [fromMs, toMs]);
      yield* add(merge(sumsOf(rows, chargeOf)));
      yield* send(sql.advance, [toMs]);
      return { summedMs: toMs, more: last !== undefined };
    });
  };
}

/**
 * Makes the steps that sum verifications which are about to be deleted before their time, unless they are summed already: to
 * be taken in the transaction that deletes them, before it does.
 */
export function createErasing(engine: Engine, chargeOf: ChargeOf): (ids: readonly string[]) => Steps<void> {
  const one: Statement = {
    name: "sum-erased",
    text: tallyText({
      where: ["id = $1 AND (end_ms IS NULL OR end_ms > (SELECT end_ms FROM summing WHERE id = 1))"],
      join: engine.messagesJoin,
    }),
  };
  return function* sumErased(ids) {
    yield* query(sql.summed);
    const found: TallyRow[] = [];
    for (const id of ids) found.push(...(yield* query<TallyRow>(one, [idBytesOf(id)])));
    yield* add(merge(sumsOf(found, chargeOf)));
  };
}

function* add(rows: readonly SumRow[]): Steps<void> {
  if (rows.length > 0) yield* send(addSums, ...rows.map(sumValues));
}

/** Forgets sums that are too old. */
export async function forgetSums(engine: Engine): Promise<void> {
  const hour = hourOf(engine.now()) - sumsKeptHours;
  if ((await engine.query(sql.anyOld, [hour])).length > 0) await engine.write(sql.deleteOld, [hour]);
  await engine.write(sql.deleteOldRefusals, [hour]);
}

/** What is to be added for a message that changes after its verification's end, should that be summed already. Pure. */
export function lateChange(
  before: { readonly verification: Verification; readonly message: Message },
  after: typeof before,
  chargeOf: ChargeOf,
  now: Instant,
): SumRow[] {
  const { endMs, tenant } = before.verification;
  if (endMs === null || endMs > now - lateFromMs || isSandbox(tenant)) return [];
  const { verification, message } = before;
  // Called for what changes, which is seldom.
  return difference(tally(verification, message, chargeOf), tally(after.verification, after.message, chargeOf));
}

// ---- reading --------------------------------------------------------------------------------------------------------

/** A row in JSON, which costs a thread and a connection less to hand over than 42 columns. */
interface ToldRow {
  readonly is_stored: number;
  readonly told: string;
}

export function statisticsActs(engine: Engine, chargeOf: ChargeOf): Statistics {
  const reads = new Map<string, Statement>();
  const readOf = (asked: SumsQuery) => {
    const read = reads.get(readName(asked)) ?? { name: readName(asked), text: readText(asked, engine) };
    reads.set(read.name, read);
    return read;
  };
  return {
    async readSums(asked, max) {
      const { fromHour, toHour, tenant } = asked;
      const rowsMax = Math.min((max + 1) * rowsPerGroup, storedRowsMax);
      // The note as a value tells PostgreSQL how few rows are behind it. It only advances, so none is missed.
      const [note] = await engine.query<{ end_ms: number }>(sql.note, []);
      const values: Value[] = [fromHour, toHour, fromHour * hourMs, toHour * hourMs, rowsMax, note?.end_ms ?? 0];
      if (tenant !== undefined) values.push(tenant);
      const rows = await engine.report<ToldRow>(readOf(asked), values);
      const stored = rows.filter(({ is_stored: isStored }) => isStored === 1);
      if (stored.length >= rowsMax) return undefined;
      const unsummed = rows.filter(({ is_stored: isStored }) => isStored === 0);
      const found = grouped([
        ...stored.map(({ told }) => storedRowOf(JSON.parse(told))),
        ...sumsOf(
          unsummed.map(({ told }) => tallyRowOf(JSON.parse(told))),
          chargeOf,
        ).map((row) => ofGroup(row, asked)),
      ]);
      return found.length > max ? undefined : found;
    },

    readDay: (day, tenant = "", max) => engine.report<DayUsed>(sql.day, [day, tenant, max]),

    async addRefusals(refusals) {
      if (refusals.length === 0) return;
      await engine.transact(function* () {
        // In one order, so that instances that add at the same moment queue up.
        const sorted = refusals.toSorted((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
        yield* send(sql.addRefusals, ...sorted.map(({ hour, tenant, reason, count }) => [hour, tenant, reason, count]));
      });
    },

    async readRefusals({ fromHour, toHour, tenant, interval = "hour", groupBy = ["tenant"] }) {
      const read = refusalsRead(interval, groupBy);
      const rows = await engine.report<Refusals>(read, [fromHour, toHour, tenant ?? "", storedRowsMax + 1]);
      return rows.length > storedRowsMax ? undefined : rows;
    },
  };
}

const orderOf = ({ hour, tenant, reason }: Refusals) => `${hour}|${tenant}|${reason}`;

/** What is stored of a group: its key, and its measures in their order. */
function storedRowOf([hour, tenant, country, provider, channel, currency, ...values]: StoredValues): GroupedRow {
  const sums = Object.fromEntries(measures.flatMap((each, i) => (values[i] === 0 ? [] : [[each, values[i]]])));
  return { hour, tenant, country, provider, channel: channel < 0 ? "" : at(channels, channel), currency, sums };
}

type StoredValues = readonly [number, string, string, string, number, string, ...number[]];

/** A row of its own hour, brought to the step of time and the groups that were asked for. Pure. */
function ofGroup(row: SumRow, { interval, groupBy }: SumsQuery): GroupedRow {
  const hour = interval === "all" ? 0 : interval === "day" ? row.hour - (row.hour % 24) : row.hour;
  const of = Object.fromEntries(dimensions.map((each) => [each, groupBy.includes(each) ? row[each] : ""]));
  return { ...(of as Record<Dimension, string>), hour, currency: row.currency, sums: row.sums };
}

const readName = ({ interval, groupBy, tenant }: SumsQuery) =>
  `read-sums-${interval}-${dimensions.filter((each) => groupBy.includes(each)).join("-")}-${tenant === undefined ? "all" : "one"}`;

/** Refusals, added up by the database: an installation of many tenants has more rows of a month than a report may have. */
function refusalsRead(interval: Interval, groupBy: readonly Dimension[]): Statement {
  const hour = stepOf(interval);
  const tenants = groupBy.includes("tenant") ? ["tenant"] : [];
  const by = [...(interval === "all" ? [] : [hour]), ...tenants, "reason"];
  return {
    name: `read-refusals-${interval}-${tenants.join()}`,
    text: `SELECT ${hour} AS hour, ${tenants[0] ?? "'' AS tenant"}, reason, CAST(sum(count) AS bigint) AS count
      FROM refusal_sums WHERE hour >= $1 AND hour < $2 AND ($3 = '' OR tenant = $3) GROUP BY ${list(by)} LIMIT $4`,
  };
}

/** The first hour of a row's step of time. */
const stepOf = (interval: Interval) => (interval === "all" ? "0" : interval === "day" ? `hour - (hour % 24)` : "hour");

/** What is stored, grouped by the database, and what is not summed yet: one statement, so of one moment. */
function readText({ interval, groupBy, tenant }: SumsQuery, { messagesJoin, jsonArray }: Engine): string {
  const hour = stepOf(interval);
  const groups = dimensions.filter((each) => groupBy.includes(each));
  const columns = sumKeys.map((key) => {
    if (key === "hour") return `${hour} AS hour`;
    if (key === "currency" || groups.includes(key)) return key;
    return key === "channel" ? "-1 AS channel" : `'' AS ${key}`;
  });
  const by = [...(interval === "all" ? [] : [hour]), ...groups, "currency"];
  const sums = measures.map((each) => `sum(${each}) AS ${each}`);
  const ofTenant = tenant === undefined ? "" : "AND tenant = $7";
  const when = `create_ms >= $3 AND create_ms < $4 ${ofTenant}`;
  const unsummed = tallyText({
    where: [
      `end_ms > $6 AND end_ms > (SELECT end_ms FROM summing WHERE id = 1) AND ${when}`,
      `end_ms IS NULL AND ${when}`,
    ],
    join: messagesJoin,
  });
  const told = (all: readonly string[]) => `CAST(${jsonArray}(${list(all)}) AS text) AS told`;
  return `SELECT 1 AS is_stored, ${told([...sumKeys, ...measures])}
      FROM (SELECT ${list([...columns, ...sums])} FROM sums WHERE hour >= $1 AND hour < $2 ${ofTenant}
        GROUP BY ${list(by)} LIMIT $5) AS stored
      UNION ALL SELECT 0, ${told(tallyColumns)} FROM (${unsummed}) AS unsummed`;
}
