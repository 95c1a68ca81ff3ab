/**
 * GetStats: sums of what verifications came to.
 */
import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";
import { Dimension, Interval } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { invalid, ok } from "../../otp/reason.ts";
import type { dimensions, Count } from "../../otp/operators/statistics.ts";
import { moneyOf, readStats, verifyTimesOf, type Stats, type StatsRead } from "../../service/operators/statistics.ts";
import type { Store } from "../../store/store.ts";
import { tenantListed } from "./asker.ts";
import { durationOf, instantOf, timeField, type HandlersOf } from "./handlers.ts";
import { badField } from "./refusal.ts";
import { dayMs } from "../../system.ts";

export interface StatisticsDependencies {
  readonly store: Store;
}

export const intervals = new Map<Interval, "all" | "hour" | "day">([
  [Interval.UNSPECIFIED, "all"],
  [Interval.HOUR, "hour"],
  [Interval.DAY, "day"],
]);

export const dimensionOf = new Map<Dimension, (typeof dimensions)[number]>([
  [Dimension.TENANT, "tenant"],
  [Dimension.COUNTRY, "country"],
  [Dimension.PROVIDER, "provider"],
  [Dimension.CHANNEL, "channel"],
]);

export function statisticsHandlers({ store }: StatisticsDependencies): HandlersOf<"getStats"> {
  return {
    async getStats({ from, to, interval: step, groupBy: groups, tenant: asked }, asker) {
      const tenant = tenantListed(asker, asked);
      if (!tenant.ok) return tenant;
      const interval = intervals.get(step);
      if (interval === undefined) return badInterval;
      const groupBy = groups.map((each) => dimensionOf.get(each));
      if (!groupBy.every((each) => each !== undefined)) {
        return badField("group_by", "must be of tenant, country, provider and channel");
      }
      const read = await readStats(store, {
        ...periodOf({ from, to }, store),
        interval,
        groupBy,
        tenant: tenant.value,
      });
      return read.ok ? ok({ rows: read.rows.map(rowOf) }) : refusedStats(read);
    },
  };
}

export const badInterval = badField("interval", "must be one that this server knows");

/** What is asked about: the last 24 hours unless it is said. */
export function periodOf(
  { from, to }: { readonly from?: Timestamp | undefined; readonly to?: Timestamp | undefined },
  store: Pick<Store, "now">,
) {
  const toMs = instantOf(to) ?? store.now();
  return { fromMs: instantOf(from) ?? Math.max(0, toMs - dayMs), toMs };
}

/** Why there are no statistics of what was asked. */
export function refusedStats({ field, sentence }: Extract<StatsRead, { ok: false }>) {
  return invalid(field, `${field} is refused: ${sentence}`);
}

/** A row as it is told. */
export const rowOf = (row: Stats) => ({ ...keyOf(row), counts: countsOf(row) });

/** A row of which verifications are told alone. */
export const lineOf = (row: Stats) => ({ ...keyOf(row), counts: { asked: BigInt(row.sums.asked ?? 0) } });

function keyOf({ startMs, tenant, country, provider, channel }: Stats) {
  return { ...timeField("startTime", startMs), tenant, country, provider, channel };
}

/** Sums as they are told. */
export function countsOf(row: Stats) {
  const count = (name: Count) => BigInt(row.sums[name] ?? 0);
  const cost = moneyOf(row.costs);
  const [p50, p90, p99] = verifyTimesOf(row);
  return {
    asked: count("asked"),
    messages: count("messages"),
    segments: count("segments"),
    delivered: count("delivered"),
    undelivered: count("undelivered"),
    verified: count("verified"),
    expired: count("expired"),
    locked: count("locked"),
    canceled: count("canceled"),
    failed: count("failed"),
    ...(cost === undefined ? {} : { cost: { micros: BigInt(cost.micros), currency: cost.currency } }),
    ...durationField("verifyTimeP50", p50),
    ...durationField("verifyTimeP90", p90),
    ...durationField("verifyTimeP99", p99),
    refused: Object.fromEntries(Array.from(row.refused ?? [], ([reason, refused]) => [reason, BigInt(refused)])),
  };
}

function durationField(name: string, ms: number | undefined): Readonly<Record<string, Duration>> {
  return ms === undefined ? {} : { [name]: durationOf(ms) };
}
