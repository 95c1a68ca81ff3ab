/**
 * The acts that read statistics, and add refusals to them. Each read of sums is one statement over what is stored and what is
 * not summed yet, so of one moment; its rows come as JSON, which a thread and a connection hand over for less than 42
 * columns each.
 */
import { channels } from "../../otp/channel.ts";
import {
  dimensions,
  grouped,
  measures,
  type ChargeOf,
  type Dimension,
  type GroupedRow,
  type Measure,
  type StatsRow,
  type SumRow,
  type Sums,
  type SumsQuery,
} from "../../otp/operators/statistics.ts";
import type { Engine } from "../engine.ts";
import {
  firstHourOf,
  periodRead,
  refusalsRead,
  sumsRead,
  timeMeasures,
  type Read,
  type PartRow,
} from "../rows/sum-reads.ts";
import { sumsOf, tallyRowOf } from "../rows/sums.ts";
import { at } from "../rows/values.ts";
import { query, send } from "../statement.ts";
import type { DayUsed, Period, PeriodQuery, Refusals, Statistics } from "../statistics.ts";
import { summing } from "./sums.ts";

/** Of one group there is a row for each currency, and one of what has no cost. */
const rowsPerGroup = 4;
/** Below what a long read may have (engine.ts), with room for what is not summed yet. */
const storedRowsMax = 40_000;

const day = {
  name: "day-used",
  text: `SELECT tenant, kind, count FROM counters WHERE day = $1 AND ($2 = '' OR tenant = $2)
    ORDER BY count DESC, tenant, kind LIMIT $3`,
};

export function statisticsActs(engine: Engine, chargeOf: ChargeOf): Statistics {
  const longRead = <Row>({ statement, values }: Read) => engine.longRead<Row>(statement, values);
  /** As a value it tells PostgreSQL how few rows are behind it. It only advances, so none is missed. */
  const readNote = async () => (await engine.query<{ end_ms: number }>(summing.note, []))[0]?.end_ms ?? 0;
  const unsummedOf = (rows: readonly PartRow[]) =>
    sumsOf(
      cellsOf(rows, "unsummed").map((values) => tallyRowOf(values as readonly (string | number | null)[])),
      chargeOf,
    );
  return {
    async readSums(asked, max) {
      const rowsMax = Math.min((max + 1) * rowsPerGroup, storedRowsMax);
      const rows = await longRead<PartRow>(sumsRead(asked, engine, { note: await readNote(), rowsMax }));
      const stored = cellsOf(rows, "stored").map((values) => storedRowOf(values as StoredValues));
      if (stored.length >= rowsMax) return undefined;
      const found = grouped([...stored, ...unsummedOf(rows).map((row) => ofGroup(row, asked))]);
      return found.length > max ? undefined : found;
    },

    async readPeriod(asked) {
      const rowsMax = storedRowsMax / 2;
      const rows = await longRead<PartRow>(periodRead(asked, engine, { note: await readNote(), rowsMax }));
      const lines = cellsOf(rows, "lines") as unknown as readonly LineValues[];
      const count = lines.reduce((sum, [, steps]) => sum + steps.length, rows.length);
      return count >= rowsMax
        ? undefined
        : { ...periodOf(rows, unsummedOf(rows), asked), lines: linesOf(lines, asked) };
    },

    readDay: (of, tenant = "", max) => engine.longRead<DayUsed>(day, [of, tenant, max]),

    async addRefusals(refusals) {
      if (refusals.length === 0) return;
      await engine.transact(function* () {
        // Instances that add at the same moment queue up: their hours may differ where the day is one.
        yield* query(summing.summed);
        const lists = refusals.map(({ hour, tenant, reason, count }) => [hour, tenant, reason, count]);
        yield* send(summing.addRefusals, ...lists);
      });
    },

    async readRefusals({ fromHour, toHour, tenant, interval = "hour", groupBy = ["tenant"] }) {
      const asked = { fromHour, toHour, tenant, interval, groupBy };
      const rows = await longRead<Refusals>(refusalsRead(asked, storedRowsMax + 1));
      return rows.length > storedRowsMax ? undefined : rows;
    },
  };
}

/** The rows of a part of what was read, each as an array of its values. */
const cellsOf = (rows: readonly PartRow[], part: PartRow["part"]) =>
  rows.flatMap((row) => (row.part === part ? [JSON.parse(row.cells) as readonly unknown[]] : []));

/** The key of what is stored, and its measures in their order. */
type StoredValues = readonly [
  hour: number,
  tenant: string,
  country: string,
  provider: string,
  channel: number,
  currency: string,
  ...measures: number[],
];

function storedRowOf([hour, tenant, country, provider, channel, currency, ...values]: StoredValues): GroupedRow {
  return { hour, tenant, country, provider, channel: channelOf(channel), currency, sums: sumsFrom(measures, values) };
}

function sumsFrom(names: readonly Measure[], values: readonly number[]): Sums {
  const sums: Partial<Record<Measure, number>> = {};
  for (const [i, each] of names.entries()) {
    const sum = values[i] ?? 0;
    if (sum !== 0) sums[each] = sum;
  }
  return sums;
}

/** None where rows are not grouped by it. */
const channelOf = (channel: number) => (channel < 0 ? "" : at(channels, channel));

/** A row of its own hour, brought to the step of time and the groups that were asked for. Pure. */
function ofGroup(row: SumRow, { interval, groupBy }: Pick<SumsQuery, "interval" | "groupBy">): GroupedRow {
  const hour = firstHourOf(row.hour, interval);
  const of = Object.fromEntries(dimensions.map((each) => [each, groupBy.includes(each) ? row[each] : ""]));
  return { ...(of as Record<Dimension, string>), hour, currency: row.currency, sums: row.sums };
}

/** Puts together what the database has grouped and what is not summed yet. Pure. */
function periodOf(rows: readonly PartRow[], unsummed: readonly SumRow[], asked: PeriodQuery): Omit<Period, "lines"> {
  const { interval, groupBy } = asked;
  const brought = (stored: readonly GroupedRow[], by: Pick<SumsQuery, "interval" | "groupBy">) =>
    grouped([...stored, ...unsummed.map((row) => ofGroup(row, by))]);
  const storedOf = (part: PartRow["part"]) => cellsOf(rows, part).map((values) => storedRowOf(values as StoredValues));
  return {
    byTime: interval === "all" ? [] : brought(byTimeOf(rows), { interval, groupBy: [] }),
    byGroup: groupBy === undefined ? [] : brought(storedOf("by group"), { interval: "all", groupBy: [groupBy] }),
    byProvider: brought(storedOf("by provider"), { interval: "all", groupBy: ["provider"] }),
    refused: new Map(cellsOf(rows, "refused") as unknown as readonly (readonly [string, number])[]),
  };
}

const nothing = { tenant: "", country: "", provider: "", channel: "" };

/** What is stored by time, and then its costs. */
function byTimeOf(rows: readonly PartRow[]): GroupedRow[] {
  const byTime = cellsOf(rows, "by time") as unknown as readonly (readonly [hour: number, ...measures: number[]])[];
  const costs = cellsOf(rows, "costs") as unknown as readonly (readonly [
    hour: number,
    currency: string,
    cost: number,
  ])[];
  return [
    ...byTime.map(([hour, ...values]) => ({ ...nothing, hour, currency: "", sums: sumsFrom(timeMeasures, values) })),
    ...costs.map(([hour, currency, cost]) => ({ ...nothing, hour, currency, sums: { cost } })),
  ];
}

/** A group, and how many were asked for in each step of time that has any. */
type LineValues = readonly [group: string | number, steps: readonly (readonly [hour: number, asked: number])[]];

/** In the order of time. Pure. */
function linesOf(lines: readonly LineValues[], { groupBy }: Pick<PeriodQuery, "groupBy">): StatsRow[] {
  const costs = new Map<string, number>();
  return lines
    .flatMap(([group, steps]) => {
      const of = groupBy === undefined ? {} : { [groupBy]: typeof group === "number" ? channelOf(group) : group };
      return steps.map(([hour, asked]): StatsRow => ({ ...nothing, ...of, hour, sums: { asked }, costs }));
    })
    .toSorted((a, b) => a.hour - b.hour);
}
