/**
 * The whole service within a test: real SQLite on a temporary file, a real port, a manual clock, seeded chance, and a
 * phone network that keeps what it is given.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseConfig, type Config } from "../../../src/config/config.ts";
import type { Provider, OutgoingMessage } from "../../../src/delivery/provider.ts";
import type { Dependencies } from "../../../src/main/base.ts";
import { startService } from "../../../src/main.ts";
import {
  isPublishable,
  publishableScopes,
  secretScopes,
  type KeyKind,
  type Scope,
} from "../../../src/otp/keys/api-key.ts";
import type { Channel } from "../../../src/otp/channel.ts";
import type { SendOutcome } from "../../../src/otp/message/message.ts";
import { adminScopes } from "../../../src/otp/keys/admin-key.ts";
import { commandLine } from "../../../src/otp/operators/audit.ts";
import { issueKey } from "../../../src/service/callers/api-keys.ts";
import { issueAdminKey, type AdminKeySpec } from "../../../src/service/operators/keys.ts";
import type { Database } from "../../../src/store/open.ts";
import type { Store } from "../../../src/store/store.ts";
import type { Telemetry } from "../../../src/telemetry.ts";
import { makeDatabase } from "../databases/empty-database.ts";
import { openByOwnClock } from "../databases/opening.ts";
import { newDatabase } from "../databases/project-database.ts";
import { createManualSystem, type ManualSystem } from "./system.ts";

/** A provider that answers as it is told, "accepted" unless told otherwise, and remembers every SMS. */
export interface PhoneNetwork extends Provider {
  readonly received: OutgoingMessage[];
  /** What the next calls come to, in order. */
  readonly script: (SendOutcome | ((signal: AbortSignal) => Promise<SendOutcome>))[];
  /** The code in the latest SMS to a number. */
  codeFor(phone: string): string;
}

export function createPhoneNetwork(name = "test"): PhoneNetwork {
  const received: OutgoingMessage[] = [];
  const script: PhoneNetwork["script"] = [];
  return {
    name,
    received,
    script,
    codeFor(phone) {
      const sms = received.findLast(({ to }) => to === phone);
      const code = /^(\d{6,10}) /.exec(sms?.text ?? "")?.[1];
      if (code === undefined) throw new Error(`no SMS came for ${phone}`);
      return code;
    },
    async send(sms, signal) {
      received.push(sms);
      const next = script.shift() ?? { kind: "accepted" };
      return typeof next === "function" ? next(signal) : next;
    },
  };
}

/** One event that telemetry was told, with all that it was told. */
export interface Observation {
  readonly event: keyof Telemetry;
  readonly with: readonly unknown[];
}

export function createTestTelemetry(observed: Observation[]): Telemetry {
  const tell =
    (event: keyof Telemetry) =>
    (...args: readonly unknown[]) =>
      void observed.push({ event, with: args });
  return {
    call: tell("call"),
    turnedAway: tell("turnedAway"),
    turnedAwayRest: tell("turnedAwayRest"),
    providerCall: tell("providerCall"),
    breaker: tell("breaker"),
    unmatchedReport: tell("unmatchedReport"),
    refusedReport: tell("refusedReport"),
    fault: tell("fault"),
    tripped: tell("tripped"),
    prefixLimited: tell("prefixLimited"),
    clockJump: tell("clockJump"),
    lifecycle: tell("lifecycle"),
    spendWarning: tell("spendWarning"),
    warning: tell("warning"),
    flush: () => Promise.resolve(),
  };
}

export interface KeyOptions {
  readonly name?: string;
  readonly scopes?: readonly Scope[];
  readonly expireMs?: number | null;
  readonly tenant?: string;
  readonly kind?: KeyKind;
  readonly origins?: readonly string[];
  readonly isApp?: boolean;
  readonly channels?: readonly Channel[];
}

export interface World {
  readonly url: string;
  /** An API key with all scopes. */
  readonly key: string;
  readonly system: ManualSystem;
  readonly network: PhoneNetwork;
  readonly observed: Observation[];
  readonly folder: string;
  /** Where it keeps everything: a SQLite file, or a PostgreSQL database where the project says so. */
  readonly database: Database;
  /** The SQLite file. */
  readonly databasePath: string;
  /** What was printed on standard output. */
  readonly printed: string[];
  /** Makes another key, with the scopes of its kind; beside the running service, as the CLI does. */
  makeKey(options?: KeyOptions): Promise<{ id: string; text: string }>;
  /** Where operators are served; throws where they are not. */
  readonly adminUrl: string;
  /** Makes an admin key, as the CLI does: with all scopes and of no tenant unless told otherwise. */
  makeAdminKey(options?: Partial<AdminKeySpec>): Promise<{ id: string; text: string }>;
  /** Acts on the store beside the running service, as the CLI does. */
  beside<T>(act: (store: Store) => Promise<T>): Promise<T>;
  /** Revokes a key, as the CLI does. */
  revokeKey(id: string): Promise<void>;
  /** Stops the service and starts it again on the same files and clock; `more` changes its configuration. */
  restart(more?: Record<string, string>): Promise<void>;
  stop(): Promise<void>;
}

/** Parses a configuration as the command does; throws with all its faults. */
export function configOf(env: Record<string, string>): Config {
  const parsed = parseConfig(env, (path) => readFileSync(path, "utf8"));
  if (!parsed.ok) throw new Error(parsed.faults.join("\n"));
  return parsed.value;
}

export function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), "otpd-test-"));
}

/**
 * Starts a world. `env` adds to a configuration of one key and generous limits: the clock stands still. `others` are the
 * providers of other channels than SMS.
 */
export async function startWorld(
  env: Record<string, string> = {},
  system = createManualSystem(),
  others: Dependencies["providersByChannel"] = {},
): Promise<World> {
  const folder = temporaryFolder();
  const databasePath = join(folder, "otp.db");
  const observed: Observation[] = [];
  const printed: string[] = [];
  const network = createPhoneNetwork();
  const onServer = await newDatabase();
  if (onServer === undefined) await makeDatabase(databasePath);
  const given: Record<string, string> = {
    OTP_PORT: "0",
    OTP_ADMIN: "off",
    OTP_DATABASE_URL: onServer ?? `file:${databasePath}`,
    OTP_MASTER_KEY: Buffer.alloc(32, 7).toString("base64url"),
    OTP_PHONE_LIMITS: "1000@1s",
    OTP_KEY_LIMIT: "none",
    OTP_AUTH_FAILURE_LIMIT: "9999@1s",
    OTP_VOICE_DAILY_CAP: "1000",
    // An answer tells what came of the message, however slow the machine is.
    OTP_SEND_WAIT_MS: "10000",
    ...env,
  };
  const { database } = configOf(given);
  const start = () =>
    startService(configOf(given), {
      system,
      telemetry: createTestTelemetry(observed),
      print: (text) => void printed.push(text),
      providers: [network],
      providersByChannel: others,
      openStore: openByOwnClock,
    });
  let service = await start();
  async function beside<T>(act: (store: Store) => Promise<T>): Promise<T> {
    const store = await openByOwnClock({ database, system, exclusive: false });
    try {
      return await act(store);
    } finally {
      await store.close();
    }
  }
  const makeKey = (options: KeyOptions = {}) =>
    beside(async (store) => {
      const { kind = "live" } = options;
      const scopes = isPublishable(kind) ? publishableScopes : secretScopes;
      const full = { kind, tenant: "default", name: "test", scopes, expireMs: null, ...options };
      const { key, text } = await issueKey(store, system, full);
      return { id: key.id, text: text.reveal() };
    });
  const { text: key } = await makeKey();
  return {
    get url() {
      return `http://127.0.0.1:${service.port}`;
    },
    key,
    system,
    network,
    observed,
    folder,
    database,
    databasePath,
    printed,
    makeKey,
    get adminUrl() {
      if (service.admin === undefined) throw new Error("operators are not served");
      return `http://127.0.0.1:${service.admin.port}`;
    },
    makeAdminKey: (options = {}) =>
      beside(async (store) => {
        const spec = { tenant: null, name: "test", scopes: adminScopes, expireMs: null, ...options };
        const { key: made, text } = await issueAdminKey(store, system, spec, commandLine);
        return { id: made.id, text: text.reveal() };
      }),
    beside,
    revokeKey: (id) => beside(async (store) => void (await store.registry.revokeApiKey(id, store.now()))),
    async restart(more = {}) {
      await service.stop();
      Object.assign(given, more);
      service = await start();
    },
    async stop() {
      await service.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
