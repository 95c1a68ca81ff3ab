/**
 * The act that reads statistics, as the admin service and `otpd stats` ask for them.
 */
import {
  added,
  hourOf,
  sumsKeptHours,
  verifyTimeMs,
  type Dimension,
  type Interval,
  type StatsRow,
  type Sums,
  type SumsQuery,
} from "../../otp/operators/statistics.ts";
import type { Refusals } from "../../store/statistics.ts";
import type { Store } from "../../store/store.ts";
import { hourMs, type Instant } from "../../system.ts";

/** More would be no answer to a question that people ask. */
const statsRowsMax = 20_000;

export interface StatsAsked {
  /** From the hour that this lies in. */
  readonly fromMs: Instant;
  /** Until the hour that this lies in, that one included. */
  readonly toMs: Instant;
  readonly interval: Interval;
  readonly groupBy: readonly Dimension[];
  /** Undefined for all. */
  readonly tenant?: string | undefined;
}

/** A row as it is told. */
export interface Stats extends StatsRow {
  /** When its step of time begins; undefined for the whole period. */
  readonly startMs: Instant | undefined;
  /** Calls that were refused, by reason; undefined where rows are of something that a refused call may not have reached. */
  readonly refused: ReadonlyMap<string, number> | undefined;
}

/** Sentences are for whoever asked. */
export type StatsRead =
  | { readonly ok: true; readonly rows: readonly Stats[] }
  | { readonly ok: false; readonly field: string; readonly sentence: string };

type StatsStore = Pick<Store, "statistics" | "now">;

/** Reads statistics; what was asked in vain is told in a sentence. */
export async function readStats(store: StatsStore, asked: StatsAsked): Promise<StatsRead> {
  const { fromMs, toMs, interval, groupBy, tenant } = asked;
  const fault = faultOf(store, asked);
  if (fault !== undefined) return fault;
  if (new Set(groupBy).size < groupBy.length) return refuse("group_by", "Each may be given once.");
  const query: SumsQuery = { fromHour: hourOf(fromMs), toHour: hourOf(toMs) + 1, interval, groupBy, tenant };
  const rows = await store.statistics.readSums(query, statsRowsMax);
  if (rows === undefined) return refuse("group_by", tooMany);
  const refusals = hasRefusals(query) ? await store.statistics.readRefusals(query) : [];
  if (refusals === undefined) return refuse("group_by", tooMany);
  const told = withRefusals(rows, refusals, query);
  return told.length > statsRowsMax ? refuse("group_by", tooMany) : { ok: true, rows: told };
}

const tooMany = `There would be more than ${statsRowsMax} rows: ask for a shorter time, or less.`;
const refuse = (field: string, sentence: string) => ({ ok: false, field, sentence }) as const;

function faultOf(store: Pick<Store, "now">, { fromMs, toMs }: Pick<StatsAsked, "fromMs" | "toMs">) {
  if (fromMs > toMs) return refuse("to", "It must not be before `from`.");
  if (hourOf(fromMs) < hourOf(store.now()) - sumsKeptHours) return refuse("from", "Sums are kept for 400 days.");
  return undefined;
}

const hasRefusals = ({ groupBy }: SumsQuery) => groupBy.every((dimension) => dimension === "tenant");

/** Asks for a period as one looks at it. */
export interface PeriodAsked extends Pick<StatsAsked, "fromMs" | "toMs" | "tenant"> {
  /** The step of time; none where it is all. */
  readonly interval: Interval;
  /** Undefined for no groups. */
  readonly groupBy: Dimension | undefined;
}

/** A period: whole, and as it was asked for. What was refused is told of all of it alone. */
export interface PeriodRead {
  readonly whole: Stats | undefined;
  readonly byTime: readonly Stats[];
  readonly byGroup: readonly Stats[];
  readonly byProvider: readonly Stats[];
  /** The groups with the most verifications by time: `asked` alone. */
  readonly lines: readonly Stats[];
}

/** Groups that are told of by time: as many as a plot shows. */
const linesMax = 8;

/** Reads a period; each of its rows is read once. What was asked in vain is told as `readStats` does. */
export async function readPeriod(
  store: StatsStore,
  asked: PeriodAsked,
): Promise<{ readonly ok: true; readonly value: PeriodRead } | Extract<StatsRead, { ok: false }>> {
  const { fromMs, toMs, interval, groupBy, tenant } = asked;
  const fault = faultOf(store, asked);
  if (fault !== undefined) return fault;
  const hours = { fromHour: hourOf(fromMs), toHour: hourOf(toMs) + 1 };
  const read = await store.statistics.readPeriod({ ...hours, tenant, interval, groupBy, linesMax });
  if (read === undefined) return refuse("group_by", tooMany);
  const { byTime, byGroup, byProvider, lines, refused } = read;
  const told = (rows: readonly StatsRow[], of: Interval) =>
    rows.map((row) => ({ ...row, startMs: startOf(row, { interval: of, ...hours }), refused: undefined }));
  const [whole] = told(inOne(byProvider), "all");
  const nothing = refused.size === 0 ? undefined : { ...emptyRow, hour: 0, tenant: "", startMs: undefined };
  const of = whole ?? nothing;
  return {
    ok: true,
    value: {
      whole: of && { ...of, refused },
      byTime: told(byTime, interval),
      byGroup: told(byGroup, "all"),
      byProvider: told(byProvider, "all"),
      lines: told(lines, interval),
    },
  };
}

/** Rows of several groups as one; none of none. Pure. */
function inOne(rows: readonly StatsRow[]): StatsRow[] {
  if (rows.length === 0) return [];
  const costs = new Map<string, number>();
  for (const row of rows) {
    for (const [currency, micros] of row.costs) costs.set(currency, (costs.get(currency) ?? 0) + micros);
  }
  return [{ ...emptyRow, hour: 0, tenant: "", costs, sums: rows.reduce<Sums>((sum, row) => added(sum, row.sums), {}) }];
}

const emptyRow: Omit<StatsRow, "hour" | "tenant"> = {
  country: "",
  provider: "",
  channel: "",
  sums: {},
  costs: new Map(),
};

/** The rows with what was refused. A refused call has a tenant at most, so rows of anything else have none. Pure. */
function withRefusals(rows: readonly StatsRow[], refusals: readonly Refusals[], query: SumsQuery): Stats[] {
  const { interval, groupBy } = query;
  if (!hasRefusals(query)) {
    return rows.map((row) => ({ ...row, startMs: startOf(row, query), refused: undefined }));
  }
  const found = new Map<string, StatsRow & { readonly refused: Map<string, number> }>();
  const rowOf = (row: StatsRow) => {
    const key = `${row.hour}|${row.tenant}`;
    const known = found.get(key) ?? { ...row, refused: new Map<string, number>() };
    found.set(key, known);
    return known;
  };
  if (interval === "all" && groupBy.length === 0) rowOf({ ...emptyRow, hour: 0, tenant: "", ...rows[0] });
  for (const row of rows) rowOf(row);
  for (const { hour, tenant, reason, count } of refusals) {
    const { refused } = rowOf({ ...emptyRow, hour, tenant });
    refused.set(reason, (refused.get(reason) ?? 0) + count);
  }
  return [...found.values()]
    .map((row) => ({ ...row, startMs: startOf(row, query) }))
    .toSorted((a, b) => a.hour - b.hour || (a.tenant < b.tenant ? -1 : 1));
}

function startOf({ hour }: StatsRow, { interval, fromHour }: Pick<SumsQuery, "interval" | "fromHour">) {
  return interval === "all" ? undefined : Math.max(hour, fromHour) * hourMs;
}

export interface Money {
  /** Millionths. */
  readonly micros: number;
  readonly currency: string;
}

/** The one amount that is told: in the currency that is wanted, or else that of the most. Undefined where nothing has a price. Pure. */
export function moneyOf(costs: ReadonlyMap<string, number>, wanted?: string): Money | undefined {
  const amounts = [...costs].map(([currency, micros]) => ({ currency, micros }));
  return amounts.find(({ currency }) => currency === wanted) ?? amounts.toSorted((a, b) => b.micros - a.micros)[0];
}

/** Half, nine of ten and 99 of 100 of the times to verify, in milliseconds. Pure. */
export function verifyTimesOf({ sums }: Pick<StatsRow, "sums">): readonly (number | undefined)[] {
  return [0.5, 0.9, 0.99].map((share) => verifyTimeMs(sums, share));
}
