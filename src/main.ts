/**
 * The composition root: configuration → store → services → worker → server. Everything is made here and handed down as
 * arguments; nothing below looks anything up.
 */
import { hostname } from "node:os";
import { OtpService } from "../gen/otp/v1/otp_service_pb.ts";
import { certificateReader } from "./config/certificate.ts";
import type { Config } from "./config/config.ts";
import { naming } from "./config/start-trouble.ts";
import { readTenant } from "./config/tenant-settings.ts";
import { guarded, type GuardedProvider } from "./delivery/breaker.ts";
import { createEventWorker } from "./delivery/event-worker.ts";
import { limitedLine } from "./delivery/providers/console.ts";
import { createInbox } from "./delivery/inbox.ts";
import { createPost } from "./delivery/post.ts";
import type { Provider } from "./delivery/provider.ts";
import { makeProvider } from "./delivery/providers/list.ts";
import { eventAddresses } from "./delivery/public-address.ts";
import { createWorker } from "./delivery/worker.ts";
import { banner, everythingPublic, firstKeys } from "./first-start.ts";
import { ownMasterKey } from "./master-key.ts";
import type { Channel } from "./otp/channel.ts";
import type { Share } from "./otp/daily-cap.ts";
import { createMetrics } from "./observe/metrics.ts";
import { createTracing } from "./observe/tracing.ts";
import { createReadiness } from "./observe/readiness.ts";
import { createTurnedAwayLog } from "./observe/turned-away.ts";
import { slotsUnder } from "./otp/idempotency.ts";
import { createKeyRing } from "./otp/key-ring.ts";
import { isTrip } from "./otp/pumping-guard.ts";
import { receiptKeys } from "./otp/receipt.ts";
import { Secret } from "./otp/secret.ts";
import { createAddressOf, createAdmission } from "./server/rpc/authorize.ts";
import { createClientAddress, createShareOf } from "./server/http/client-address.ts";
import { createConnections } from "./server/listener/connections.ts";
import { createCors } from "./server/http/cors.ts";
import { createDemo } from "./server/pages/demo.ts";
import { createGateway } from "./server/rpc/gateway.ts";
import { boundHeap } from "./server/listener/heap.ts";
import { createHealth } from "./server/rpc/health.ts";
import { openRpcBudgets, withOpenRpcs } from "./server/rpc/open-rpcs.ts";
import { createOperations } from "./server/pages/operations.ts";
import { createRpcs } from "./server/rpc/rpcs.ts";
import { createOtpService } from "./server/rpc/handlers.ts";
import { createPublicDocuments } from "./server/pages/documents.ts";
import { createOwnNames } from "./server/http/own-names.ts";
import { reflectionRoutes } from "./server/rpc/reflection.ts";
import { createPages } from "./server/pages/pages.ts";
import { createReportPages } from "./server/pages/reports.ts";
import { connectionLimits, startServer } from "./server/listener/server.ts";
import { createAuthenticate } from "./service/api-keys.ts";
import { createBotCheck } from "./service/bot-check.ts";
import { tellingLimited } from "./service/limited.ts";
import { createOwnKeys } from "./service/own-keys.ts";
import { createQuotas } from "./service/quotas.ts";
import { createNoteReport } from "./service/reports.ts";
import { createSprayWatch } from "./service/spray-watch.ts";
import { createTenants } from "./service/tenants.ts";
import { phoneRefs } from "./service/phone-refs.ts";
import { createVerifications } from "./service/verifications.ts";
import { openStore } from "./store/open.ts";
import { createSweeper, keyThrough } from "./store/sweeper.ts";
import { stopwatchMs, type System } from "./system.ts";
import type { Telemetry } from "./telemetry.ts";

export interface Surroundings {
  readonly system: System;
  readonly telemetry: Telemetry;
  /** Puts text on standard output. */
  readonly print: (text: string) => void;
  /** Ways out to use instead of those that the configuration names. */
  readonly providers?: readonly Provider[];
  /** Opens the store; `openStore` unless given. What it opens must keep the promises of the port. */
  readonly openStore?: typeof openStore;
}

/** A service that takes calls. */
export interface RunningService {
  readonly host: string;
  readonly port: number;
  /** Reads the TLS certificate again, and keeps the old one if the new one is no good. */
  reload(): void;
  /** Answers what is under way, refuses what is new, puts everything away. Within 10 s. */
  stop(): Promise<void>;
}

const bodyBytesMax = 16_384;
const deadlineMs = 15_000;
/** Calls at once. At 10,000 calls a second the last of so many waits for 0.1 s. */
const callsMax = 1_024;
/** For health and reflection, which ask for a name. */
const openMessageBytesMax = 4_096;
const watchMs = 1_800_000;
/** Who vouches in receipts, where no public URL says it. */
const ownName = "otpd";
const demoTokenBytes = 18;
const serverGraceMs = 5_000;
const workerGraceMs = 3_000;
/** At a stop, sends wait for their providers only so much longer, so that they are answered within the server's grace. */
const sendGraceMs = 3_000;

/** Starts the service. Rejects with a plain sentence when it cannot, with nothing left open. */
export async function startService(config: Config, surroundings: Surroundings): Promise<RunningService> {
  const { system, telemetry, print } = surroundings;
  const onFault = (where: string) => (error: unknown) => telemetry.fault(where, error);
  const open = surroundings.openStore ?? openStore;
  const metrics =
    config.metrics === "off"
      ? undefined
      : createMetrics({
          system,
          store: () => store,
          providers: () => providers,
          rpcs: OtpService.methods.map(({ name }) => name),
        });
  let providers: readonly GuardedProvider[] = [];
  const readiness = createReadiness({ system, ping: () => store.ping(), providers: () => providers });
  let nudge = () => {};
  const tracing = createTracing(OtpService.typeName);
  const opened = await naming("OTP_DATABASE_URL", () =>
    open({
      database: config.database,
      system,
      exclusive: true,
      onPrefix: (news) => {
        if (isTrip(news.decision)) telemetry.tripped(news);
      },
      meter: {
        begin: stopwatchMs,
        end(began, acts, isDurable) {
          metrics?.batch(acts, stopwatchMs() - began, isDurable);
          readiness.batchEnded(isDurable);
        },
      },
      onNudge: () => nudge(),
    }),
  );
  const store = tracing.store(opened, config.database.kind);
  try {
    const keys = await naming("OTP_MASTER_KEY", async () => {
      const own = () => ownMasterKey(config.dataFolder, (count) => system.randomBytes(count));
      const ring = createKeyRing(config.masterKeys ?? [own()], config.leakedKeys);
      await store.registry.admitMasterKeys(ring.all);
      return ring;
    });
    const slotOf = slotsUnder(keys);
    await keyThrough(store, slotOf);

    const tenants = createTenants({
      store,
      read: (record) => {
        const { tenant, faults } = readTenant(record, config);
        for (const { setting, rest } of faults) {
          telemetry.warning(`tenant ${record.id}: ${setting} ${rest}; the operator's holds`);
        }
        return tenant;
      },
    });
    await tenants.refresh();
    const { tenantOf } = tenants;
    const onDailyShare = (tenant: string, share: Share) =>
      telemetry.dailyShare(tenant, share, tenantOf(tenant).policy.dailyMessagesMax);

    const now = () => system.now();
    const waysOut =
      surroundings.providers ??
      config.providers.map((name) => makeProvider(name, config.providerSettings, { now, print }));
    const isDevelopment = config.environment === "development";
    const inbox = isDevelopment && waysOut.every(({ name }) => name === "console") ? createInbox(now) : undefined;
    providers = waysOut.map((provider) =>
      tracing.provider(guarded(inbox?.copying(provider) ?? provider, now, telemetry.breaker)),
    );

    const providersOf = (channel: Channel) => (channel === "sms" ? providers : []);

    const phoneOf = phoneRefs(keys, tenantOf);
    const worker = createWorker({
      store,
      system: tracing.system(system),
      keys,
      tenantOf,
      providersOf,
      phoneOf,
      refreshTenants: tenants.refresh,
      onCall(provider, outcome, durationMs, ...of) {
        telemetry.providerCall(provider, outcome, durationMs);
        metrics?.providerCall(provider, outcome, durationMs, ...of);
      },
      onDailyShare,
      onFault: onFault("worker"),
    });
    nudge = worker.nudge;
    const eventWorker = createEventWorker({
      store,
      system,
      keys,
      post: createPost({ isAllowed: eventAddresses(isDevelopment, config.eventNetworks) }),
      onDisabled: ({ id, tenant, why }) => {
        telemetry.warning(`webhook endpoint ${id} of tenant ${tenant} was disabled: ${why}`);
      },
      onTried: (outcome) => metrics?.eventTried(outcome),
      onDropped: (count) => metrics?.eventsDropped(count),
      onFault: onFault("event-worker"),
    });
    const sweeper = createSweeper({ store, system, phoneOf, slotOf }, config.policy.retentionMs, onFault("sweeper"));
    const sprayWatch = createSprayWatch({
      store,
      system,
      tenantOf,
      warn: telemetry.warning,
      onFault: onFault("spray-watch"),
    });
    const verifications = createVerifications({
      store,
      system,
      keys,
      tenantOf,
      deliver(job, waitMs) {
        metrics?.sent(job);
        return worker.deliver(job, waitMs);
      },
      sendWaitMs: config.sendWaitMs,
      issuer: config.providerSettings.publicUrl ?? ownName,
      botCheck: config.botCheck && createBotCheck(config.botCheck, onFault("bot-check")),
      onDailyShare,
      onCheck: metrics?.checked,
    });

    const quotas = createQuotas(now, config.keyLimit);
    const rpcs = createRpcs({
      service: createOtpService(
        isDevelopment ? tellingLimited(verifications, (...of) => print(limitedLine(...of))) : verifications,
        quotas,
      ),
      messageBytesMax: bodyBytesMax,
      onFault: (call, error) => telemetry.fault(call.rpc, error, call.id),
    });
    // All callers of a proxy come from its address.
    const proxyShareOf = createShareOf(config.trustedProxies);
    const shareOf = createShareOf([...config.sharedNetworks, ...config.trustedProxies]);
    const connections = createConnections({
      ...connectionLimits,
      idleMs: config.idleMs,
      maxAgeMs: config.connectionMaxAgeMs,
      connectionsMax: config.connectionsMax,
      shareOf,
      isProxy: (peer) => proxyShareOf(peer) === undefined,
    });

    const publicDocument = createPublicDocuments(receiptKeys(keys));
    const reportPage = createReportPages(
      providers,
      createNoteReport({
        store,
        keys,
        providersOf: (channel) => providersOf(channel).map(({ name }) => name),
        phoneOf,
        nudge: worker.nudge,
      }),
    );
    const operations = createOperations({
      metrics: metrics && config.metrics !== "off" ? { access: config.metrics, render: metrics.render } : undefined,
      judge: readiness.judge,
      isOwnName: createOwnNames([config.host, hostname()]),
      now,
    });
    const ownKeys = createOwnKeys(system);
    const demo = config.demo
      ? createDemo({
          inbox,
          host: config.host,
          token: new Secret(Buffer.from(system.randomBytes(demoTokenBytes)).toString("base64url")),
          makeKey: (origins) => ownKeys.make({ ...everythingPublic, tenant: "default", name: "demo page", origins }),
        })
      : undefined;
    const { authenticate, wasValid } = createAuthenticate({
      store,
      ownKeys,
      failureLimit: config.authFailureLimit,
      isShared: ({ text }) => shareOf(text) === undefined,
      onFault: onFault("api-keys"),
    });
    const turnedAwayLog = createTurnedAwayLog({
      system,
      write: telemetry.turnedAway,
      writeRest: telemetry.turnedAwayRest,
    });
    const addressOf = createAddressOf(createClientAddress(config.trustedProxies));
    const gateway = createGateway({
      rpcs,
      system,
      addressOf,
      shareOf,
      wasValid,
      onAuthenticated: connections.authenticated,
      pages: (house) =>
        createPages(
          (path) => operations(path) ?? publicDocument(path) ?? reportPage(path) ?? demo?.pageOf(path),
          house,
        ),
      admit: createAdmission({
        authenticate: async (header, nameOf) => tenants.admit(await authenticate(header, nameOf)),
        addressOf,
        quotas,
        now,
        warn: telemetry.warning,
      }),
      cors: createCors((origin) => store.registry.listsOrigin(origin, store.now())),
      bodyBytesMax,
      deadlineMs,
      callsMax,
      onCall(call, status, durationMs) {
        // Whoever has shown no valid key could fill the log.
        if (call.caller !== undefined || turnedAwayLog.hasRoom()) telemetry.call(call, status, durationMs);
        metrics?.call(call, durationMs);
      },
      traced: tracing.call,
      onTurnedAway(request) {
        turnedAwayLog.tell(request);
        metrics?.turnedAway(request.reason);
      },
      onNoRoom: (rpc) => metrics?.turnedAway("STORE_UNAVAILABLE", rpc),
      onFault: onFault("gateway"),
    });
    const health = createHealth([OtpService.typeName]);
    const server = await startServer({
      handler: withOpenRpcs(gateway, {
        routes(registry) {
          health.routes(registry);
          if (config.reflection) reflectionRoutes(registry);
        },
        messageBytesMax: openMessageBytesMax,
        deadlineMs,
        watchMs,
        budgets: openRpcBudgets,
        shareOf,
        onFault: onFault("open-rpcs"),
      }),
      connections,
      host: config.host,
      port: config.port,
      readCertificate: config.tls === undefined ? undefined : certificateReader(config.tls),
      onBound: async (address) => {
        // The first keys are made last: those of a start that then failed would never be shown.
        const demoUrl = demo?.open(address);
        if (isDevelopment) print(banner(address, await firstKeys(store, system), config, demoUrl));
      },
      onFault: onFault("server"),
    });
    boundHeap();
    worker.start();
    eventWorker.start();
    sweeper.start();
    sprayWatch.start();
    telemetry.lifecycle("listening", { host: server.host, port: server.port });
    return {
      host: server.host,
      port: server.port,
      reload() {
        try {
          server.reloadCertificate();
          telemetry.lifecycle("reloaded");
        } catch (error) {
          telemetry.fault("certificate", error);
        }
      },
      async stop() {
        telemetry.lifecycle("stopping");
        health.drain();
        readiness.drain();
        const callOff = system.after(sendGraceMs, worker.hurry);
        await server.stop(serverGraceMs);
        turnedAwayLog.end();
        callOff();
        await Promise.all([worker.stop(workerGraceMs), eventWorker.stop(workerGraceMs)]);
        await sweeper.stop();
        await sprayWatch.stop();
        await store.close();
        await tracing.flush(system);
        telemetry.lifecycle("stopped");
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}
