/**
 * GetOverview: how the service fares, and what is wrong now.
 */
import { Dimension, Problem_Severity } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { ok } from "../../otp/reason.ts";
import { readOverview, type OverviewDependencies } from "../../service/operators/overview.ts";
import { tenantListed } from "./asker.ts";
import { durationOf, type HandlersOf } from "./handlers.ts";
import { badField, notFound } from "./refusal.ts";
import { badInterval, countsOf, dimensionOf, intervals, lineOf, periodOf, refusedStats, rowOf } from "./statistics.ts";

export function overviewHandlers(dependencies: OverviewDependencies): HandlersOf<"getOverview"> {
  const { store } = dependencies;
  return {
    async getOverview({ tenant: asked, from, to, interval: step, groupBy: group }, asker) {
      const tenant = tenantListed(asker, asked);
      if (!tenant.ok) return tenant;
      if (tenant.value !== undefined && (await store.registry.findTenant(tenant.value)) === undefined) return notFound;
      const interval = intervals.get(step);
      if (interval === undefined) return badInterval;
      const groupBy = dimensionOf.get(group);
      if (groupBy === undefined && group !== Dimension.UNSPECIFIED) {
        return badField("group_by", "must be tenant, country, provider or channel");
      }
      const scope = tenant.value === undefined ? "installation" : "tenant";
      const times = periodOf({ from, to }, store);
      const read = await readOverview(dependencies, { ...times, tenant: tenant.value, scope, interval, groupBy });
      if (!read.ok) return refusedStats(read);
      const { period, caps, problems, outbox } = read.value;
      const { whole, byTime, byGroup, lines } = period;
      return ok({
        ...(whole === undefined ? {} : { counts: countsOf(whole) }),
        byTime: byTime.map(rowOf),
        byGroup: byGroup.map(rowOf),
        lines: lines.map(lineOf),
        caps: caps.map((cap) => ({ ...cap, used: BigInt(cap.used), max: BigInt(cap.max) })),
        problems: problems.map(({ severity, ...problem }) => ({
          ...problem,
          severity: severity === "critical" ? Problem_Severity.CRITICAL : Problem_Severity.WARNING,
        })),
        ...(outbox && { queuedMessages: BigInt(outbox.depth), queueLag: durationOf(outbox.lagMs) }),
      });
    },
  };
}
