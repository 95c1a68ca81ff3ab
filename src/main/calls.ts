/**
 * What takes calls: the acts behind the RPCs, who may call them, and the gateway in front.
 */
import { limitedLine } from "../delivery/providers/console.ts";
import type { Worker } from "../delivery/worker.ts";
import type { Tracing } from "../observe/tracing.ts";
import { activityTellers } from "./activity.ts";
import { createTurnedAwayLog, type TurnedAwayLog } from "../observe/turned-away.ts";
import { isPublishable, isTest } from "../otp/api-key.ts";
import { createClientAddress, createShareOf } from "../server/http/client-address.ts";
import { createConnections, type Connections } from "../server/listener/connections.ts";
import { connectionLimits } from "../server/listener/server.ts";
import { createPages } from "../server/pages/pages.ts";
import { createAddressOf, createAuthorize } from "../server/rpc/authorize.ts";
import { createCodecs } from "../server/rpc/codecs.ts";
import { createGateway, type Gateway, type GatewayOptions } from "../server/rpc/gateway.ts";
import { createPerform } from "../server/rpc/handlers.ts";
import { createOpenRpcs, type OpenRpcsOptions } from "../server/rpc/open-rpcs.ts";
import { createAuthenticate, type OwnKeys } from "../service/api-keys.ts";
import { createBotCheck } from "../service/bot-check.ts";
import { createCallLimits } from "../service/call-limits.ts";
import type { RefusalCounts } from "../service/refusal-counts.ts";
import { createVerifications, type Verifications } from "../service/verifications.ts";
import { isDevelopment, type Base } from "./base.ts";
import type { SitePages } from "./pages.ts";
import { connectionsWithinFiles } from "./open-files.ts";
import { shareTeller } from "./workers.ts";

const bodyBytesMax = 16_384;
const callsMax = 1_024;
/** A call is answered by then. */
export const deadlineMs = 15_000;
/** Who vouches in receipts, where no public URL says it. */
const ownName = "otpd";

/** What tells callers apart: whole addresses, but one share for all behind a proxy or in a network that many share. */
export type ShareOf = ReturnType<typeof createShareOf>;

export function createShares({ config }: Base): ShareOf {
  return createShareOf([...config.sharedNetworks, ...config.trustedProxies]);
}

export function createBoundConnections({ config, telemetry }: Base, shareOf: ShareOf): Connections {
  const connectionsMax = Math.min(config.connectionsMax, connectionsWithinFiles() ?? config.connectionsMax);
  if (connectionsMax < config.connectionsMax) {
    telemetry.warning(
      `OTP_MAX_CONNECTIONS is ${config.connectionsMax}, but this process may open so few files (ulimit -n) that it takes ${connectionsMax} connections`,
    );
  }
  // All callers of a proxy come from its address.
  const proxyShareOf = createShareOf(config.trustedProxies);
  return createConnections({
    ...connectionLimits,
    idleMs: config.idleMs,
    maxAgeMs: config.connectionMaxAgeMs,
    connectionsMax,
    shareOf,
    isProxy: (peer) => proxyShareOf(peer) === undefined,
  });
}

/** The acts behind the RPCs. */
function createActs(base: Base, worker: Worker): Verifications {
  const { config, metrics, onFault, print, activities } = base;
  const tellers = activityTellers(activities, base.keys);
  return createVerifications({
    ...base,
    tenantOf: base.tenants.tenantOf,
    deliver: worker.deliver,
    onOwed(job) {
      metrics?.sent(job);
      if (activities.watchers > 0) tellers.owed(job);
    },
    sendWaitMs: config.sendWaitMs,
    issuer: config.providerSettings.publicUrl ?? ownName,
    botCheck: config.botCheck && createBotCheck(config.botCheck, onFault("bot-check")),
    fallbackOrder: config.fallback,
    onShares: shareTeller(base),
    onVerify(decided, tenant) {
      metrics?.verifyDecided(decided, tenant);
      if (activities.watchers > 0) tellers.verified(decided);
    },
    // Whoever tries his own number again and again meets that limit first, and has to read how to go on.
    onLimited: isDevelopment(config) ? (...of) => print(limitedLine(...of)) : undefined,
  });
}

/** The log lines and metrics of calls, and of requests that became none. `end` logs what is only counted so far. */
function createCallLog(base: Base, countRefusal: RefusalCounts["count"]) {
  const { telemetry, metrics, activities } = base;
  const tellers = activityTellers(activities, base.keys);
  const log = createTurnedAwayLines(base);
  const listeners: Pick<GatewayOptions, "onCall" | "onTurnedAway" | "onNoRoom"> = {
    onCall(call, status, durationMs) {
      const { caller, reached, refusal } = call;
      // One of which anybody could make any number: without a valid key, or a page's that was not let in.
      const isAnybodys = caller === undefined || (isPublishable(caller.kind) && !reached);
      if (!isAnybodys || log.hasRoom()) telemetry.call(call, status, durationMs);
      metrics?.call(call, durationMs);
      if (activities.watchers > 0) tellers.refused(call);
      if (refusal !== undefined && !(caller && isTest(caller.kind))) countRefusal(caller?.tenant, refusal.reason);
    },
    onTurnedAway(request) {
      log.add(request);
      metrics?.turnedAway(request.reason);
      countRefusal(undefined, request.reason);
    },
    onNoRoom(rpc) {
      metrics?.turnedAway("STORE_UNAVAILABLE", rpc);
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
  readonly onFault: (where: string, error: unknown) => void;
  readonly end: () => void;
} {
  const { hasRoom, end } = createTurnedAwayLines(base);
  const onFault = (where: string, error: unknown) => {
    if (hasRoom()) base.telemetry.fault(where, error);
  };
  return { onFault, end };
}

export interface CallsOptions {
  readonly worker: Worker;
  readonly tracing: Tracing;
  readonly connections: Connections;
  readonly shareOf: ShareOf;
  readonly ownKeys: OwnKeys;
  readonly pages: SitePages["pages"];
  readonly refusals: Pick<RefusalCounts, "count">;
  readonly openRpcs: OpenRpcsOptions;
}

/** Makes the gateway. `end` is that of its logs. */
export function createCalls(
  base: Base,
  options: CallsOptions,
): { readonly gateway: Gateway; readonly end: () => void } {
  const { config, system, telemetry, store, tenants, onFault } = base;
  const { worker, tracing, connections, shareOf, ownKeys, pages } = options;
  const now = system.now.bind(system);
  const addressOf = createAddressOf(createClientAddress(config.trustedProxies));
  const { authenticate, wasValid } = createAuthenticate({
    store,
    ownKeys,
    failureLimit: config.authFailureLimit,
    isShared: ({ text }) => shareOf(text) === undefined,
    onFault: onFault("api-keys"),
  });
  const authorize = createAuthorize({
    authenticate,
    admit: tenants.admit,
    addressOf,
    callLimits: createCallLimits(now, { key: config.keyLimit, address: config.addressLimits }),
    now,
    warn: telemetry.warning,
  });
  const perform = createPerform({
    verifications: createActs(base, worker),
    byMessage: authorize.byMessage,
    onFault: (call, error) => telemetry.fault(call.rpc, error, call.id),
  });
  const { end, ...listeners } = createCallLog(base, options.refusals.count);
  const faults = createFaultLines(base);
  const gateway = createGateway({
    ...listeners,
    codecs: createCodecs(perform, bodyBytesMax),
    system,
    addressOf,
    shareOf,
    wasValid,
    onAuthenticated: connections.authenticated,
    pages(shared) {
      const openRpcs = createOpenRpcs(options.openRpcs, shared);
      const ofSite = createPages(pages, shared);
      return (...asked) => openRpcs(...asked) ?? ofSite(...asked);
    },
    authorize: authorize.byHeaders,
    listsOrigin: (origin) => store.registry.listsOrigin(origin, store.now()),
    bodyBytesMax,
    deadlineMs,
    callsMax,
    traced: tracing.call,
    onFault: (error) => faults.onFault("gateway", error),
  });
  return {
    gateway,
    end() {
      end();
      faults.end();
    },
  };
}
