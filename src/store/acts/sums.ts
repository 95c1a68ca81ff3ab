/**
 * The acts that write sums. The sweep sums what has ended in slices of time: a verification is summed if it ended at or before the
 * note of how far summing has come, which is written with the sums. So no row is marked, and calls pay nothing.
 *
 * What ends now must not end before that note, and what changes now must be seen as summed or not. So summing stays a
 * minute behind the store's clock, and before every verification that is still pending: it will end at its expiry at the
 * earliest. A transaction on a database lasts some seconds at most (postgres/pool.ts).
 */
import { isSandbox } from "../../otp/message/sandbox.ts";
import {
  difference,
  hourOf,
  merge,
  sumsKeptHours,
  tally,
  type ChargeOf,
  type SumRow,
} from "../../otp/operators/statistics.ts";
import type { Message } from "../../otp/message/message.ts";
import type { Verification } from "../../otp/verification/verification.ts";
import type { Instant } from "../../system.ts";
import type { Engine } from "../engine.ts";
import { addSums, sumsOf, sumValues, tallyText, type TallyRow } from "../rows/sums.ts";
import { idBytesOf } from "../rows/values.ts";
import { query, send, type Statement, type Steps } from "../statement.ts";

/** How far behind the store's clock summing stays. */
export const behindMs = 60_000;
/** From when on a report may be late. Between this and `behindMs`, either is right. */
const lateFromMs = 30_000;
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

/** What has sums by the hour, and by the day, which the database keeps by itself: by the first hour. */
const summedTables = ["sums", "day_sums", "refusal_sums", "refusal_day_sums"];
const deleteOld = summedTables.map((table) => ({
  name: `delete-old-${table}`,
  text: `DELETE FROM ${table} WHERE hour < $1`,
}));

/** Forgets sums that are too old. */
export async function forgetSums(engine: Engine): Promise<void> {
  const hour = hourOf(engine.now()) - sumsKeptHours;
  const [hours, days, ...refusals] = deleteOld as [Statement, Statement, Statement, Statement];
  if ((await engine.query(sql.anyOld, [hour])).length > 0) {
    for (const each of [hours, days]) await engine.write(each, [hour]);
  }
  for (const each of refusals) await engine.write(each, [hour]);
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
