/**
 * Who hears of what happens: the log, the metrics, the counts of refusals, and whoever watches in the console. For each thing
 * that happens one function tells all of them.
 */
import { createTurnedAwayLog, type TurnedAwayLog } from "../observe/turned-away.ts";
import { isPublishable, isTest } from "../otp/keys/api-key.ts";
import { isSandbox } from "../otp/message/sandbox.ts";
import type { SpendWarnings } from "../otp/decisions/spending.ts";
import { requestRef } from "../otp/verification/verification.ts";
import type { WorkerOptions } from "../delivery/worker.ts";
import type { GatewayOptions } from "../server/rpc/gateway.ts";
import type { RefusalCounts } from "../service/operators/refusal-counts.ts";
import type { VerificationsOptions } from "../service/verifications.ts";
import { activityTellers } from "./activity.ts";
import type { Base } from "./base.ts";

/** Tells operators of shares of a tenant's caps that are reached. */
function warningObserver({ telemetry, activities, keys }: Base): (tenant: string, warnings: SpendWarnings) => void {
  const tellers = activityTellers(activities, keys);
  return (tenant, { reached = [] }) => {
    for (const warning of reached) {
      if (activities.watchers > 0) tellers.spendWarning(tenant, warning);
      telemetry.spendWarning(tenant, warning);
    }
  };
}

/** What the acts behind the RPCs tell of. */
export function actObservers(
  base: Base,
): Required<Pick<VerificationsOptions, "onOwed" | "onVerify" | "onSpendWarnings">> {
  const { metrics, activities, keys } = base;
  const tellers = activityTellers(activities, keys);
  return {
    onOwed(job) {
      metrics?.sent(job);
      if (activities.watchers > 0) tellers.owed(job);
    },
    onVerify: (decided, tenant) => metrics?.verifyDecided(decided, tenant),
    onSpendWarnings: warningObserver(base),
  };
}

/** What the worker tells of: calls of providers, and messages that are owed by fallback. */
export function workerObservers(
  base: Base,
): Required<Pick<WorkerOptions, "onCall" | "onFallback" | "onSpendWarnings">> {
  const { telemetry, metrics, costOf, recentCalls, activities, keys } = base;
  const { prices } = base.config;
  const tellers = activityTellers(activities, keys);
  return {
    onCall({ provider, outcome, httpStatus, durationMs, job, startMs }) {
      const { id, tenant } = job.verification;
      const { channel, providerIndex } = job.message;
      const calledFor = { channel, tenant, callId: job.callId, requestRef: requestRef(id) };
      telemetry.providerCall(provider, outcome, { durationMs, httpStatus }, calledFor);
      metrics?.providerCall(provider, outcome, durationMs, job, startMs);
      if (activities.watchers > 0) tellers.called(provider, outcome, job);
      if (isSandbox(tenant)) return;
      recentCalls.note(provider, channel, { outcome, durationMs, isTakenOver: providerIndex > 0 });
      const mayBeSent = outcome.kind === "accepted" || outcome.kind === "ambiguous";
      if (mayBeSent && prices !== undefined) {
        const cost = costOf?.(job.verification, channel, [provider]);
        if (cost !== undefined) metrics?.cost(provider, channel, prices.currency, cost);
      }
    },
    onFallback(job) {
      metrics?.sent(job);
      if (activities.watchers > 0) tellers.fallback(job);
    },
    onSpendWarnings: warningObserver(base),
  };
}

/** What the gateway tells of: calls, and requests that became none. `end` logs what is only counted so far. */
export function createCallLog(base: Base, countRefusal: RefusalCounts["count"]) {
  const { telemetry, metrics, activities } = base;
  const tellers = activityTellers(activities, base.keys);
  const log = createTurnedAwayLines(base);
  const listeners: Pick<GatewayOptions, "onCall" | "onTurnedAway" | "onNoRoom"> = {
    onCall(call, status, durationMs) {
      const { caller, reached, refusal, isReplayed } = call;
      // One of which anybody could make any number: without a valid key, or a page's that was not let in.
      const isAnybodys = caller === undefined || (isPublishable(caller.kind) && !reached);
      const isTold = !isAnybodys || log.takeLine();
      if (isTold) telemetry.call(call, status, durationMs);
      metrics?.call(call, durationMs);
      const isOfTest = caller !== undefined && isTest(caller.kind);
      if (isTold && !isOfTest && activities.watchers > 0) tellers.refused(call);
      // What is only repeated has not come about again.
      const isCounted = !isReplayed && !isOfTest;
      if (refusal !== undefined && isCounted) countRefusal(caller?.tenant, refusal.reason);
    },
    onTurnedAway(request) {
      log.add(request);
      metrics?.turnedAway(request.reason);
      countRefusal(undefined, request.reason);
    },
    onNoRoom(rpc, isKnown) {
      metrics?.turnedAway("STORE_UNAVAILABLE", { rpc, isKnown });
      countRefusal(undefined, "STORE_UNAVAILABLE");
    },
  };
  return { ...listeners, end: log.end };
}

/** The bounded log lines of what anybody could ask. */
export function createTurnedAwayLines({ system, telemetry }: Pick<Base, "system" | "telemetry">): TurnedAwayLog {
  return createTurnedAwayLog({ system, write: telemetry.turnedAway, writeRest: telemetry.turnedAwayRest });
}

/** The log lines of faults that anybody's request can meet, bounded as those are: all do while the database is away. */
export function createFaultLines(base: Pick<Base, "system" | "telemetry">): {
  readonly onFault: (where: string) => (error: unknown) => void;
  readonly end: () => void;
} {
  const { takeLine, end } = createTurnedAwayLines(base);
  const onFault = (where: string) => (error: unknown) => {
    if (takeLine()) base.telemetry.fault(where, error);
  };
  return { onFault, end };
}
