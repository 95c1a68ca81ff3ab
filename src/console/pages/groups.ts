/**
 * The sums of a period by country, provider, channel or tenant, on the overview: beside what they were in the period before,
 * and each split by the others.
 */
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Dimension, type Counts, type StatsRow } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { calling } from "../api.ts";
import { show } from "../dialog.ts";
import { make, type Child } from "../dom.ts";
import * as format from "../format.ts";
import type { PageContext } from "../page.ts";
import { attempt, button, load } from "../parts.ts";
import { table, type Column } from "../table.ts";

export const groups = [
  { name: "country", text: "Country", dimension: Dimension.COUNTRY },
  { name: "provider", text: "Provider", dimension: Dimension.PROVIDER },
  { name: "channel", text: "Channel", dimension: Dimension.CHANNEL },
  { name: "tenant", text: "Tenant", dimension: Dimension.TENANT },
] as const;
export type Group = (typeof groups)[number];

/** What is summed. */
export interface Summed {
  readonly group: Group;
  /** Empty for all. */
  readonly tenant: string;
  /** In milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
}

/** Sums are kept for so long; a period before that says nothing. */
const keptMs = 400 * 86_400_000;

/** Where nothing is known of any message, a share would say that none arrived. */
export function hasReports({ delivered, undelivered }: Counts): boolean {
  return delivered + undelivered > 0n;
}

export function nameOf({ name }: Group, key: string): string {
  return key === "" ? `no ${name}` : name === "country" ? format.country(key) : key;
}

/** The table of a group, which is there at once: what was before comes when it is read. */
export function groupTable(rows: readonly StatsRow[], summed: Summed, context: PageContext): HTMLElement {
  const { group } = summed;
  const caption = `Sums by ${group.text.toLowerCase()}`;
  const tableOf = (before: readonly StatsRow[]) =>
    table(
      caption,
      rows,
      [
        {
          head: group.text,
          cell: (row) => nameOf(group, row[group.name]),
          sortBy: (row) => nameOf(group, row[group.name]),
        },
        ...countColumns(before, (row) => row[group.name]),
        { head: "Actions", cell: (row) => splitButton(row[group.name], summed, context) },
      ],
      "Nothing was asked for in this period.",
    );
  const place = make("div", {}, tableOf([]));
  if (rows.length > 0 && periodBefore(summed, context) !== undefined) {
    void load(place, context, (signal) => readBefore(summed, [group.dimension], context, signal), tableOf);
  }
  return place;
}

/** Numbers of rows, each beside what was verified of the row with the same key in the period before. */
function countColumns(before: readonly StatsRow[], keyOf: (row: StatsRow) => string): readonly Column<StatsRow>[] {
  const earlier = new Map(before.map((row) => [keyOf(row), row.counts]));
  const number = (head: string, told: (counts: Counts) => string, by: (counts: Counts) => number | undefined) => ({
    head,
    kind: "number" as const,
    cell: ({ counts }: StatsRow) => (counts === undefined ? format.dash : told(counts)),
    sortBy: ({ counts }: StatsRow) => counts && by(counts),
  });
  const shareOf = (part: bigint, of: bigint) => (of === 0n ? undefined : Number(part) / Number(of));
  const verifiedBefore = (row: StatsRow) => {
    const counts = earlier.get(keyOf(row));
    return counts && shareOf(counts.verified, counts.asked);
  };
  return [
    number(
      "Sends",
      ({ asked }) => format.count(asked),
      ({ asked }) => Number(asked),
    ),
    number(
      "Verified",
      ({ verified, asked }) => format.share(verified, asked),
      ({ verified, asked }) => shareOf(verified, asked),
    ),
    {
      head: "Verified before",
      kind: "number",
      cell: (row) => {
        const value = verifiedBefore(row);
        return value === undefined ? format.dash : format.percent(value);
      },
      sortBy: verifiedBefore,
    },
    number(
      "Messages",
      ({ messages }) => format.count(messages),
      ({ messages }) => Number(messages),
    ),
    number(
      "Delivered",
      (counts) => (hasReports(counts) ? format.share(counts.delivered, counts.messages) : format.dash),
      (counts) => (hasReports(counts) ? shareOf(counts.delivered, counts.messages) : undefined),
    ),
    number(
      "Half verified in",
      ({ verifyTimeP50 }) => format.duration(verifyTimeP50),
      ({ verifyTimeP50: at }) => at && format.secondsOf(at),
    ),
    number(
      "9 of 10 in",
      ({ verifyTimeP90 }) => format.duration(verifyTimeP90),
      ({ verifyTimeP90: at }) => at && format.secondsOf(at),
    ),
    number(
      "Cost",
      ({ cost }) => format.money(cost),
      ({ cost }) => cost && Number(cost.micros),
    ),
  ];
}

/** What each is split by: of a country one asks who sent there, and by what. */
const finer: Readonly<Record<Group["name"], readonly [Group["name"], Group["name"]]>> = {
  country: ["provider", "channel"],
  provider: ["country", "channel"],
  channel: ["country", "provider"],
  tenant: ["provider", "channel"],
};

function splitButton(key: string, summed: Summed, context: PageContext): Child {
  const pressed: HTMLButtonElement = button(
    "Split",
    () => void attempt(context, pressed, () => split(key, summed, context)),
  );
  return pressed;
}

/** Shows one row of a group split by two others. */
async function split(key: string, summed: Summed, context: PageContext): Promise<void> {
  const { group, tenant, from, to } = summed;
  const by = finer[group.name].flatMap((name) => groups.filter((each) => each.name === name));
  const groupBy = [group.dimension, ...by.map(({ dimension }) => dimension)];
  const asked = { tenant, from: timestampFromMs(from), to: timestampFromMs(to), groupBy };
  const [{ rows }, before] = await Promise.all([
    context.client.getStats(asked, calling(context.left)),
    readBefore(summed, groupBy, context, context.left),
  ]);
  const ofKey = (row: StatsRow) => row[group.name] === key;
  const keyOf = (row: StatsRow) => by.map(({ name }) => row[name]).join(" ");
  const sorted = rows.filter(ofKey).toSorted((a, b) => Number((b.counts?.asked ?? 0n) - (a.counts?.asked ?? 0n)));
  show(
    `${nameOf(group, key)} by ${by.map(({ text }) => text.toLowerCase()).join(" and ")}`,
    table(
      `${group.text} split`,
      sorted,
      [
        ...by.map((each) => ({
          head: each.text,
          cell: (row: StatsRow) => nameOf(each, row[each.name]),
          sortBy: (row: StatsRow) => nameOf(each, row[each.name]),
        })),
        ...countColumns(before.filter(ofKey), keyOf),
      ],
      "Nothing was asked for in this period.",
    ),
  );
}

/** The period of the same length that ends where this one begins; undefined where sums do not reach back so far. */
function periodBefore({ from, to }: Summed, { now }: PageContext): { from: number; to: number } | undefined {
  const before = { from: from - (to - from), to: from };
  return before.from < now() - keptMs ? undefined : before;
}

async function readBefore(
  summed: Summed,
  groupBy: readonly Dimension[],
  context: PageContext,
  signal: AbortSignal,
): Promise<readonly StatsRow[]> {
  const before = periodBefore(summed, context);
  if (before === undefined) return [];
  const { tenant } = summed;
  const asked = { tenant, from: timestampFromMs(before.from), to: timestampFromMs(before.to), groupBy: [...groupBy] };
  return (await context.client.getStats(asked, calling(signal))).rows;
}
