/**
 * The SQL that reads sums. What is stored is grouped by the database; what is not summed yet comes as rows of `TallyRow`,
 * since the rule of one verification counts it (otp/operators/statistics.ts).
 */
import { dimensions, measures, type Dimension, type Interval, type SumsQuery } from "../../otp/operators/statistics.ts";
import type { Engine } from "../engine.ts";
import { list, type Statement, type Value } from "../statement.ts";
import type { PeriodQuery } from "../statistics.ts";
import { asked, firstProvider, sumKeys, tallyColumns, tallyText } from "./sums.ts";
import { hourMs } from "../../system.ts";

/** A statement, and the values that it is run with. */
export interface Read {
  readonly statement: Statement;
  readonly values: readonly Value[];
}

/** A row of a part of what is read: its values as an array in JSON. */
export interface PartRow {
  readonly part: "stored" | "unsummed" | "by time" | "costs" | "by group" | "by provider" | "lines" | "refused";
  readonly cells: string;
}

export interface Bounds {
  /** How far summing has come, at least. */
  readonly note: number;
  readonly rowsMax: number;
}

type Dialect = Pick<Engine, "messagesJoin" | "jsonArray" | "jsonArrayOf" | "sumOf">;

/** Takes the values of a statement, and gives what stands for each in its text. */
function valuesTaken() {
  const values: Value[] = [];
  const take = (value: Value) => `$${values.push(value)}`;
  return { values, take };
}
type Take = ReturnType<typeof valuesTaken>["take"];

const dayHours = 24;

const nameOf = (...parts: readonly (string | undefined)[]) => parts.map((part) => part ?? "all").join("-");

/** The first hour of a row's step of time, in SQL. */
const firstHourSql = (interval: Interval) =>
  interval === "all" ? "0" : interval === "day" ? `hour - (hour % ${dayHours})` : "hour";

/** The same of a row that the database has not grouped. Pure. */
export function firstHourOf(hour: number, interval: Interval): number {
  return interval === "all" ? 0 : interval === "day" ? hour - (hour % dayHours) : hour;
}

/** The measures, added up: to be told, or to be added up again. */
const summed = ({ sumOf }: Dialect) => measures.map((each) => `CAST(${sumOf(each)} AS bigint) AS ${each}`);
const summedOnce = ({ sumOf }: Dialect) => measures.map((each) => `${sumOf(each)} AS ${each}`);

/** What has no currency. */
export const timeMeasures = measures.filter((each) => each !== "cost");

/** A part of a read: the values of each of its rows. */
const part = ({ jsonArray }: Dialect, name: PartRow["part"], values: readonly string[], from: string) =>
  `SELECT '${name}' AS part, CAST(${jsonArray}(${list(values)}) AS text) AS cells FROM ${from}`;

type Hours = Pick<SumsQuery, "fromHour" | "toHour" | "tenant">;

/** Sums as they are stored, by the hour and by the day. */
const stored = { hours: "sums", days: "day_sums" } as const;
const refusals = { hours: "refusal_sums", days: "refusal_day_sums" } as const;

/** The rows asked for, of whole days by the day where no hours are asked for: `SELECT … FROM` each of them. */
function rowsOf(
  { fromHour, toHour, tenant }: Hours,
  interval: Interval,
  {
    tables,
    select,
    take,
  }: { readonly tables: typeof stored | typeof refusals; readonly select: Select; readonly take: Take },
): string {
  const ofTenant = tenant === undefined ? "" : `AND tenant = ${take(tenant)}`;
  const rows = (table: string, from: number, to: number) =>
    select(`${table} WHERE hour >= ${take(from)} AND hour < ${take(to)} ${ofTenant}`);
  if (interval === "hour") return rows(tables.hours, fromHour, toHour);
  // A statement has one text, so days are none where no day is whole.
  const firstDay = Math.min(Math.ceil(fromHour / dayHours) * dayHours, toHour);
  const lastDay = Math.max(Math.floor(toHour / dayHours) * dayHours, firstDay);
  return [
    rows(tables.days, firstDay, lastDay),
    rows(tables.hours, fromHour, firstDay),
    rows(tables.hours, lastDay, toHour),
  ].join(" UNION ALL ");
}
type Select = (from: string) => string;

/** What is not summed yet of the hours asked for. */
function unsummedText(
  { fromHour, toHour, tenant }: Hours,
  { messagesJoin }: Dialect,
  { note, take }: { readonly note: number; readonly take: Take },
): string {
  const ofTenant = tenant === undefined ? "" : `AND tenant = ${take(tenant)}`;
  const when = `create_ms >= ${take(fromHour * hourMs)} AND create_ms < ${take(toHour * hourMs)} ${ofTenant}`;
  return tallyText({
    where: [
      `end_ms > ${take(note)} AND end_ms > (SELECT end_ms FROM summing WHERE id = 1) AND ${when}`,
      `end_ms IS NULL AND ${when}`,
    ],
    join: messagesJoin,
  });
}

/** Reads sums by a step of time and groups: "stored" with the key and the measures, and "unsummed". */
export function sumsRead(query: SumsQuery, dialect: Dialect, { note, rowsMax }: Bounds): Read {
  const { interval, groupBy, tenant } = query;
  const { values, take } = valuesTaken();
  const groups = dimensions.filter((each) => groupBy.includes(each));
  const columns = keyColumns(interval, groups);
  const by = [...(interval === "all" ? [] : [firstHourSql(interval)]), ...groups, "currency"];
  const select: Select = (from) => `SELECT ${list([...columns, ...summed(dialect)])} FROM ${from} GROUP BY ${list(by)}`;
  const rows = rowsOf(query, interval, { tables: stored, select, take });
  const text = `${part(dialect, "stored", [...sumKeys, ...measures], `(${rows} LIMIT ${take(rowsMax)}) AS stored`)}
    UNION ALL ${part(dialect, "unsummed", tallyColumns, `(${unsummedText(query, dialect, { note, take })}) AS unsummed`)}`;
  return { statement: { name: nameOf("read-sums", interval, groups.join(), tenant && "one"), text }, values };
}

/** The key of rows that are grouped by some of it; the rest is empty. */
function keyColumns(interval: Interval, groups: readonly Dimension[]): string[] {
  return sumKeys.map((key) => {
    if (key === "hour") return `${firstHourSql(interval)} AS hour`;
    if (key === "currency" || groups.includes(key)) return key;
    return key === "channel" ? "-1 AS channel" : `'' AS ${key}`;
  });
}

/** What a group of verifications is by, in rows of `TallyRow`. */
const groupOf: Readonly<Record<Dimension, string>> = {
  tenant: "tenant",
  country: "region",
  provider: firstProvider,
  channel: "channel",
};

/**
 * Reads a period by time, by group and by provider, each with the key and the measures; the steps of the groups with the most
 * verifications; what is not summed yet; and refusals by their reason. Rows of sums and rows that are not summed are read once.
 */
export function periodRead(query: PeriodQuery, dialect: Dialect, { note, rowsMax }: Bounds): Read {
  const { interval, groupBy, tenant, linesMax } = query;
  const { values, take } = valuesTaken();
  const groups = [...new Set<Dimension>([...(groupBy === undefined ? [] : [groupBy]), "provider"])];
  const hour = firstHourSql(interval);
  const by = [...(interval === "all" ? [] : [hour]), ...groups, "currency"];
  const all = [...sumKeys, ...measures];
  const regrouped = (kept: Dimension) =>
    `(SELECT ${list([...keyColumns("all", [kept]), ...summed(dialect)])} FROM stored GROUP BY ${kept}, currency
      LIMIT ${take(rowsMax)}) AS grouped`;
  const parts = [
    ...(interval === "all" ? [] : byTimeParts(dialect, take, rowsMax)),
    part(dialect, "by provider", all, regrouped("provider")),
    part(dialect, "unsummed", tallyColumns, "unsummed"),
  ];
  const select: Select = (from) =>
    `SELECT ${list([`${hour} AS hour`, ...groups, "currency", ...summedOnce(dialect)])} FROM ${from} GROUP BY ${list(by)}`;
  const ctes = [
    `unsummed AS MATERIALIZED (${unsummedText(query, dialect, { note, take })})`,
    `stored AS MATERIALIZED (${rowsOf(query, interval, { tables: stored, select, take })})`,
  ];
  if (groupBy !== undefined) {
    parts.push(part(dialect, "by group", all, regrouped(groupBy)));
    ctes.push(
      `counted AS MATERIALIZED (SELECT hour, grp, sum(asked) AS asked FROM (SELECT hour, ${groupBy} AS grp, asked FROM stored
        UNION ALL SELECT ${firstHourSql(interval)}, ${groupOf[groupBy]}, times FROM unsummed WHERE ${asked}) AS each_of_it
        GROUP BY hour, grp)`,
      `shown AS (SELECT grp FROM counted GROUP BY grp HAVING sum(asked) > 0 ORDER BY sum(asked) DESC, grp
        LIMIT ${take(linesMax)})`,
    );
    const steps = `(SELECT hour, grp, asked FROM counted WHERE grp IN (SELECT grp FROM shown)
      LIMIT ${take(rowsMax)}) AS steps GROUP BY grp`;
    const { jsonArray, jsonArrayOf } = dialect;
    parts.push(part(dialect, "lines", ["grp", `${jsonArrayOf}(${jsonArray}(hour, asked))`], steps));
  }
  const selectRefused: Select = (from) => `SELECT reason, sum(count) AS count FROM ${from} GROUP BY reason`;
  const refused = `(SELECT reason, sum(count) AS count
    FROM (${rowsOf(query, interval, { tables: refusals, select: selectRefused, take })}) AS all_of_it GROUP BY reason) AS refused`;
  parts.push(part(dialect, "refused", ["reason", "count"], refused));
  const text = `WITH ${list(ctes)} ${parts.join(" UNION ALL ")}`;
  return { statement: { name: nameOf("read-period", interval, groupBy, tenant && "one"), text }, values };
}

/** By time in one row each, in which costs of several currencies cannot be: they come by themselves. */
function byTimeParts(dialect: Dialect, take: Take, rowsMax: number): string[] {
  const { sumOf } = dialect;
  const counted = timeMeasures.map((each) => `CAST(${sumOf(each)} AS bigint) AS ${each}`);
  const byTime = `(SELECT ${list(["hour", ...counted])} FROM stored GROUP BY hour LIMIT ${take(rowsMax)}) AS grouped`;
  const costs = `(SELECT hour, currency, CAST(${sumOf("cost")} AS bigint) AS cost FROM stored GROUP BY hour, currency
    HAVING ${sumOf("cost")} <> 0 LIMIT ${take(rowsMax)}) AS costs`;
  return [
    part(dialect, "by time", ["hour", ...timeMeasures], byTime),
    part(dialect, "costs", ["hour", "currency", "cost"], costs),
  ];
}

/** Refusals, added up by the database: an installation of many tenants has more rows of a month than a report may have. */
export function refusalsRead(query: SumsQuery, rowsMax: number): Read {
  const { interval, groupBy, tenant } = query;
  const { values, take } = valuesTaken();
  const hour = firstHourSql(interval);
  const tenants = groupBy.includes("tenant") ? ["tenant"] : [];
  const by = [...(interval === "all" ? [] : [hour]), ...tenants, "reason"];
  const columns = `${hour} AS hour, ${tenants[0] ?? "'' AS tenant"}, reason`;
  const select: Select = (from) => `SELECT ${columns}, sum(count) AS count FROM ${from} GROUP BY ${list(by)}`;
  const text = `SELECT hour, tenant, reason, CAST(sum(count) AS bigint) AS count
    FROM (${rowsOf(query, interval, { tables: refusals, select, take })}) AS all_of_it
    GROUP BY hour, tenant, reason LIMIT ${take(rowsMax)}`;
  return { statement: { name: nameOf("read-refusals", interval, tenants.join(), tenant && "one"), text }, values };
}
