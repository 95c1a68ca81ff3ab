/**
 * The composition root, as a table of contents: configuration → providers → store → keys → tenants → workers → calls →
 * server. Everything is made here and in `main/`, and handed down as arguments; nothing below looks anything up.
 */
import { OtpService } from "../gen/otp/v1/otp_service_pb.ts";
import { readCertificate } from "./config/certificate.ts";
import type { Config } from "./config/config.ts";
import type { Worker } from "./delivery/worker.ts";
import { openAdmin, type OpenedAdmin } from "./main/operators.ts";
import { welcome } from "./main/first-start.ts";
import {
  createProviders,
  isDevelopment,
  openKeys,
  openPricing,
  openTenants,
  openWatchedStore,
  type Base,
  type Dependencies,
} from "./main/base.ts";
import { createWatching } from "./main/ends.ts";
import {
  createBoundConnections,
  createCalls,
  createOwnAddresses,
  deadlineMs,
  type OwnAddressOf,
} from "./main/calls.ts";
import { createSitePages } from "./main/pages.ts";
import { createMessageWorker, createRecurring } from "./main/workers.ts";
import type { Readiness } from "./observe/readiness.ts";
import { createTracing } from "./observe/tracing.ts";
import { slotsUnder } from "./otp/verification/idempotency.ts";
import { noCharge, type Sent } from "./otp/operators/statistics.ts";
import { boundHeap } from "./server/listener/heap.ts";
import { createPace } from "./server/listener/pace.ts";
import { startServer, type Address, type RunningServer } from "./server/listener/server.ts";
import { createHealth, type HealthService } from "./server/rpc/health.ts";
import { openRpcBudgets, type OpenRpcsOptions } from "./server/rpc/open-rpcs.ts";
import { createOwnKeys } from "./service/callers/api-keys.ts";
import { phoneRefs } from "./service/phone-refs.ts";
import { keyThrough } from "./store/upkeep.ts";
import type { Telemetry } from "./telemetry.ts";

/** A service that takes calls. */
export interface RunningService {
  readonly host: string;
  readonly port: number;
  /** Where operators are served; undefined where they are not. */
  readonly admin: Address | undefined;
  /** Reads the TLS certificate again, and keeps the old one if the new one is no good. */
  reload(): void;
  /** Bounds the heap of this process from now on: for one that does nothing but serve. */
  boundHeap(): void;
  /**
   * Says that it is not ready, and goes on for OTP_DRAIN_SECONDS. Then answers what is under way, refuses what is new, and puts
   * everything away, within 10 s. A second call ends the wait.
   */
  stop(): Promise<void>;
}

/** For health and reflection, which ask for a name. */
const openMessageBytesMax = 4_096;
const watchMs = 1_800_000;
const serverGraceMs = 5_000;
/** At a stop, sends wait for their providers only so much longer, so that they are answered within the server's grace. */
const sendGraceMs = 3_000;

/** Starts the service. Rejects with a plain sentence when it cannot, with nothing left open. */
export async function startService(config: Config, dependencies: Dependencies): Promise<RunningService> {
  const { tls } = config;
  const { system, telemetry, print } = dependencies;
  const onFault = (where: string) => (error: unknown) => telemetry.fault(where, error);
  const tracing = createTracing(OtpService.typeName, process.env["OTEL_SEMCONV_STABILITY_OPT_IN"]);
  const providers = await createProviders(config, dependencies, tracing);
  let worker: Worker | undefined;
  const opened: { admin?: OpenedAdmin } = {};
  let chargeOf = noCharge;
  const { activities, ends } = createWatching(system);
  const madeLater = { onNudge: () => worker?.nudge(), chargeOf: (sent: Sent) => chargeOf(sent), activities, ends };
  const watched = await openWatchedStore(config, dependencies, tracing, providers.providers, madeLater);
  const { store, readiness } = watched;
  try {
    const keys = await openKeys(config, system, store);
    const slotOf = slotsUnder(keys);
    await keyThrough(store, slotOf);
    const tenants = await openTenants(config, telemetry, store);
    const phoneOf = phoneRefs(keys, tenants.tenantOf);
    const given = { config, system, telemetry, print, onFault, activities, pace: createPace() };
    const pricing = openPricing(config, tenants, providers.providersOf);
    chargeOf = pricing.chargeOf;
    const base: Base = { ...given, ...ends.watch(watched, keys), ...providers, keys, tenants, phoneOf, ...pricing };

    worker = createMessageWorker(base, tracing);
    const { recurring, refusals } = createRecurring(base, worker, slotOf);
    const ownAddressOf = createOwnAddresses(base);
    const connections = createBoundConnections(base, ownAddressOf);
    const ownKeys = createOwnKeys(system, base.channelsOn);
    const { demo, pages } = await createSitePages(base, ownKeys, worker.nudge);
    const health = createHealth([OtpService.typeName]);
    const openRpcs = await openRpcsOf(base, health, ownAddressOf);
    const calls = createCalls(base, { worker, tracing, connections, ownAddressOf, ownKeys, pages, refusals, openRpcs });
    const server = await startServer({
      handler: calls.gateway,
      connections,
      host: config.host,
      port: config.port,
      readCertificate: tls && (() => readCertificate(tls)),
      onBound: async (address) => {
        // Once the callers' port is ours: a start that fails has served nobody.
        opened.admin = await openAdmin(base, ownAddressOf, dependencies.version ?? "");
        // The first keys are made last: those of a start that then failed would never be shown.
        const also = { demoUrl: demo?.open(address), admin: opened.admin.address };
        if (isDevelopment(config)) print(await welcome(base, address, also));
      },
      onFault: onFault("server"),
    });
    const { admin } = opened;
    recurring.start();
    telemetry.lifecycle("listening", { host: server.host, port: server.port });
    const { endWaits } = worker;
    const stop = createStop(base, readiness, {
      drain: health.drain,
      endWaits,
      async putAway() {
        await Promise.all([server.stop(serverGraceMs), admin?.stop(serverGraceMs)]);
        calls.end();
        await recurring.stop();
        await store.close();
        await tracing.flush(system);
      },
    });
    return {
      host: server.host,
      port: server.port,
      admin: admin?.address,
      reload() {
        reload(server, telemetry);
        if (admin !== undefined) reload(admin, telemetry);
      },
      boundHeap: () => boundHeap(() => connections.count + (admin?.connections() ?? 0) === 0),
      stop,
    };
  } catch (error) {
    await opened.admin?.stop(0);
    await store.close();
    throw error;
  }
}

interface StopSteps {
  /** Tells gRPC health. */
  drain(): void;
  /** Sends wait no more for their providers. */
  endWaits(): void;
  putAway(): Promise<void>;
}

/** Makes the stop. What it is told twice it does once, but a second call ends its wait for balancers. */
function createStop(
  { config, system, telemetry }: Pick<Base, "config" | "system" | "telemetry">,
  readiness: Pick<Readiness, "drain">,
  steps: StopSteps,
): () => Promise<void> {
  const { drainMs } = config;
  const drained = Promise.withResolvers<void>();
  async function stop(): Promise<void> {
    telemetry.lifecycle("stopping", drainMs > 0 ? { drain_seconds: drainMs / 1_000 } : {});
    steps.drain();
    readiness.drain();
    if (drainMs > 0) {
      const cancelWait = system.after(drainMs, drained.resolve);
      await drained.promise;
      cancelWait();
    }
    const cancel = system.after(sendGraceMs, steps.endWaits);
    await steps.putAway();
    cancel();
    telemetry.lifecycle("stopped");
  }
  let stopped: Promise<void> | undefined;
  return () => {
    if (stopped !== undefined) drained.resolve();
    return (stopped ??= stop());
  };
}

/** What is served without a key: health, and reflection where it is on. */
async function openRpcsOf(
  { config, pace }: Base,
  health: HealthService,
  ownAddressOf: OwnAddressOf,
): Promise<Omit<OpenRpcsOptions, "onFault">> {
  const reflection = config.reflection ? await import("./server/rpc/reflection.ts") : undefined;
  return {
    routes(registry) {
      health.routes(registry);
      reflection?.reflectionRoutes(registry);
    },
    isPutOff: pace.isTaking,
    messageBytesMax: openMessageBytesMax,
    deadlineMs,
    watchMs,
    budgets: openRpcBudgets,
    ownAddressOf,
  };
}

function reload(server: Pick<RunningServer, "reloadCertificate">, telemetry: Telemetry): void {
  try {
    server.reloadCertificate();
    telemetry.lifecycle("reloaded");
  } catch (error) {
    telemetry.fault("certificate", error);
  }
}
