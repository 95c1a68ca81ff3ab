/**
 * The composition root: configuration → store → services → worker → server. Everything is made here and handed down as
 * arguments; nothing below looks anything up.
 */
import { createConnectRouter } from "@connectrpc/connect";
import { compressionGzip } from "@connectrpc/connect-node";
import { mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { OtpService } from "../gen/otp/v1/otp_service_pb.ts";
import type { Config } from "./config/config.ts";
import { readTenant } from "./config/tenant-settings.ts";
import { guarded } from "./delivery/breaker.ts";
import { createInbox } from "./delivery/inbox.ts";
import type { Provider } from "./delivery/provider.ts";
import { makeProvider, type ProviderName } from "./delivery/providers.ts";
import { createWorker } from "./delivery/worker.ts";
import { ownMasterKey } from "./master-key.ts";
import { publishableScopes, secretScopes } from "./otp/api-key.ts";
import type { Share } from "./otp/daily-cap.ts";
import { createKeyRing } from "./otp/key-ring.ts";
import { receiptKeys } from "./otp/receipt.ts";
import { isTrip } from "./otp/pumping-guard.ts";
import type { Secret } from "./otp/secret.ts";
import { jsonOptions } from "./server/decoding.ts";
import { createDemo } from "./server/demo.ts";
import { createGateway } from "./server/gateway.ts";
import { gate, guard } from "./server/interceptors.ts";
import { createKeySetVisit } from "./server/key-set.ts";
import { createOtpService } from "./server/otp-service.ts";
import { createReportVisits } from "./server/reports.ts";
import { createAdmission } from "./server/admission.ts";
import { createClientAddress } from "./server/client-address.ts";
import { createConnections } from "./server/connections.ts";
import { createCors } from "./server/cors.ts";
import { connectionLimits, startServer, type Address, type Certificate } from "./server/server.ts";
import { createAuthenticate, issueKey } from "./service/api-keys.ts";
import { createBotCheck } from "./service/challenge.ts";
import { createOwnKeys } from "./service/own-keys.ts";
import { createNoteReport } from "./service/reports.ts";
import { createQuotas } from "./service/quotas.ts";
import { createSprayWatch } from "./service/spray-watch.ts";
import { createTenants } from "./service/tenants.ts";
import { createVerifications, phoneRefs } from "./service/verifications.ts";
import { openSqlite } from "./store/sqlite.ts";
import { createSweeper } from "./store/sweeper.ts";
import type { System } from "./system.ts";
import type { Telemetry } from "./telemetry.ts";

export interface Surroundings {
  readonly system: System;
  readonly telemetry: Telemetry;
  /** Puts text on standard output. */
  readonly print: (text: string) => void;
  /** Ways out to use instead of those that the configuration names. */
  readonly providers?: readonly Provider[];
  /** Opens the store; `openSqlite` unless given. What it opens must keep the promises of the port. */
  readonly openStore?: typeof openSqlite;
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
const serverGraceMs = 5_000;
const workerGraceMs = 3_000;
/** Who vouches in receipts, where no public URL says it. */
const ownName = "otpd";
/** At a stop, sends wait for their providers only so much longer, so that they are answered within the server's grace. */
const sendGraceMs = 3_000;

/** Starts the service. Rejects with a plain sentence when it cannot, with nothing left open. */
export async function startService(config: Config, surroundings: Surroundings): Promise<RunningService> {
  const { system, telemetry, print } = surroundings;
  const onFault = (where: string) => (error: unknown) => telemetry.fault(where, error);
  mkdirSync(dirname(config.databasePath), { recursive: true, mode: 0o700 });
  const openStore = surroundings.openStore ?? openSqlite;
  const store = await openStore({
    path: config.databasePath,
    system,
    exclusive: true,
    onPrefix: (news) => {
      if (isTrip(news.decision)) telemetry.tripped(news);
    },
  });
  try {
    const keys = createKeyRing(
      config.masterKeys ?? [ownMasterKey(config.databasePath, (count) => system.randomBytes(count))],
    );
    await store.registry.admitMasterKeys(keys.all);

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
      surroundings.providers ?? config.providers.map((name) => makeProvider(name, config.providerSettings, now, print));
    const isDevelopment = config.environment === "development";
    const inbox = isDevelopment && waysOut.every(({ name }) => name === "console") ? createInbox(now) : undefined;
    const providers = waysOut.map((provider) => guarded(inbox?.copying(provider) ?? provider, now));
    const ownKeys = createOwnKeys(system);
    const demo = isDevelopment
      ? createDemo({
          inbox,
          host: config.host,
          makeKey: (origins) => ownKeys.make({ ...everythingPublic, tenant: "default", name: "demo page", origins }),
        })
      : undefined;
    const phoneOf = phoneRefs(keys, tenantOf);
    const worker = createWorker({
      store,
      system,
      keys,
      tenantOf,
      providers,
      phoneOf,
      refreshTenants: tenants.refresh,
      onCall: telemetry.providerCall,
      onDailyShare,
      onFault: onFault("worker"),
    });
    const sweeper = createSweeper(store, system, config.policy.retentionMs, phoneOf, onFault("sweeper"));
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
      deliver: worker.deliver,
      sendWaitMs: config.sendWaitMs,
      issuer: config.providerSettings.publicUrl ?? ownName,
      botCheck: config.challenge && createBotCheck(config.challenge, onFault("bot-check")),
      onDailyShare,
    });
    const quotas = createQuotas(now, config.keyLimit);
    const router = createConnectRouter({
      acceptCompression: [compressionGzip],
      readMaxBytes: bodyBytesMax,
      jsonOptions,
      requestGate: gate,
      interceptors: [guard((call, error) => telemetry.fault(call.rpc, error, call.id))],
    }).service(OtpService, createOtpService(verifications, quotas));
    const connections = createConnections({
      ...connectionLimits,
      idleMs: config.idleMs,
      maxAgeMs: config.connectionMaxAgeMs,
    });
    const keySetVisit = createKeySetVisit(receiptKeys(keys));
    const reportVisit = createReportVisits(
      providers,
      createNoteReport({ store, keys, providers: providers.map(({ name }) => name), phoneOf, nudge: worker.nudge }),
    );
    const authenticate = createAuthenticate({
      store,
      ownKeys,
      failureLimit: config.authFailureLimit,
      onFault: onFault("api-keys"),
    });
    const gateway = createGateway({
      router,
      system,
      onAuthenticated: connections.authenticated,
      visitOf: (path) => keySetVisit(path) ?? reportVisit(path) ?? demo?.visitOf(path),
      admit: createAdmission({
        authenticate: async (header, addressOf) => tenants.admit(await authenticate(header, addressOf)),
        addressOf: createClientAddress(config.trustedProxies),
        quotas,
        now,
        warn: telemetry.warning,
      }),
      cors: createCors((origin) => store.registry.listsOrigin(origin, store.now())),
      bodyBytesMax,
      deadlineMs,
      callsMax,
      onCall: telemetry.call,
      onFault: onFault("gateway"),
    });
    const server = await startServer({
      gateway,
      connections,
      connectionsMax: config.connectionsMax,
      host: config.host,
      port: config.port,
      readCertificate: config.tls === undefined ? undefined : certificateReader(config.tls),
      beforeAccept: async (address) => {
        // The key is made last: one that was made for a start that then failed would never be shown.
        const demoUrl = demo?.open(address);
        if (isDevelopment) print(banner(address, await firstApiKeys(), config.providers, demoUrl));
      },
      onFault: onFault("server"),
    });
    worker.start();
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
        const callOff = system.after(sendGraceMs, worker.hurry);
        await server.stop(serverGraceMs);
        callOff();
        await worker.stop(workerGraceMs);
        await sweeper.stop();
        await sprayWatch.stop();
        await store.close();
        telemetry.lifecycle("stopped");
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }

  /** Keys that may do everything, for a first start on an empty database. */
  async function firstApiKeys(): Promise<FirstKeys | undefined> {
    if ((await store.registry.listApiKeys()).length > 0) return undefined;
    const common = { tenant: "default", name: "first start", expireMs: null };
    const secret = await issueKey(store, system, { ...common, kind: "live", scopes: secretScopes });
    const publishable = await issueKey(store, system, {
      ...common,
      ...everythingPublic,
      origins: [firstOrigin],
    });
    return { secret: secret.text, publishable: publishable.text };
  }
}

/** What a page in development may do: all that a publishable key can. */
const everythingPublic = { kind: "pub", scopes: ["send", ...publishableScopes] } as const;

/** Where a web client in development is served from, by the build tool that most of them use. */
const firstOrigin = "http://localhost:5173";

interface FirstKeys {
  readonly secret: Secret;
  readonly publishable: Secret;
}

function certificateReader({ certFile, keyFile }: { certFile: string; keyFile: string }): () => Certificate {
  return () => ({ cert: readFileSync(certFile, "utf8"), key: readFileSync(keyFile, "utf8") });
}

/** What a first-time user reads. Plain text, every command on a line of its own. */
function banner(
  { scheme, host, port }: Address,
  firstKeys: FirstKeys | undefined,
  providers: readonly ProviderName[],
  demoUrl: string | undefined,
): string {
  const at = `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`;
  const bearer = firstKeys?.secret.reveal() ?? "$API_KEY";
  const curl = (path: string, body: string) =>
    `  curl -s ${at}${path} -H "Authorization: Bearer ${bearer}" -H "Content-Type: application/json" -d '${body}'`;
  const key =
    firstKeys === undefined
      ? [
          "Your API key was shown at the first start; npx otpd keys create makes another. The commands below take it from",
          "the shell:",
          "",
          // Not OTP_API_KEY: the server refuses OTP_ variables that it does not know.
          "  export API_KEY=otp_live_...",
        ]
      : [
          "Your API key, shown this once:",
          "",
          `  ${bearer}`,
          "",
          `A publishable key for a web page on ${firstOrigin}, which may also send, shown this once:`,
          "",
          `  ${firstKeys.publishable.reveal()}`,
        ];
  const lines = [
    `otpd listens on ${at}`,
    "",
    providers.includes("console")
      ? "This is the development setup: it needs no configuration, and it prints each SMS here instead of sending it."
      : `This is the development setup. It sends real SMS, by ${providers.join(", ")}.`,
    "",
    ...key,
    "",
    "Send a code:",
    "",
    curl("/v1/otp/send", '{"phone":"+14155552671"}'),
    "",
    "Check it, with the request_id from that answer and the code from the SMS:",
    "",
    curl("/v1/otp/verify", '{"request_id":"REQUEST_ID","code":"CODE"}'),
    ...(demoUrl === undefined ? [] : ["", `Or try it in a browser: ${demoUrl}`]),
  ];
  return `\n${lines.join("\n")}\n\n`;
}
