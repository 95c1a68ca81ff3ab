/**
 * `otpd stats`: what verifications came to, by the hour or the day, and by tenant, country, provider or channel.
 */
import { dimensions, type Count, type Dimension, type Interval } from "../otp/operators/statistics.ts";
import { moneyText } from "../otp/message/prices.ts";
import { moneyOf, readStats, verifyTimesOf, type Stats } from "../service/operators/statistics.ts";
import { dayMs, timeOf } from "../system.ts";
import { flag, Misused, parseArgs, say, sayTable, withStore, type Command, type Commands } from "./command.ts";
import { chargesAtHand, instantOf, tenantName } from "./setup.ts";

const stats: Command = {
  summary: "show what verifications came to",
  help: `Usage: otpd stats [--from TIME] [--to TIME] [--by hour|day|all] [--group WHAT[,WHAT]] [--tenant NAME] [--json]

Shows how many verifications were asked for and what they came to, counted in the hour in which they were asked for: those
of test keys left out. Sums are kept for 400 days; what has not been summed yet is counted from what is stored.

  --from TIME     from the hour that this lies in, such as 2026-01-31 or 2026-01-31T15:00Z (24 hours ago)
  --to TIME       until the hour that this lies in, that one included (now)
  --by STEP       hour, day (UTC), or all for the whole time as one (hour)
  --group WHAT    by tenant, country, provider or channel besides, with commas between them
  --tenant NAME   of one tenant alone
  --json          print JSON: times to verify in seconds, "refused" calls by reason where nothing but the tenant is grouped by`,
  run,
};

export const statsCommands: Commands = { stats };

const options = {
  from: { type: "string" },
  to: { type: "string" },
  by: { type: "string", default: "hour" },
  group: { type: "string" },
  tenant: { type: "string" },
  json: flag,
} as const;

async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options });
  const interval = intervalOf(values.by);
  const groupBy = groupsOf(values.group);
  const tenant = values.tenant === undefined ? undefined : tenantName(values.tenant);
  const charges = chargesAtHand();
  await withStore(async (store) => {
    await charges.learn(store);
    const now = store.now();
    const toMs = instantOf("--to", values.to) ?? now;
    const fromMs = instantOf("--from", values.from) ?? Math.max(0, Math.min(toMs, now) - dayMs);
    const read = await readStats(store, { fromMs, toMs, interval, groupBy, tenant });
    if (!read.ok) throw new Misused(`--${read.field === "group_by" ? "group" : read.field}: ${read.sentence}`);
    if (values.json) say(JSON.stringify(read.rows.map(toJson)));
    else sayTable(read.rows, "Nothing was asked for in that time.", columnsOf(interval, groupBy));
  }, charges);
}

function intervalOf(text: string): Interval {
  if (text === "hour" || text === "day" || text === "all") return text;
  throw new Misused("--by must be hour, day or all.");
}

function groupsOf(text = ""): Dimension[] {
  return text
    .split(",")
    .filter((each) => each !== "")
    .map((each) => {
      const found = dimensions.find((dimension) => dimension === each.trim());
      if (found === undefined) throw new Misused("--group takes tenant, country, provider and channel.");
      return found;
    });
}

const shownCounts = [
  "asked",
  "verified",
  "expired",
  "locked",
  "canceled",
  "failed",
  "messages",
  "segments",
  "delivered",
  "undelivered",
] as const satisfies readonly Count[];

function toJson(row: Stats) {
  const cost = moneyOf(row.costs);
  const [p50, p90, p99] = verifyTimesOf(row).map((ms) => (ms === undefined ? null : ms / 1_000));
  return {
    start_time: timeOf(row.startMs ?? null),
    tenant: row.tenant || undefined,
    country: row.country || undefined,
    provider: row.provider || undefined,
    channel: row.channel || undefined,
    ...Object.fromEntries(shownCounts.map((count) => [count, row.sums[count] ?? 0])),
    cost: cost === undefined ? null : { amount: moneyText(cost.micros), currency: cost.currency },
    verify_seconds: { p50, p90, p99 },
    refused: row.refused && Object.fromEntries(row.refused),
  };
}

function columnsOf(interval: Interval, groupBy: readonly Dimension[]): Record<string, (row: Stats) => string | null> {
  const time = (row: Stats) => timeOf(row.startMs ?? null)?.slice(0, interval === "day" ? 10 : 16) ?? null;
  const seconds = (ms: number | undefined) => (ms === undefined ? null : `${ms / 1_000}`);
  return {
    ...(interval === "all" ? {} : { FROM: time }),
    ...Object.fromEntries(groupBy.map((each) => [each.toUpperCase(), (row: Stats) => row[each] || null])),
    ...Object.fromEntries(shownCounts.map((count) => [count.toUpperCase(), (row: Stats) => `${row.sums[count] ?? 0}`])),
    COST: (row) => {
      const cost = moneyOf(row.costs);
      return cost === undefined ? null : `${moneyText(cost.micros)} ${cost.currency}`;
    },
    "P50 S": (row) => seconds(verifyTimesOf(row)[0]),
    "P99 S": (row) => seconds(verifyTimesOf(row)[2]),
  };
}
