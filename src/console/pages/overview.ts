/**
 * Overview: how the service fares in a period.
 */
import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  Interval,
  type Counts,
  type GetOverviewResponse,
  type StatsRow,
} from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { calling } from "../api.ts";
import { append, make, type Child } from "../dom.ts";
import * as format from "../format.ts";
import type { Page, PageContext } from "../page.ts";
import { facts, filters, load, section } from "../parts.ts";
import { plot, type Line } from "../plot.ts";
import { tenantField } from "../tenant-choice.ts";
import { groups, groupTable, hasReports, nameOf, type Group, type Summed } from "./groups.ts";
import { capTable, problemList } from "./problems.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** What one may look at, and in which steps: back from now, or a day or a month of UTC. */
const periods: readonly Period[] = [
  { name: "today", text: "Today, UTC", within: dayOf, interval: Interval.HOUR },
  { name: "24h", text: "24 hours", within: last(dayMs), interval: Interval.HOUR },
  { name: "7d", text: "7 days", within: last(7 * dayMs), interval: Interval.HOUR },
  { name: "30d", text: "30 days", within: last(30 * dayMs), interval: Interval.DAY },
  { name: "90d", text: "90 days", within: last(90 * dayMs), interval: Interval.DAY },
  { name: "400d", text: "400 days", within: last(400 * dayMs), interval: Interval.DAY },
  { name: "month", text: "This month, UTC", within: (now) => monthOf(now, 0), interval: Interval.DAY },
  { name: "last-month", text: "Last month, UTC", within: (now) => monthOf(now, -1), interval: Interval.DAY },
];
const usual = "24h";

interface Period {
  readonly name: string;
  readonly text: string;
  readonly interval: Interval;
  /** Its bounds, in milliseconds since the epoch. Those that end at `now` have whole steps but for the one under way. */
  readonly within: (now: number, step: number) => Bounds;
}

interface Bounds {
  readonly from: number;
  readonly to: number;
}

function dayOf(now: number): Bounds {
  return { from: Math.floor(now / dayMs) * dayMs, to: now };
}

function last(ms: number): Period["within"] {
  return (now, step) => ({ from: Math.floor(now / step) * step - ms + step, to: now });
}

/** The month of an instant, or one that is so many later. */
function monthOf(now: number, later: number): Bounds {
  const at = new Date(now);
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth() + later];
  return { from: Date.UTC(year, month), to: Math.min(now, Date.UTC(year, month + 1)) };
}

export const overview: Page = {
  name: "overview",
  title: "Overview",
  show(into, context) {
    const { query } = context;
    const [usualPeriod] = periods.filter(({ name }) => name === usual) as [Period];
    const view = {
      period: periods.find(({ name }) => name === query.get("period")) ?? usualPeriod,
      group: groups.find(({ name }) => name === query.get("by")) ?? groups[0],
      tenant: query.get("tenant") ?? "",
    };
    const { period, group } = view;
    const sums = section(period.text.endsWith("UTC") ? period.text : `The last ${period.text}`);
    const wrong = section("What is wrong now");
    const caps = section("Caps of today");
    const course = section(period.interval === Interval.HOUR ? "By the hour" : "By the day");
    const parts = section(`By ${group.text.toLowerCase()}`);
    into.append(choice(context, view), wrong.part, sums.part, caps.part, course.part, parts.part);

    const { from, to } = period.within(context.now(), stepOf(period));
    const range = { tenant: view.tenant, from: timestampFromMs(from), to: timestampFromMs(to) };
    const grid = gridOf(period, from, to);
    const { interval } = period;
    void load(
      wrong.body,
      context,
      async (signal) => {
        try {
          const asked = { ...range, interval, groupBy: group.dimension };
          return await context.client.getOverview(asked, calling(signal));
        } catch (failure) {
          // Why is said once, above: these have the same answer.
          for (const { body } of [sums, caps, course, parts])
            body.replaceChildren(make("p", { class: "empty" }, "It could not be read."));
          throw failure;
        }
      },
      (answer) => {
        const { counts, caps: used, problems } = answer;
        for (const { body } of [sums, course, parts]) body.replaceChildren();
        append(sums.body, [
          tiles(counts?.asked === 0n && counts.messages === 0n ? undefined : counts),
          queueOf(answer),
        ]);
        caps.body.replaceChildren(capTable(used));
        append(course.body, [coursePlots(answer, grid, context)]);
        append(parts.body, [groupParts({ group, tenant: view.tenant, from, to }, answer, grid, context)]);
        return problemList(problems);
      },
    );
  },
};

/** What is looked at. */
interface View {
  readonly period: Period;
  readonly group: Group;
  readonly tenant: string;
}

/** What one may choose to look at. */
function choice(context: PageContext, { period, group, tenant }: View): HTMLElement {
  const place = make("div", {});
  const named = (all: readonly { readonly name: string; readonly text: string }[]) =>
    all.map(({ name, text }) => [name, text] as const);
  void load(
    place,
    context,
    (signal) => tenantField(context, tenant, signal),
    (tenants) =>
      filters(
        "What to show",
        [
          ...tenants,
          { name: "period", label: "Period", options: named(periods), value: period.name },
          { name: "by", label: "Group by", options: named(groups), value: group.name },
        ],
        "Show",
        (values) => context.go(`overview?${new URLSearchParams(values).toString()}`),
      ),
  );
  return place;
}

function stepOf({ interval }: Period): number {
  return interval === Interval.HOUR ? hourMs : dayMs;
}

/** The beginnings of the steps. */
function gridOf(period: Period, from: number, to: number): number[] {
  const step = stepOf(period);
  // What ends with a step has none that begins there.
  return Array.from({ length: Math.floor((to - 1 - from) / step) + 1 }, (_, i) => from + i * step);
}

function tiles(counts: Counts | undefined): Child {
  if (counts === undefined) return make("p", { class: "empty" }, "Nothing was asked for in this period.");
  const { asked, verified, messages, segments, delivered, undelivered } = counts;
  const tile = (name: string, value: string, more: string) =>
    make(
      "div",
      { class: "tile" },
      make("dt", {}, name),
      make("dd", {}, make("strong", {}, value), make("span", {}, more)),
    );
  return [
    make(
      "dl",
      { class: "tiles" },
      tile("Sends", format.count(asked), `${format.count(messages)} messages, ${format.count(segments)} segments`),
      tile("Verified", format.share(verified, asked), `${format.count(verified)} of ${format.count(asked)}`),
      tile(
        "Time to verify",
        format.duration(counts.verifyTimeP50),
        counts.verifyTimeP50 === undefined
          ? "none was verified"
          : `9 of 10 in ${format.duration(counts.verifyTimeP90)}, 99 of 100 in ${format.duration(counts.verifyTimeP99)}`,
      ),
      hasReports(counts)
        ? tile("Delivered", format.share(delivered, messages), `${format.count(undelivered)} did not arrive`)
        : tile("Delivered", format.dash, "no report came"),
      tile("Cost", format.money(counts.cost), "where prices are known"),
    ),
    refusals(counts),
  ];
}

/** What waits for a provider, where anything does. */
function queueOf({ queuedMessages, queueLag }: GetOverviewResponse): Child {
  if (queuedMessages === 0n) return undefined;
  const lag = format.duration(queueLag);
  return make("p", {}, `${format.count(queuedMessages)} messages wait for a provider, the longest for ${lag}.`);
}

function refusals({ refused }: Counts): Child {
  const rows = Object.entries(refused).toSorted(([, a], [, b]) => Number(b - a));
  if (rows.length === 0) return undefined;
  return make(
    "details",
    {},
    make("summary", {}, `${format.count(rows.reduce((sum, [, each]) => sum + each, 0n))} calls were refused`),
    facts(rows.map(([reason, each]) => [reason, format.count(each)])),
  );
}

function coursePlots({ byTime: rows }: GetOverviewResponse, grid: readonly number[], { left }: PageContext): Child {
  const byTime = new Map(rows.map((row) => [startOf(row), row.counts]));
  const times = grid.map((at) => at / 1_000);
  const line = (label: string, valueOf: (counts: Counts) => number | null, none: number | null): Line => ({
    label,
    values: grid.map((at) => {
      const counts = byTime.get(at);
      return counts === undefined ? none : valueOf(counts);
    }),
  });
  const number = (value: number) => format.count(value);
  const plots = make(
    "div",
    { class: "plots" },
    plot(
      {
        title: "Sends and what became of them",
        times,
        lines: [
          line("Sends", ({ asked }) => Number(asked), 0),
          line("Verified", ({ verified }) => Number(verified), 0),
          line("Expired", ({ expired }) => Number(expired), 0),
          line("Failed", ({ failed }) => Number(failed), 0),
        ],
        format: number,
        step: 1,
      },
      left,
    ),
    plot(
      {
        title: "Share that was verified",
        times,
        lines: [
          line("Verified", ({ asked, verified }) => (asked === 0n ? null : Number(verified) / Number(asked)), null),
        ],
        format: format.percent,
        step: 0.01,
      },
      left,
    ),
    plot(
      {
        title: "Time to verify, in seconds",
        times,
        lines: [
          line("Half", ({ verifyTimeP50: at }) => (at === undefined ? null : format.secondsOf(at)), null),
          line("9 of 10", ({ verifyTimeP90: at }) => (at === undefined ? null : format.secondsOf(at)), null),
        ],
        format: (value) => `${format.count(Math.round(value))} s`,
        step: 1,
      },
      left,
    ),
    costPlot(rows, grid, left),
  );
  return [
    make(
      "p",
      { class: "hint" },
      format.zone === "UTC" ? "Times are of UTC." : `Times are those of ${format.zone}; days are of UTC.`,
    ),
    plots,
  ];
}

/** Nothing where no price is known. */
function costPlot(rows: readonly StatsRow[], grid: readonly number[], left: AbortSignal): Child {
  const currency = rows.find(({ counts }) => counts?.cost !== undefined)?.counts?.cost?.currency;
  if (currency === undefined || currency === "") return undefined;
  const byTime = new Map(rows.map((row) => [startOf(row), Number(row.counts?.cost?.micros ?? 0n) / 1e6]));
  return plot(
    {
      title: "Cost",
      times: grid.map((at) => at / 1_000),
      lines: [{ label: currency, values: grid.map((at) => byTime.get(at) ?? 0) }],
      format: (value) => format.amount(value, currency),
      step: 0.01,
    },
    left,
  );
}

function groupParts(
  summed: Summed,
  { byGroup, lines: told }: GetOverviewResponse,
  grid: readonly number[],
  context: PageContext,
): Child {
  const { group } = summed;
  const keyOf = (row: StatsRow) => row[group.name];
  const rows = byGroup.toSorted((a, b) => Number((b.counts?.asked ?? 0n) - (a.counts?.asked ?? 0n)));
  const asked = new Map(told.map((row) => [`${startOf(row)} ${keyOf(row)}`, Number(row.counts?.asked ?? 0n)]));
  const ofLines = new Set(told.map(keyOf));
  const shown = rows.map(keyOf).filter((key) => ofLines.has(key));
  const lines = shown.map((key) => ({
    label: nameOf(group, key),
    values: grid.map((at) => asked.get(`${at} ${key}`) ?? 0),
  }));
  return [
    shown.length > 0 &&
      plot(
        {
          title: `Sends by ${group.text.toLowerCase()}`,
          times: grid.map((at) => at / 1_000),
          lines,
          format: format.count,
          step: 1,
        },
        context.left,
      ),
    groupTable(rows, summed, context),
  ];
}

function startOf({ startTime }: StatsRow): number {
  return startTime === undefined ? 0 : timestampDate(startTime).getTime();
}
