/**
 * GetOverview: how the service fares, and what is wrong now.
 */
import { Problem_Severity } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { ok } from "../../otp/reason.ts";
import { readOverview, type OverviewDependencies } from "../../service/overview.ts";
import { tenantListed } from "./asker.ts";
import { durationOf, type HandlersOf } from "./handlers.ts";
import { notFound } from "./refusal.ts";
import { countsOf, periodOf, refusedStats } from "./statistics.ts";

export function overviewHandlers(dependencies: OverviewDependencies): HandlersOf<"getOverview"> {
  const { store } = dependencies;
  return {
    async getOverview({ tenant: asked, from, to }, asker) {
      const tenant = tenantListed(asker, asked);
      if (!tenant.ok) return tenant;
      if (tenant.value !== undefined && (await store.registry.findTenant(tenant.value)) === undefined) return notFound;
      const scope = tenant.value === undefined ? "installation" : "tenant";
      const read = await readOverview(dependencies, { ...periodOf({ from, to }, store), tenant: tenant.value, scope });
      if (!read.ok) return refusedStats(read);
      const { counts, caps, problems, outbox } = read.value;
      return ok({
        ...(counts === undefined ? {} : { counts: countsOf(counts) }),
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
