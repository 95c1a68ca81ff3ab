/**
 * What goes on beside the calls: messages and events are delivered, old rows swept, guessing watched.
 */
import { activityTellers } from "./activity.ts";
import { createEventWorker } from "../delivery/event-worker.ts";
import { createPost } from "../delivery/post.ts";
import { eventAddresses } from "../delivery/public-address.ts";
import { createWorker, type Worker } from "../delivery/worker.ts";
import type { Tracing } from "../observe/tracing.ts";
import type { SlotOf } from "../otp/idempotency.ts";
import { requestRef } from "../otp/verification.ts";
import { isSandbox } from "../otp/sandbox.ts";
import type { Shares } from "../otp/spending.ts";
import { createRefusalCounts, type RefusalCounts } from "../service/refusal-counts.ts";
import { createSprayingWatch, createUsual } from "../service/spraying-watch.ts";
import { createUpkeep } from "../store/upkeep.ts";
import type { Recurring } from "../system.ts";
import { isDevelopment, type Base } from "./base.ts";

/** Calls and posts under way have so long at a stop. */
const workerGraceMs = 3_000;

/** Tells operators of shares of a tenant's caps that are reached. */
export function shareTeller({ telemetry, activities, keys }: Base): (tenant: string, shares: Shares) => void {
  const tellers = activityTellers(activities, keys);
  return (tenant, { reached = [] }) => {
    for (const warning of reached) {
      if (activities.watchers > 0) tellers.share(tenant, warning);
      telemetry.dailyShare(tenant, warning);
    }
  };
}

/** The worker that hands messages to providers. */
export function createMessageWorker(base: Base, tracing: Tracing): Worker {
  const { telemetry, metrics, tenants, costOf, recentCalls, activities } = base;
  const { prices } = base.config;
  const tellers = activityTellers(activities, base.keys);
  return createWorker({
    ...base,
    system: tracing.system(base.system),
    tenantOf: tenants.tenantOf,
    refreshTenants: tenants.refresh,
    onCall(provider, outcome, durationMs, job, startMs) {
      const { id, tenant } = job.verification;
      telemetry.providerCall(provider, outcome, durationMs, {
        channel: job.message.channel,
        tenant,
        requestRef: requestRef(id),
      });
      metrics?.providerCall(provider, outcome, durationMs, job, startMs);
      if (activities.watchers > 0) tellers.called(provider, outcome, job);
      if (isSandbox(tenant)) return;
      const isTakenOver = job.message.providerIndex > 0;
      recentCalls.note(provider, job.message.channel, { outcome, durationMs, isTakenOver });
      const mayBeSent = outcome.kind === "accepted" || outcome.kind === "ambiguous";
      if (mayBeSent && prices !== undefined) {
        const cost = costOf?.(job.verification, job.message.channel, [provider]);
        if (cost !== undefined) metrics?.cost(provider, job.message.channel, prices.currency, cost);
      }
    },
    onShares: shareTeller(base),
    onFallback(job) {
      metrics?.sent(job);
      if (activities.watchers > 0) tellers.fallback(job);
    },
    onFault: base.onFault("worker"),
  });
}

/** Everything that recurs, and what counts refusals; a stop ends the workers first, both at once. */
export function createRecurring(
  base: Base,
  worker: Worker,
  slotOf: SlotOf,
): { readonly recurring: Recurring; readonly refusals: RefusalCounts } {
  const { config, store, telemetry, metrics, onFault } = base;
  const eventWorker = createEventWorker({
    ...base,
    post: createPost({ isAllowed: eventAddresses(isDevelopment(config), config.eventNetworks) }),
    onDisabled: ({ id, tenant, why }) => {
      telemetry.warning(`webhook endpoint ${id} of tenant ${tenant} was disabled: ${why}`);
    },
    onTried: (outcome) => metrics?.eventTried(outcome),
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
