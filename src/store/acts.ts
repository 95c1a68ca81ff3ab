/**
 * The acts of the store, written once for every database, in a file for each subject. Those of calls, workers and sweeps
 * declare what they touch and are synchronous functions of what was loaded (unit-of-work.ts); those of operators are steps
 * (statement.ts).
 */
import { adminKeyActs, apiKeyActs } from "./acts/api-keys.ts";
import { auditActs } from "./acts/audit.ts";
import { callActs } from "./acts/calls.ts";
import { consoleActs } from "./acts/console.ts";
import { destinationActs } from "./acts/destinations.ts";
import { endpointActs } from "./acts/endpoints.ts";
import { erasureActs } from "./acts/erasure.ts";
import { eventActs } from "./acts/events.ts";
import { fallbackActs } from "./acts/fallbacks.ts";
import { findingActs } from "./acts/finding.ts";
import { masterKeyActs } from "./acts/master-keys.ts";
import { messageActs } from "./acts/messages.ts";
import { phoneActs } from "./acts/phones.ts";
import { prefixActs } from "./acts/prefixes.ts";
import { recordActs } from "./acts/records.ts";
import { sampleActs } from "./acts/sample.ts";
import { statisticsActs } from "./acts/statistics.ts";
import { createSumming } from "./acts/sums.ts";
import { tenantActs } from "./acts/tenants.ts";
import { noCharge } from "../otp/operators/statistics.ts";
import type { Engine } from "./engine.ts";
import type { Store, StoreWatchers } from "./store.ts";
import { createSweep } from "./sweep.ts";

export function createStore(
  engine: Engine,
  { chargeOf = noCharge, onExpired }: Pick<StoreWatchers, "chargeOf" | "onExpired"> = {},
): Store {
  return {
    ...callActs(engine),
    ...messageActs(engine, chargeOf),
    ...fallbackActs(engine),
    ...recordActs(engine),
    ...phoneActs(engine),
    ...prefixActs(engine),
    registry: {
      ...apiKeyActs(engine),
      ...adminKeyActs(engine),
      ...auditActs(engine),
      ...consoleActs(engine),
      ...tenantActs(engine),
      ...destinationActs(engine),
      ...masterKeyActs(engine),
    },
    finding: findingActs(engine),
    erasure: erasureActs(engine, chargeOf),
    events: { ...endpointActs(engine), ...eventActs(engine) },
    statistics: statisticsActs(engine, chargeOf),
    samples: sampleActs(engine),
    sweep: createSweep(engine, createSumming(engine, chargeOf), onExpired),
    now: engine.now,
    ping: () => engine.ping(),
    close: () => engine.close(),
  };
}
