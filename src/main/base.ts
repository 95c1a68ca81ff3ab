/**
 * What all the rest is made of: the providers and the store, both watched, the master keys and the tenants.
 */
import { OtpService } from "../../gen/otp/v1/otp_service_pb.ts";
import { lacksVoiceCap, providersNamed, withoutVoiceCap, type Config } from "../config/config.ts";
import { readTenant } from "../config/tenant-settings.ts";
import { guarded, type GuardedProvider } from "../delivery/breaker.ts";
import { createInbox, type Inbox } from "../delivery/providers/console.ts";
import type { Provider } from "../delivery/provider.ts";
import { makeProvider, reportersIn } from "../delivery/providers/list.ts";
import { tellDecision } from "./activity.ts";
import { existingMasterKey, masterKeyPath, ownMasterKey } from "../master-key.ts";
import { createMetrics, type Metrics } from "../observe/metrics.ts";
import { createRecentCalls, type RecentCalls } from "../observe/recent-calls.ts";
import { createRecentPosts, type RecentPosts } from "../observe/recent-posts.ts";
import { createReadiness, type Readiness } from "../observe/readiness.ts";
import type { Tracing } from "../observe/tracing.ts";
import { channels, type Channel } from "../otp/channel.ts";
import { createKeyRing, type KeyRing } from "../otp/keys/key-ring.ts";
import { createChargeOf, createCostOf, createPricing, type CostOf } from "../otp/decisions/pricing.ts";
import { isTrip } from "../otp/limits/pumping-guard.ts";
import type { ChargeOf } from "../otp/operators/statistics.ts";
import type { PriceOf } from "../otp/decisions/spending.ts";
import type { Activities } from "../service/operators/activity.ts";
import type { Pace } from "../server/listener/pace.ts";
import { createTenants, type Tenants } from "../service/callers/tenants.ts";
import { fileTrouble } from "../store/file-trouble.ts";
import { openStore } from "../store/open.ts";
import { MasterKeyMismatch } from "../store/registry.ts";
import { StoreUnavailable, type PhoneOf, type Store, type StoreWatchers } from "../store/store.ts";
import { stopwatchMs, type System } from "../system.ts";
import type { Telemetry } from "../telemetry.ts";

/** What a service is given besides its configuration. */
export interface Dependencies {
  readonly system: System;
  readonly telemetry: Telemetry;
  /** Puts text on standard output. */
  readonly print: (text: string) => void;
  /** Providers of SMS to use instead of those that the configuration names. */
  readonly providers?: readonly Provider[];
  /** The same for other channels. */
  readonly providersByChannel?: Readonly<Partial<Record<Channel, readonly Provider[]>>>;
  /** The version that operators are told; none unless given. */
  readonly version?: string;
  /** Opens the store; `openStore` unless given. What it opens must keep the promises of the port. */
  readonly openStore?: typeof openStore;
}

export interface WatchedStore {
  readonly store: Store;
  readonly metrics: Metrics | undefined;
  readonly readiness: Readiness;
}

export interface Base extends WatchedStore, Providers, Pick<Dependencies, "system" | "telemetry" | "print"> {
  readonly config: Config;
  readonly keys: KeyRing;
  readonly activities: Activities;
  /** How much a turn does for strangers, of all listeners together. */
  readonly pace: Pace;
  readonly tenants: Tenants;
  readonly phoneOf: PhoneOf;
  /** What tells the cost of messages; both undefined without prices. */
  readonly costOf: CostOf | undefined;
  readonly priceOf: PriceOf | undefined;
  /** What a message takes, for the statistics. */
  readonly chargeOf: ChargeOf;
  /** Makes the logger of faults in one part of the service. */
  readonly onFault: (where: string) => (error: unknown) => void;
}

export function isDevelopment({ environment }: Pick<Config, "environment">): boolean {
  return environment === "development";
}

/** A provider as it takes the messages of one channel. */
export type ChannelProvider = GuardedProvider & { readonly channel: Channel };

export interface Providers {
  /** Of every channel. One that has several is in it once for each: its breakers are several. */
  readonly providers: readonly ChannelProvider[];
  /** Those of a channel, in the order they are tried. */
  readonly providersOf: (channel: Channel) => readonly GuardedProvider[];
  /** The same without their breakers. */
  readonly bareOf: (channel: Channel) => readonly Provider[];
  /** Those that no channel names and whose reports can be checked: they may have taken messages before the start. */
  readonly reportingOnly: readonly Provider[];
  readonly recentCalls: RecentCalls;
  readonly recentPosts: RecentPosts;
  /** The channels that have a provider. */
  readonly channelsOn: readonly Channel[];
  /** Those that are not on for want of a daily cap alone. */
  readonly channelsUncapped: readonly Channel[];
  /** In development, what the console printed. */
  readonly inbox: Inbox | undefined;
}

export async function createProviders(
  config: Config,
  { system, telemetry, print, providers, providersByChannel }: Dependencies,
  tracing: Tracing,
): Promise<Providers> {
  const now = system.now.bind(system);
  const isGiven = providers !== undefined || providersByChannel !== undefined;
  const made = new Map<string, Provider>();
  for (const name of isGiven ? [] : providersNamed(config)) {
    made.set(name, await makeProvider(name, config.providerSettings, { now, print }));
  }
  const reportingOnly: Provider[] = [];
  for (const name of isGiven ? [] : reportersIn(config.providerSettings).filter((each) => !made.has(each))) {
    reportingOnly.push(await makeProvider(name, config.providerSettings, { now, print }));
  }
  const bareOf = (channel: Channel): readonly Provider[] =>
    isGiven
      ? ({ sms: providers, ...providersByChannel }[channel] ?? [])
      : config.providers[channel].map((name) => made.get(name)).filter((each) => each !== undefined);
  const bare = channels.flatMap(bareOf);
  const inbox = isDevelopment(config) && bare.every(({ name }) => name === "console") ? createInbox(now) : undefined;
  // A gateway's calls may fail while its texts go well.
  const watch = (provider: Provider, channel: Channel): ChannelProvider => {
    const one = guarded(inbox?.copying(provider) ?? provider, now, (name, isClosed) =>
      telemetry.breaker(name, isClosed, channel),
    );
    return { ...tracing.provider(one), channel };
  };
  const watched = new Map(channels.map((channel) => [channel, bareOf(channel).map((each) => watch(each, channel))]));
  const providersOf = (channel: Channel) => watched.get(channel) ?? [];
  const lacksCap = lacksVoiceCap(config) || (isGiven && config.policy.dailyVoiceMax === undefined);
  if (lacksVoiceCap(config)) telemetry.warning(withoutVoiceCap);
  return {
    providers: channels.flatMap(providersOf),
    providersOf,
    bareOf,
    reportingOnly,
    recentCalls: createRecentCalls(now),
    recentPosts: createRecentPosts(now),
    channelsOn: channels.filter((channel) => providersOf(channel).length > 0 && !(channel === "voice" && lacksCap)),
    channelsUncapped: lacksCap && providersOf("voice").length > 0 ? ["voice"] : [],
    inbox,
  };
}

/** What the store tells to parts that are made after it, and asks of them. */
interface MadeLater extends Pick<Base, "chargeOf" | "activities"> {
  readonly ends: Pick<StoreWatchers, "onExpired">;
  /** Called when another server has left messages for anybody to take. */
  readonly onNudge: () => void;
}

/** Opens the store. `chargeOf` is for sums. */
export async function openWatchedStore(
  config: Config,
  { system, telemetry, openStore: open = openStore }: Dependencies,
  tracing: Tracing,
  providers: readonly ChannelProvider[],
  { onNudge, ends, chargeOf, activities }: MadeLater,
): Promise<WatchedStore> {
  const metrics =
    config.metrics === "off"
      ? undefined
      : createMetrics({ system, store: () => store, providers, rpcs: OtpService.methods.map(({ name }) => name) });
  const readiness = createReadiness({ system, ping: () => store.ping(), providers: () => providers });
  const opened = await naming("OTP_DATABASE_URL", () =>
    open({
      database: config.database,
      system,
      exclusive: true,
      onLockWait: (waitMs) =>
        telemetry.warning(`another server holds the database: it is waited for, up to ${waitMs / 1000} s`),
      onPrefix: (changed) => {
        tellDecision(activities, changed);
        const { kind, enforced } = changed.decision;
        if (kind === "limited") {
          telemetry.prefixLimited(changed);
          metrics?.prefixLimited(enforced);
        }
        if (!isTrip(changed.decision)) return;
        telemetry.tripped(changed);
        metrics?.tripped(enforced);
      },
      meter: {
        begin: stopwatchMs,
        end({ began, acts, isDurable }) {
          metrics?.batch(acts, stopwatchMs() - began, isDurable);
          if (!isDurable) readiness.batchFailed();
        },
      },
      onNudge,
      onExpired: ends.onExpired,
      chargeOf,
    }),
  );
  const store = tracing.store(opened, config.database.kind);
  return { store, metrics, readiness };
}

/** Makes the key ring, and checks it against what the store was written with. */
export function openKeys(config: Config, system: System, store: Store): Promise<KeyRing> {
  return naming("OTP_MASTER_KEY", async () => {
    const ring = createKeyRing(
      config.masterKeys ?? [await ownKey(config.dataFolder, system, store)],
      config.leakedKeys,
    );
    await store.registry.admitMasterKeys(ring.all);
    return ring;
  });
}

/** The key beside the database. Another is not made for a database that was written with one: that would hide what is lost. */
async function ownKey(folder: string, system: System, { registry }: Store): Promise<Uint8Array> {
  // In this order: a server that starts beside this one makes its key before the database knows it.
  if ((await registry.hasMasterKey()) && existingMasterKey(folder) === undefined)
    throw new MasterKeyMismatch(
      `this database was written with a master key, and ${masterKeyPath(folder)} is not there`,
    );
  return ownMasterKey(folder, (count) => system.randomBytes(count));
}

/** Reads the tenants, and warns of settings that do not count. */
export async function openTenants(config: Config, telemetry: Telemetry, store: Store): Promise<Tenants> {
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
  return tenants;
}

/** Tells what messages may cost, where the operator has said what each provider takes. */
export function openPricing(
  { prices }: Config,
  { tenantOf }: Tenants,
  providersOf: Providers["providersOf"],
): Pick<Base, "costOf" | "priceOf" | "chargeOf"> {
  const chargeOf = createChargeOf({ prices, tenantOf });
  if (prices === undefined) return { costOf: undefined, priceOf: undefined, chargeOf };
  const costOf = createCostOf({ prices, tenantOf });
  return {
    chargeOf,
    costOf,
    priceOf: createPricing(costOf, (channel) => providersOf(channel).map(({ name }) => name)),
  };
}

/** Runs a part of the start that one variable decides. Its error begins with the variable. */
async function naming<T>(variable: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const trouble = fileTrouble(error);
    if (trouble !== undefined) {
      const { path = "a file" } = error as NodeJS.ErrnoException;
      throw new Error(`${variable}: ${path} ${trouble}`, { cause: error });
    }
    // About the database, whatever was to be done in it.
    if (error instanceof StoreUnavailable) throw error;
    // The same error, for those who look at its class.
    if (!error.message.includes("OTP_")) error.message = `${variable}: ${error.message}`;
    throw error;
  }
}
