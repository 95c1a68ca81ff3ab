/**
 * The operators' service on a listener of its own, with the bounds of the callers' one. Not imported where it is off.
 */
import { hostname } from "node:os";
import { createPost } from "../delivery/post.ts";
import { eventAddresses, isLoopback } from "../delivery/public-address.ts";
import { readCertificate } from "../config/certificate.ts";
import { withGuard } from "../config/tenant-settings.ts";
import type { AdminKey } from "../otp/keys/admin-key.ts";
import { dearest } from "../otp/message/prices.ts";
import { maskPhone } from "../otp/phone-number.ts";
import { createAdminAuthentication } from "../server/admin/authenticate.ts";
import { activityHandlers } from "../server/admin/activity.ts";
import { auditHandlers } from "../server/admin/audit.ts";
import { destinationHandlers } from "../server/admin/destinations.ts";
import { createConsoleProxies, createSessions, type ConsoleProxies } from "../server/admin/console-sessions.ts";
import type { ConsoleRequest } from "../server/admin/console-cookie.ts";
import { createConsole } from "../server/admin/console.ts";
import { createAdminGateway } from "../server/admin/gateway.ts";
import type { AdminHandlers } from "../server/admin/handlers.ts";
import { keyHandlers } from "../server/admin/keys.ts";
import { overviewHandlers } from "../server/admin/overview.ts";
import { phoneHandlers } from "../server/admin/phones.ts";
import { providerHandlers, type ProviderDependencies } from "../server/admin/providers.ts";
import { sessionHandlers } from "../server/admin/get-session.ts";
import { suspectHandlers, type SuspectDependencies } from "../server/admin/suspects.ts";
import { statisticsHandlers } from "../server/admin/statistics.ts";
import { tenantHandlers } from "../server/admin/tenants.ts";
import { verificationHandlers } from "../server/admin/verifications.ts";
import { webhookHandlers } from "../server/admin/webhooks.ts";
import { createClientAddress, createIsWithin } from "../server/http/client-address.ts";
import { createOwnNames, hostOf } from "../server/http/own-names.ts";
import { createConnections, type Connections } from "../server/listener/connections.ts";
import type { Request, RequestHandler } from "../server/listener/exchange.ts";
import { connectionLimits, startServer, type RunningServer } from "../server/listener/server.ts";
import { createAddressOf, peerOf, whole } from "../server/rpc/authorize.ts";
import { createPages } from "../server/pages/pages.ts";
import { createCallLimit } from "../service/callers/call-limits.ts";
import { createConsoleSessions } from "../service/operators/console-sessions.ts";
import { createKeyCheck } from "../service/callers/key-check.ts";
import { isDevelopment, type Base } from "./base.ts";
import { createFaultLines, createTurnedAwayLines } from "./observers.ts";
import type { OwnAddressOf } from "./calls.ts";
import { settingsRules } from "./operator-settings.ts";
import { roomForOperators } from "./room-for-connections.ts";

/** Calls of one key: 200 at once, and 50 a second. */
const callLimit = { burst: 200, intervalMs: 20 };
const ownHost = "127.0.0.1";

export interface RunningAdmin extends RunningServer {
  /** How many connections are open. */
  connections(): number;
}

/** Starts to listen; rejects when the address cannot be had. */
export async function startAdmin(base: Base, ownAddressOf: OwnAddressOf, version: string): Promise<RunningAdmin> {
  const { config, onFault } = base;
  const { tls, admin } = config;
  const connections = createConnections({
    ...connectionLimits,
    idleMs: config.idleMs,
    maxAgeMs: config.connectionMaxAgeMs,
    connectionsMax: roomForOperators(),
    ownAddressOf,
    pace: base.pace,
    isProxy: createIsWithin(config.trustedProxies),
  });
  const { handler, end } = createHandler(base, ownAddressOf, version, connections);
  const server = await startServer({
    handler,
    connections,
    host: admin.access === "loopback" ? ownHost : config.host,
    port: admin.port,
    variables: {
      host: "OTP_HOST",
      port: "OTP_ADMIN_PORT",
      takenBy: admin.port === config.port ? "OTP_PORT" : undefined,
    },
    readCertificate: tls && (() => readCertificate(tls)),
    onFault: onFault("admin-server"),
  });
  return {
    ...server,
    connections: () => connections.count,
    async stop(graceMs) {
      await server.stop(graceMs);
      end();
    },
  };
}

function createHandler(
  base: Base,
  ownAddressOf: OwnAddressOf,
  version: string,
  { authenticated, untilRoom }: Connections,
): { readonly handler: RequestHandler; readonly end: () => void } {
  const { config, system, store, telemetry, tenants } = base;
  const faults = createFaultLines(base);
  const now = () => store.now();
  const clientAddress = createClientAddress(config.trustedProxies);
  const addressOf = createAddressOf(clientAddress);
  const keys = createKeyCheck<"admin", AdminKey>({
    now,
    kinds: ["admin"],
    find: (id) => store.registry.findAdminKey(id),
    touch: (id, at) => store.registry.touchAdminKey(id, at),
    noteRefused: (id, at) => store.registry.refuseAdminKey(id, at),
    failureLimit: config.authFailureLimit,
    isShared: ({ text }) => ownAddressOf(text) === undefined,
    onFault: faults.onFault("admin-keys"),
  });
  const isActive = async (tenant: string) => {
    await tenants.refresh();
    return !tenants.tenantOf(tenant).isDisabled;
  };
  const proxies = createConsoleProxies(config.console, config.tls !== undefined, isOwnName);
  const signIn = {
    ...proxies,
    sessions: createConsoleSessions({ store, system }),
    addressOf({ headers, peer }: ConsoleRequest) {
      const { text, name } = clientAddress(peer, whole(headers["x-forwarded-for"]));
      return text ?? name;
    },
  };
  const { hasCredentials, authenticate } = createAdminAuthentication({
    authenticate: keys.authenticate,
    addressOf,
    isActive,
    sessions: createSessions({ ...signIn, isActive }),
  });
  const log = createTurnedAwayLines(base);
  const handler = createAdminGateway({
    handlers: createHandlers(base, version),
    system,
    isOwnHost: isOwnHostFor(base, proxies),
    pages: (shared) => createPages(createConsole(signIn), shared, untilRoom),
    hasCredentials,
    authenticate,
    wasValid: ({ headers }) => keys.wasValid(headers.authorization),
    addressOf,
    ownAddressOf,
    limit: createCallLimit(callLimit, "KEY_RATE_LIMITED", now),
    onAuthenticated: authenticated,
    onCall(call, status, durationMs) {
      if (call.caller !== undefined || log.takeLine()) telemetry.call(call, status, durationMs);
    },
    onTurnedAway: log.add,
    onFault: (where, error) => faults.onFault(where)(error),
  });
  return {
    handler,
    end() {
      log.end();
      faults.end();
    },
  };
}

/** All that is served, by groups. */
function createHandlers(base: Base, version: string): AdminHandlers {
  const { config, system, store, keys, tenants, recentPosts } = base;
  const isAllowed = eventAddresses(isDevelopment(config), config.eventNetworks);
  return {
    ...sessionHandlers({ now: () => store.now(), version }),
    ...keyHandlers({
      store,
      system,
      originsOf: (tenant) => tenants.tenantOf(tenant).origins,
      isDevelopment: isDevelopment(config),
    }),
    ...webhookHandlers({
      store,
      system,
      keys,
      isAllowed,
      isDevelopment: isDevelopment(config),
      post: createPost({ isAllowed }),
      recentPosts,
    }),
    ...destinationHandlers({ store, keys }),
    ...suspectHandlers({ ...base, ...guardOf(base) }),
    ...statisticsHandlers({ store }),
    ...providerHandlers({ ...base, tenantOf: tenants.tenantOf, ...tryingOf(base) }),
    ...overviewHandlers(base),
    ...activityHandlers(base),
    ...tenantHandlers({ store, tenants, settings: settingsRules(config) }),
    ...verificationHandlers(base),
    ...phoneHandlers({ ...base, tenantOf: tenants.tenantOf }),
    ...auditHandlers({ store }),
  };
}

/** The providers as an operator tries them, and what that costs and leaves in the log. */
function tryingOf(base: Base): Pick<ProviderDependencies, "listOf" | "priceOf" | "onTried"> {
  const { config, telemetry, providersOf, bareOf } = base;
  return {
    listOf: (channel) =>
      providersOf(channel).map(({ name, isClosed }, place) => ({
        name,
        isClosed,
        send: (message, signal) => bareOf(channel)[place]?.send(message, signal) ?? Promise.reject(new Error(name)),
      })),
    priceOf: ({ country, channel, provider }) =>
      config.prices && dearest(config.prices, { country, channel }, [provider], 1),
    onTried: (provider, { e164 }, { kind: outcome }) =>
      telemetry.lifecycle("provider tried", { provider, outcome, phone: maskPhone(e164) }),
  };
}

/** What is known of guards' settings, and of the price of what they save. */
function guardOf({ config, providersOf }: Base): Pick<SuspectDependencies, "withGuard" | "costTo"> {
  const { prices } = config;
  return {
    withGuard: (settings, mode) => withGuard(settings, mode, config),
    costTo(country) {
      const names = providersOf("sms").map(({ name }) => name);
      const micros = prices && dearest(prices, { country, channel: "sms" }, names, 1);
      return prices && micros !== undefined ? { micros, currency: prices.currency } : undefined;
    },
  };
}

const isOwnName = createOwnNames([hostname()]);

/** Whoever is let in for being on this machine has to name it rightly too, or any site could have its browser call us. */
function isOwnHostFor({ config }: Base, { isProxy }: ConsoleProxies): (request: Request) => boolean {
  if (config.admin.access === "on") return () => true;
  return (request) => {
    const peer = peerOf(request);
    // A proxy that is believed has names of its own, and looks at them itself.
    return isProxy(peer) || ((peer === undefined || isLoopback(peer)) && isOwnName(hostOf(request.headers)));
  };
}
