/**
 * WatchActivity: what happens on this instance, as it happens.
 */
import { ok } from "../../otp/reason.ts";
import { activityKinds, type Activities, type ActivityBatch } from "../../service/operators/activity.ts";
import type { Store } from "../../store/store.ts";
import { tenantListed } from "./asker.ts";
import { timeField, type HandlersOf } from "./handlers.ts";
import { badField, notFound } from "./refusal.ts";

export interface ActivityDependencies {
  readonly store: Store;
  readonly activities: Pick<Activities, "watch">;
}

export function activityHandlers({ store, activities }: ActivityDependencies): HandlersOf<"watchActivity"> {
  return {
    async watchActivity({ tenant: asked, kinds, country }, asker, signal) {
      const tenant = tenantListed(asker, asked);
      if (!tenant.ok) return tenant;
      if (tenant.value !== undefined && (await store.registry.findTenant(tenant.value)) === undefined) return notFound;
      const isKnown = kinds.length <= activityKinds.length && kinds.every((kind) => activityKinds.includes(kind));
      if (!isKnown) return badField("kinds", `must be of ${activityKinds.join(", ")}, each once`);
      if (!/^([A-Z]{2})?$/.test(country)) return badField("country", "must be as in ISO 3166-1 alpha-2, such as NL");
      return ok(told(activities.watch({ tenant: tenant.value, kinds, country }, signal)));
    },
  };
}

async function* told(batches: AsyncIterable<ActivityBatch>) {
  for await (const { activities, omitted } of batches) {
    yield {
      activities: activities.map(({ atMs, ...activity }) => ({ ...timeField("time", atMs), ...activity })),
      omitted: BigInt(omitted),
    };
  }
}
