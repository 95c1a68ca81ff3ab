/**
 * What takes calls: the acts behind the RPCs, who may call them, and the gateway in front.
 */
import { limitedLine } from "../delivery/providers/console.ts";
import type { Worker } from "../delivery/worker.ts";
import type { Tracing } from "../observe/tracing.ts";
import { createClientAddress, createIsWithin, createOwnAddressOf } from "../server/http/client-address.ts";
import { createConnections, type Connections } from "../server/listener/connections.ts";
import { connectionLimits } from "../server/listener/server.ts";
import { createPages } from "../server/pages/pages.ts";
import { createAddressOf, createAuthorize } from "../server/rpc/authorize.ts";
import { createCodecs } from "../server/rpc/codecs.ts";
import { createGateway, type Gateway } from "../server/rpc/gateway.ts";
import { createPerform } from "../server/rpc/handlers.ts";
import { createOpenRpcs, type OpenRpcsOptions } from "../server/rpc/open-rpcs.ts";
import { createAuthenticate, type OwnKeys } from "../service/callers/api-keys.ts";
import { createBotCheck } from "../service/callers/bot-check.ts";
import { createCallLimits } from "../service/callers/call-limits.ts";
import type { RefusalCounts } from "../service/operators/refusal-counts.ts";
import { createVerifications, type Verifications } from "../service/verifications.ts";
import { isDevelopment, type Base } from "./base.ts";
import type { SitePages } from "./pages.ts";
import { actObservers, createCallLog, createFaultLines } from "./observers.ts";
import { roomForConnections } from "./room-for-connections.ts";

const bodyBytesMax = 16_384;
const callsMax = 1_024;
/** A call is answered by then. */
export const deadlineMs = 15_000;
/** Who vouches in receipts, where no public URL says it. */
const ownName = "otpd";

/** Tells whose address is nobody else's: behind a proxy, and in a network of OTP_SHARED_NETWORKS, many have one. */
export type OwnAddressOf = ReturnType<typeof createOwnAddressOf>;

export function createOwnAddresses({ config }: Base): OwnAddressOf {
  return createOwnAddressOf([...config.sharedNetworks, ...config.trustedProxies]);
}

export function createBoundConnections(base: Base, ownAddressOf: OwnAddressOf): Connections {
  const { config, telemetry } = base;
  const room = roomForConnections(config.tls === undefined ? "cleartext" : "tls", config.admin.access !== "off");
  const connectionsMax = Math.min(config.connectionsMax, room.connectionsMax);
  if (connectionsMax < config.connectionsMax) {
    telemetry.warning(
      `OTP_MAX_CONNECTIONS is ${config.connectionsMax}, but this process ${room.cause} that it takes ${connectionsMax} connections`,
    );
  }
  return createConnections({
    ...connectionLimits,
    idleMs: config.idleMs,
    maxAgeMs: config.connectionMaxAgeMs,
    connectionsMax,
    ownAddressOf,
    pace: base.pace,
    // All callers of a proxy come from its address.
    isProxy: createIsWithin(config.trustedProxies),
  });
}

/** The acts behind the RPCs. */
function createActs(base: Base, worker: Worker, onBotCheckFault: (error: unknown) => void): Verifications {
  const { config, print } = base;
  return createVerifications({
    ...base,
    ...actObservers(base),
    tenantOf: base.tenants.tenantOf,
    deliver: worker.deliver,
    sendWaitMs: config.sendWaitMs,
    issuer: config.providerSettings.publicUrl ?? ownName,
    botCheck: config.botCheck && createBotCheck(config.botCheck, onBotCheckFault),
    fallbackOrder: config.fallback,
    // Whoever tries his own number again and again meets that limit first, and has to read how to go on.
    onLimited: isDevelopment(config) ? (...of) => print(limitedLine(...of)) : undefined,
  });
}

export interface CallsOptions {
  readonly worker: Worker;
  readonly tracing: Tracing;
  readonly connections: Connections;
  readonly ownAddressOf: OwnAddressOf;
  readonly ownKeys: OwnKeys;
  readonly pages: SitePages["pages"];
  readonly refusals: Pick<RefusalCounts, "count">;
  readonly openRpcs: Omit<OpenRpcsOptions, "onFault">;
}

/** Makes the gateway. `end` is that of its logs. */
export function createCalls(
  base: Base,
  options: CallsOptions,
): { readonly gateway: Gateway; readonly end: () => void } {
  const { config, system, telemetry, store, tenants } = base;
  const faults = createFaultLines(base);
  const { worker, tracing, connections, ownAddressOf, ownKeys, pages } = options;
  const now = system.now.bind(system);
  const addressOf = createAddressOf(createClientAddress(config.trustedProxies));
  const { authenticate, wasValid } = createAuthenticate({
    store,
    ownKeys,
    failureLimit: config.authFailureLimit,
    isShared: ({ text }) => ownAddressOf(text) === undefined,
    onFault: faults.onFault("api-keys"),
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
    verifications: createActs(base, worker, faults.onFault("bot-check")),
    byMessage: authorize.byMessage,
    onFault: (call, error) => telemetry.fault(call.rpc, error, call.id),
  });
  const { end, ...listeners } = createCallLog(base, options.refusals.count);
  const gateway = createGateway({
    ...listeners,
    codecs: createCodecs(perform, bodyBytesMax),
    system,
    addressOf,
    ownAddressOf,
    wasValid,
    onAuthenticated: connections.authenticated,
    pages(shared) {
      const ofOpenRpcs = { ...options.openRpcs, onFault: faults.onFault("open-rpcs") };
      const openRpcs = createOpenRpcs(ofOpenRpcs, shared);
      const ofSite = createPages(pages, shared, connections.untilRoom);
      return (...asked) => openRpcs(...asked) ?? ofSite(...asked);
    },
    authorize: authorize.byHeaders,
    listsOrigin: (origin) => store.registry.listsOrigin(origin, store.now()),
    bodyBytesMax,
    deadlineMs,
    callsMax,
    traced: tracing.call,
    onFault: faults.onFault("gateway"),
  });
  return {
    gateway,
    end() {
      end();
      faults.end();
    },
  };
}
