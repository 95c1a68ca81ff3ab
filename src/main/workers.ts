/**
 * What goes on beside the calls: messages and events are delivered, old rows swept, guessing watched.
 */
import { createEventWorker } from "../delivery/event-worker.ts";
import { createPost } from "../delivery/post.ts";
import { eventAddresses } from "../delivery/public-address.ts";
import { createWorker, type Worker } from "../delivery/worker.ts";
import type { Tracing } from "../observe/tracing.ts";
import type { SlotOf } from "../otp/verification/idempotency.ts";
import { createRefusalCounts, type RefusalCounts } from "../service/operators/refusal-counts.ts";
import { createSprayingWatch, createUsual } from "../service/operators/spraying-watch.ts";
import { createUpkeep } from "../store/upkeep.ts";
import type { Recurring } from "../system.ts";
import { isDevelopment, type Base } from "./base.ts";
import { workerObservers } from "./observers.ts";

/** Calls and posts under way have so long at a stop. */
const workerGraceMs = 3_000;

/** The worker that hands messages to providers. */
export function createMessageWorker(base: Base, tracing: Tracing): Worker {
  const { tenants } = base;
  return createWorker({
    ...base,
    system: tracing.system(base.system),
    tenantOf: tenants.tenantOf,
    refreshTenants: tenants.refresh,
    ...workerObservers(base),
    onFault: base.onFault("worker"),
  });
}

/** Everything that recurs, and what counts refusals; a stop ends the workers first, both at once. */
export function createRecurring(
  base: Base,
  worker: Worker,
  slotOf: SlotOf,
): { readonly recurring: Recurring; readonly refusals: RefusalCounts } {
  const { config, store, telemetry, metrics, recentPosts, onFault } = base;
  const eventWorker = createEventWorker({
    ...base,
    post: createPost({ isAllowed: eventAddresses(isDevelopment(config), config.eventNetworks) }),
    onDisabled: ({ id, tenant, why }) => {
      telemetry.warning(`webhook endpoint ${id} of tenant ${tenant} was disabled: ${why}`);
    },
    onTried: (outcome, endpointId, posted) => {
      metrics?.eventTried(outcome);
      recentPosts.note(endpointId, posted);
    },
    onDropped: (count) => metrics?.eventsDropped(count),
    onFault: onFault("event-worker"),
  });
  const upkeep = createUpkeep({ ...base, slotOf }, config.policy.retentionMs, onFault("upkeep"));
  const sprayingWatch = createSprayingWatch({
    store,
    system: base.system,
    tenantOf: base.tenants.tenantOf,
    warn: telemetry.warning,
    usualOf: createUsual(store),
    onLook: (count) => metrics?.guessed(count),
    onFault: onFault("spraying-watch"),
  });
  const refusals = createRefusalCounts({ store, system: base.system, onFault: onFault("refusal-counts") });
  const recurring: Recurring = {
    start() {
      for (const part of [worker, eventWorker, upkeep, sprayingWatch, refusals]) part.start();
    },
    async stop() {
      await Promise.all([worker.stop(workerGraceMs), eventWorker.stop(workerGraceMs)]);
      await upkeep.stop();
      await sprayingWatch.stop();
      await refusals.stop();
    },
  };
  return { recurring, refusals };
}
