/**
 * The listener in a test's own process: the real server, gateway and RPC adapters, in front of acts that answer at once
 * or hang until they are told to go on. Its limits can be made short; nothing else differs from the shipped one.
 */
import type { ConnectRouter } from "@connectrpc/connect";
import { setImmediate as nextTurn } from "node:timers/promises";
import { OtpService } from "../../../gen/otp/v1/otp_service_pb.ts";
import type { AddressRange } from "../../../src/delivery/public-address.ts";
import type { ApiKey } from "../../../src/otp/keys/api-key.ts";
import { ok, refuse } from "../../../src/otp/reason.ts";
import type { Call } from "../../../src/server/rpc/call.ts";
import { createAddressOf, createAuthorize } from "../../../src/server/rpc/authorize.ts";
import { createClientAddress, createOwnAddressOf } from "../../../src/server/http/client-address.ts";
import type { ConnectionLimits } from "../../../src/server/listener/connection-limits.ts";
import { createConnections, type Connections } from "../../../src/server/listener/connections.ts";
import type { Connection } from "../../../src/server/listener/connection.ts";
import { createPace, type Pace } from "../../../src/server/listener/pace.ts";
import { createGateway, type Gateway } from "../../../src/server/rpc/gateway.ts";
import { createHealth } from "../../../src/server/rpc/health.ts";
import { createOpenRpcs, openRpcBudgets, type OpenRpcBudgets } from "../../../src/server/rpc/open-rpcs.ts";
import { createCodecs } from "../../../src/server/rpc/codecs.ts";
import { createPerform } from "../../../src/server/rpc/handlers.ts";
import type { Certificate } from "../../../src/server/listener/certificate.ts";
import {
  connectionLimits,
  serverLimits,
  startServer,
  type RunningServer,
} from "../../../src/server/listener/server.ts";
import type { TurnedAway } from "../../../src/observe/turned-away.ts";
import { createPages, type Page } from "../../../src/server/pages/pages.ts";
import { createCallLimits } from "../../../src/service/callers/call-limits.ts";
import type { Verifications } from "../../../src/service/verifications.ts";
import { createManualSystem, testEpochMs } from "./system.ts";

export interface ListenerOptions {
  readonly limits?: Partial<ConnectionLimits & typeof serverLimits>;
  readonly pace?: Pace;
  readonly deadlineMs?: number;
  readonly callsMax?: number;
  readonly openRpcs?: Partial<OpenRpcBudgets>;
  /** What anybody may call, instead of health. */
  readonly openRoutes?: (router: ConnectRouter) => void;
  /** Addresses that many callers share. */
  readonly shared?: readonly AddressRange[];
  /** The address that a connection is to come from, by the one it has; that one unless given. */
  readonly peerOf?: (address: string) => string;
  /** Whether every connection is a proxy's. */
  readonly isBehindProxy?: boolean;
  readonly pageOf?: (path: string) => Page | undefined;
  /** When a request may be given a big answer; as the listener says unless given. */
  readonly untilRoom?: Connections["untilRoom"];
  readonly readCertificate?: () => Certificate;
  readonly onTurnedAway?: (request: TurnedAway) => void;
  /** Whether a page of an origin may ask; no origin's unless given. */
  readonly listsOrigin?: (origin: string) => Promise<boolean>;
}

export interface Listener {
  readonly server: RunningServer;
  readonly gateway: Gateway;
  readonly connections: Connections;
  readonly port: number;
  readonly url: string;
  /** Every call that was answered, and with what status. */
  readonly calls: { readonly call: Call; readonly status: number }[];
  readonly faults: unknown[];
  /** Every request that was refused before it became a call: the reason, and the RPC it led to. */
  readonly turnedAway: readonly (readonly [reason: string, rpc: string | undefined])[];
  /** Requests that have come so far, whatever became of them. */
  readonly asked: number;
  /** How often a connection has brought something so far, as far as it is counted. */
  readonly brought: number;
  /** Trailers of requests over HTTP/2 that have come so far. */
  readonly trailed: number;
  /** PINGs that have come so far. */
  readonly pinged: number;
  /** Moves its clock on. */
  advance(ms: number): void;
  /** From now on acts hang, until `letGo`. */
  hang(): void;
  letGo(): void;
  /** Resolves once so many acts hang at once. */
  hanging(count: number): Promise<void>;
  /** Resolves once so many calls have their answers, taken or not. */
  called(count: number): Promise<void>;
  /** Resolves once so many requests, calls or not, were answered to their end. */
  answered(count: number): Promise<void>;
  /** Resolves once so many requests have come. */
  came(count: number): Promise<void>;
  /** Resolves once so many connections are open and had their first turn. */
  open(count: number): Promise<void>;
  /** Stops. Rejects if anything went wrong that callers were told nothing about. Acts that hang are let go before. */
  stop(graceMs?: number): Promise<void>;
  /** The same, while acts go on hanging. */
  stopHanging(graceMs: number): Promise<void>;
}

/** The keys that a listener knows: a backend's, one of another tenant's, and a page's. */
export const testKey = "otp_test_key";
export const othersKey = "otp_others_key";
export const pageKey = "otp_page_key";
/** The only one that the page's key lists. */
export const pageOrigin = "https://shop.example";

const apiKey: ApiKey = {
  id: "testkey",
  kind: "live",
  tenant: "default",
  name: "test",
  digest: new Uint8Array(32),
  scopes: ["send", "verify", "read", "cancel"],
  origins: [],
  isApp: false,
  channels: ["sms"],
  createMs: testEpochMs,
  expireMs: null,
  revokeMs: null,
  lastUseMs: null,
  lastRefuseMs: null,
};

const limit = { burst: 60, intervalMs: 1_000 };

const keys: Readonly<Record<string, ApiKey>> = {
  [`Bearer ${testKey}`]: apiKey,
  [`Bearer ${othersKey}`]: { ...apiKey, id: "otherskey", tenant: "other" },
  [`Bearer ${pageKey}`]: { ...apiKey, id: "pagekey", kind: "pub", isApp: true, origins: [pageOrigin] },
};

/** Starts a listener on a free port. Limits that are not given are the shipped ones. */
export async function startListener(options: ListenerOptions = {}): Promise<Listener> {
  const system = createManualSystem();
  const calls: { call: Call; status: number }[] = [];
  const faults: unknown[] = [];
  const turnedAway: [reason: string, rpc: string | undefined][] = [];
  let holding: PromiseWithResolvers<void> | undefined;
  let hangingNow = 0;
  let answered = 0;
  let asked = 0;
  let brought = 0;
  let trailed = 0;
  let pinged = 0;
  const waiters = new Set<() => void>();
  const changed = () => {
    for (const check of waiters) check();
  };
  const until = (condition: () => boolean) =>
    new Promise<void>((resolve) => {
      const check = () => {
        if (!condition()) return;
        waiters.delete(check);
        resolve();
      };
      waiters.add(check);
      check();
    });

  async function act(): Promise<void> {
    if (holding === undefined) return;
    hangingNow += 1;
    changed();
    await holding.promise;
    hangingNow -= 1;
    changed();
  }

  const verifications: Pick<Verifications, "send" | "get"> = {
    async send() {
      await act();
      return { result: ok(sent), replayed: false };
    },
    async get() {
      await act();
      return { result: refuse("REQUEST_NOT_FOUND"), replayed: false };
    },
  };
  const sent = {
    id: "A".repeat(22),
    state: "PENDING",
    delivery: "ACCEPTED",
    digits: 6,
    expireMs: testEpochMs + 600_000,
    nextResendMs: null,
    resendsRemaining: 0,
    at: testEpochMs,
  } as const;

  const ownAddressOf = createOwnAddressOf(options.shared ?? []);
  const pace = options.pace ?? createPace();
  const unread = new Set<Connection>();
  /** Resolves once those that have come had their first turn. */
  async function whenRead(): Promise<void> {
    for (const connection of unread) {
      while (pace.isWaiting(connection)) await nextTurn();
      unread.delete(connection);
    }
  }
  const connections = createConnections({
    pace: {
      ...pace,
      opened(connection) {
        unread.add(connection);
        pace.opened(connection);
      },
    },
    ...connectionLimits,
    idleMs: 1_800_000,
    maxAgeMs: 0,
    tickMs: 50,
    connectionsMax: 10_000,
    ownAddressOf,
    isProxy: () => options.isBehindProxy === true,
    ...options.limits,
  });
  const book: Connections = {
    ...connections,
    get count() {
      return connections.count;
    },
    asked(request) {
      asked += 1;
      connections.asked(request);
      if ("stream" in request) request.stream.on("trailers", () => (trailed += 1));
      changed();
    },
    brought(...what) {
      brought += 1;
      connections.brought(...what);
    },
    callBegan(...call) {
      const { ended, lasts } = connections.callBegan(...call);
      return {
        ended() {
          ended();
          answered += 1;
          changed();
        },
        lasts,
      };
    },
    upgraded(socket, session) {
      session.on("ping", () => (pinged += 1));
      connections.upgraded(socket, session);
    },
    opened(socket, by) {
      const { remoteAddress: address } = socket;
      if (options.peerOf !== undefined && address !== undefined)
        Object.defineProperty(socket, "remoteAddress", { value: options.peerOf(address) });
      const isTaken = connections.opened(socket, by);
      socket.once("close", changed);
      changed();
      return isTaken;
    },
  };
  const addressOf = createAddressOf(createClientAddress([]));
  const health = createHealth([OtpService.typeName]);
  const authorize = createAuthorize({
    authenticate: (header = "") => {
      const key = keys[header];
      return Promise.resolve(key === undefined ? refuse("API_KEY_INVALID") : ok(key));
    },
    admit: (judged) => Promise.resolve(judged),
    addressOf,
    callLimits: createCallLimits(() => system.now(), { key: undefined, address: { sends: limit, calls: limit } }),
    now: () => system.now(),
    warn: () => {},
  });
  const perform = createPerform({
    verifications: verifications as Verifications,
    byMessage: authorize.byMessage,
    onFault: (_, error) => faults.push(error),
  });
  const openRpcs = {
    routes: options.openRoutes ?? health.routes,
    messageBytesMax: 4_096,
    deadlineMs: options.deadlineMs ?? 15_000,
    watchMs: 1_800_000,
    budgets: { ...openRpcBudgets, ...options.openRpcs },
    ownAddressOf,
    isPutOff: () => pace.isTaking(),
    onFault: (error: unknown) => faults.push(error),
  };
  const gateway = createGateway({
    codecs: createCodecs(perform, 16_384),
    system,
    authorize: authorize.byHeaders,
    addressOf,
    ownAddressOf,
    listsOrigin: options.listsOrigin ?? (() => Promise.resolve(false)),
    wasValid: (header) => header === `Bearer ${testKey}`,
    onAuthenticated: connections.authenticated,
    pages(shared) {
      const open = createOpenRpcs(openRpcs, shared);
      const pages = createPages(
        { get: options.pageOf ?? (() => undefined) },
        shared,
        options.untilRoom ?? connections.untilRoom,
      );
      return (...request) => open(...request) ?? pages(...request);
    },
    bodyBytesMax: 16_384,
    deadlineMs: options.deadlineMs ?? 15_000,
    callsMax: options.callsMax ?? 1_024,
    onCall(call, status) {
      calls.push({ call, status });
      changed();
    },
    onTurnedAway(request) {
      turnedAway.push([request.reason, undefined]);
      options.onTurnedAway?.(request);
    },
    onNoRoom: (rpc) => turnedAway.push(["STORE_UNAVAILABLE", rpc]),
    onFault: (error) => faults.push(error),
  });
  const server = await startServer({
    connections: book,
    limits: { ...serverLimits, checkMs: 50, ...options.limits },
    host: "127.0.0.1",
    port: 0,
    readCertificate: options.readCertificate,
    onFault: (error) => faults.push(error),
    handler: gateway,
  });
  async function stop(graceMs: number): Promise<void> {
    health.drain();
    await server.stop(graceMs);
    if (faults.length > 0) throw new AggregateError(faults, "the listener had faults of its own");
  }

  return {
    server,
    gateway,
    connections,
    port: server.port,
    url: `${server.scheme}://127.0.0.1:${server.port}`,
    calls,
    faults,
    get asked() {
      return asked;
    },
    get brought() {
      return brought;
    },
    get trailed() {
      return trailed;
    },
    get pinged() {
      return pinged;
    },
    turnedAway,
    advance: system.advance,
    hang() {
      holding ??= Promise.withResolvers<void>();
    },
    letGo() {
      holding?.resolve();
      holding = undefined;
    },
    hanging: (count) => until(() => hangingNow >= count),
    called: (count) => until(() => calls.length >= count),
    answered: (count) => until(() => answered >= count),
    came: (count) => until(() => asked >= count),
    async open(count) {
      await until(() => connections.count === count);
      await whenRead();
    },
    stop(graceMs = 2_000) {
      holding?.resolve();
      return stop(graceMs);
    },
    stopHanging: stop,
  };
}
