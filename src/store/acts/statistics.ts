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
  type StatsRow,
  type SumRow,
  type SumsQuery,
} from "../../otp/operators/statistics.ts";
import type { Engine } from "../engine.ts";
import { firstHourOf, periodRead, refusalsRead, sumsRead, type Read, type PartRow } from "../rows/sum-reads.ts";
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
      return rows.length >= rowsMax ? undefined : periodOf(rows, unsummedOf(rows), asked);
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
  const sums = Object.fromEntries(measures.flatMap((each, i) => (values[i] === 0 ? [] : [[each, values[i]]])));
  return { hour, tenant, country, provider, channel: channelOf(channel), currency, sums };
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
function periodOf(rows: readonly PartRow[], unsummed: readonly SumRow[], asked: PeriodQuery): Period {
  const { interval, groupBy } = asked;
  const brought = (part: PartRow["part"], by: Pick<SumsQuery, "interval" | "groupBy">) =>
    grouped([
      ...cellsOf(rows, part).map((values) => storedRowOf(values as StoredValues)),
      ...unsummed.map((row) => ofGroup(row, by)),
    ]);
  return {
    byTime: interval === "all" ? [] : brought("by time", { interval, groupBy: [] }),
    byGroup: groupBy === undefined ? [] : brought("by group", { interval: "all", groupBy: [groupBy] }),
    byProvider: brought("by provider", { interval: "all", groupBy: ["provider"] }),
    lines: cellsOf(rows, "lines").map((values) => lineOf(values as LineValues, groupBy)),
    refused: new Map(cellsOf(rows, "refused") as unknown as readonly (readonly [string, number])[]),
  };
}

type LineValues = readonly [hour: number, group: string | number, asked: number];

function lineOf([hour, group, asked]: LineValues, groupBy: Dimension | undefined): StatsRow {
  const none = { tenant: "", country: "", provider: "", channel: "" };
  const of = groupBy === undefined ? {} : { [groupBy]: typeof group === "number" ? channelOf(group) : group };
  return { ...none, ...of, hour, sums: { asked }, costs: new Map() };
}
