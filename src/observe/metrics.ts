/**
 * The metrics: every family that /metrics shows, and where each is counted. docs/metrics.md says what they are for.
 *
 * Labels have bounded values: an RPC, a reason, an outcome, a configured provider, a channel, and a country, which is
 * one of libphonenumber's or `unknown`. No label holds a tenant, a key or a number. What is sent with test keys counts
 * as calls and nowhere else: test runs must not look like customers.
 */
import { getCountries } from "libphonenumber-js/max";
import { collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { forgedCauses, reportOutcomes, type ForgedCause, type ReportOutcome } from "../delivery/provider.ts";
import type { Channel } from "../otp/channel.ts";
import type { VerifyResult } from "../otp/decisions/verifying.ts";
import type { TryOutcome } from "../otp/operators/endpoint.ts";
import type { SendOutcome } from "../otp/message/message.ts";
import { reasons, type Reason } from "../otp/reason.ts";
import { isSandbox } from "../otp/message/sandbox.ts";
import type { Verification } from "../otp/verification/verification.ts";
import { outboxCountMax, type Job, type Store } from "../store/store.ts";
import { inTime, type Instant, type System } from "../system.ts";
import { attackMetrics, type AttackMetrics } from "./attack-metrics.ts";
import { createConversions } from "./conversions.ts";
import { callOutcomeOf, callOutcomes, isOurs, ownMsOf, type FinishedCall } from "./outcome.ts";
import { counters, histograms } from "./series.ts";

/** A provider of a channel, whose breaker can be asked. */
export interface WatchedProvider {
  readonly name: string;
  readonly channel: Channel;
  /** True while calls are let through. */
  readonly isClosed: () => boolean;
}

export interface MetricsOptions {
  readonly system: Pick<System, "after">;
  /** What a scrape reads of the store. */
  readonly store: () => Pick<Store, "readOutbox" | "readMessages" | "now"> & {
    readonly events: Pick<Store["events"], "countEvents" | "nextEventDue">;
  };
  /** A name that is not among them has no series. */
  readonly providers: readonly WatchedProvider[];
  /** The names of the RPCs. */
  readonly rpcs: readonly string[];
}

export interface Metrics extends AttackMetrics {
  call(call: FinishedCall & { readonly rpc: string }, durationMs: number): void;
  /** A request was refused before it became a call; `of` is the call that there was no room for, known by its secret key or not. */
  turnedAway(reason: Reason, of?: { readonly rpc: string; readonly isKnown: boolean }): void;
  /** A message is owed and committed. */
  sent(job: Job): void;
  verifyDecided(decided: VerifyResult, tenant: string): void;
  /** A provider was called, at `startMs`. */
  providerCall(provider: string, outcome: SendOutcome, durationMs: number, job: Job, startMs: Instant): void;
  /** A request to report has come, or a report in one. */
  report(provider: string, outcome: ReportOutcome, cause?: ForgedCause): void;
  /** A provider has a message, or may have it, which costs so many millionths of a currency. */
  cost(provider: string, channel: Channel, currency: string, amount: number): void;
  /** A batch of acts was committed, or has failed. */
  batch(acts: number, durationMs: number, isDurable: boolean): void;
  /** An event was posted to an endpoint, or could not be. */
  eventTried(result: TryOutcome): void;
  /** So many events will be posted no more, and were not taken. */
  eventsDropped(count: number): void;
  /** Everything as Prometheus reads it, and its media type. */
  render(): Promise<{ readonly type: string; readonly body: string }>;
}

const unknown = "unknown";
/** What a provider call can come to. */
const providerOutcomes: readonly SendOutcome["kind"][] = [
  "accepted",
  "refused",
  "throttled",
  "unavailable",
  "ambiguous",
];
/**
 * How often the event loop's delay is looked at. Each look wakes the machine: at 20 ms that is half of what an idle
 * server takes. A delay of this long or more is always seen; a shorter one with a chance in proportion to its length.
 */
const eventLoopStepMs = 1_000;
/** A scrape does not wait longer than this for the database. */
const readTimeoutMs = 1_000;

export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry();
  const processMetrics = sharedProcessMetrics();
  const calls = callMetrics(registry, options.rpcs);
  const { handedOver, ...verifications } = verificationMetrics(registry, options);
  const { beginProvider, ...providers } = providerMetrics(registry, handedOver);
  const store = storeMetrics(registry);
  const events = eventMetrics(registry);
  const costs = counters(registry, {
    name: "otp_cost_total",
    help: "What messages cost that providers have taken or may have, by the prices file, in units of its currency.",
    labels: ["provider", "channel", "currency"],
  });
  const reports = counters(registry, {
    name: "otp_provider_reports_total",
    help: "Reports of providers: on a message of ours (matched) or none (unmatched), ignored, or refused as not genuine.",
    labels: ["provider", "outcome"],
  });
  const refusedReports = counters(registry, {
    name: "otp_provider_reports_refused_total",
    help: "Reports that were refused as not genuine, by why: unsigned, timestamp, signature, or no public URL or no secret to check them with.",
    labels: ["provider", "cause"],
  });
  const readGauges = gaugesOf(registry, options);
  return {
    ...calls,
    ...verifications,
    ...store,
    ...events,
    ...attackMetrics(registry),
    ...providers,
    report(provider, outcome, cause) {
      reports(provider, outcome).add();
      if (cause !== undefined) refusedReports(provider, cause).add();
    },
    cost: (provider, channel, currency, amount) => costs(provider, channel, currency).add(amount / 1e6),
    async render() {
      for (const { name, channel } of options.providers) {
        beginProvider(name, channel);
        for (const outcome of reportOutcomes) reports(name, outcome);
        for (const cause of forgedCauses) refusedReports(name, cause);
      }
      await readGauges();
      const [ofService, ofProcess] = await Promise.all([registry.metrics(), processMetrics.metrics()]);
      return { type: registry.contentType, body: `${ofService}\n${ofProcess}` };
    },
  };
}

// A series that begins at 1 is no increase to Prometheus: what alerts look at begins at 0.

function callMetrics(registry: Registry, rpcs: readonly string[]): Pick<Metrics, "call" | "turnedAway"> {
  const calls = counters(registry, {
    name: "otp_calls_total",
    help: "Calls answered, by RPC and by what they came to: ok, free (one of which a page can have any number), refused (as is to be expected of what was asked), failed (our fault) or canceled (the client left).",
    labels: ["rpc", "outcome"],
  });
  const callSeconds = histograms(registry, {
    name: "otp_call_seconds",
    help: "How long calls with a valid key took to be answered once their bodies were here, by RPC.",
    labels: ["rpc"],
    bounds: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
  });
  const refusals = counters(registry, {
    name: "otp_refusals_total",
    help: "Requests refused, by RPC (none where a request led to none) and by reason.",
    labels: ["rpc", "reason"],
  });
  for (const rpc of rpcs) {
    for (const outcome of callOutcomes) calls(rpc, outcome);
    for (const reason of Object.keys(reasons) as Reason[]) if (isOurs(reason)) refusals(rpc, reason);
  }
  for (const rpc of ["SendOtp", "ResendOtp"]) refusals(rpc, "SPEND_LIMIT");
  return {
    call(call, durationMs) {
      const { rpc, refusal } = call;
      const outcome = callOutcomeOf(call);
      calls(rpc, outcome).add();
      if (outcome === "canceled") return;
      if (refusal !== undefined) refusals(rpc, refusal.reason).add();
      const ownMs = ownMsOf(call, durationMs);
      if (ownMs !== undefined) callSeconds(rpc).observe(ownMs / 1_000);
    },
    turnedAway(reason, of) {
      // A crowd of strangers has itself to blame for finding no room.
      if (of !== undefined) calls(of.rpc, callOutcomeOf({ refusal: { reason }, isKnown: of.isKnown })).add();
      refusals(of?.rpc ?? "none", reason).add();
    },
  };
}

/** What becomes of verifications: sends, verifies, and by which provider's message. */
function verificationMetrics(registry: Registry, { store, providers }: MetricsOptions) {
  const sends = counters(registry, {
    name: "otp_sends_total",
    help: "Messages that were asked for and committed, by the phone's country and by whether it is the first of its verification, a fallback or a resend, and by channel.",
    labels: ["country", "kind", "channel"],
  });
  const checks = counters(registry, {
    name: "otp_checks_total",
    help: "Verifies decided, by result: VERIFIED or the reason of the refusal. Repeats by Idempotency-Key are not counted again.",
    labels: ["result"],
  });
  const handedOver = counters(registry, {
    name: "otp_handed_over_total",
    help: "Verifications whose first message a provider has taken, by country, provider and channel.",
    labels: ["country", "provider", "channel"],
  });
  const verified = counters(registry, {
    name: "otp_verified_total",
    help: "Verifications that were verified, by country, and by the provider and the channel that had the message.",
    labels: ["country", "provider", "channel"],
  });
  const timeToVerify = histograms(registry, {
    name: "otp_time_to_verify_seconds",
    help: "From a send to its right code, by country, provider and channel.",
    labels: ["country", "provider", "channel"],
    // A person looks at the phone, types, or asks for another one.
    bounds: [5, 10, 20, 30, 60, 120, 300],
  });
  checks("VERIFIED");
  checks("CODE_MISMATCH");
  const conversions = createConversions((id) => store().readMessages(id));
  const countries = new Set<string>(getCountries());
  const countryOf = ({ region }: Verification) => (countries.has(region) ? region : unknown);
  const nameOf = (name: string | undefined) =>
    name !== undefined && providers.some((provider) => provider.name === name) ? name : unknown;

  return {
    sent({ message, verification }: Job): void {
      if (isSandbox(verification.tenant)) return;
      const kind = message.copy === 0 ? "first" : kindOf(message.copy, verification);
      sends(countryOf(verification), kind, message.channel).add();
    },
    verifyDecided(decided: VerifyResult, tenant: string): void {
      if (decided.kind === "replay" || isSandbox(tenant)) return;
      checks(decided.kind === "verified" ? "VERIFIED" : decided.refusal.reason).add();
      if (decided.kind !== "verified") return;
      const { verification } = decided;
      const { id, endMs, createMs } = verification;
      conversions.holderOf(id, (holder) => {
        const [country, provider] = [countryOf(verification), nameOf(holder?.provider)];
        const channel = holder?.channel ?? verification.channel;
        verified(country, provider, channel).add();
        timeToVerify(country, provider, channel).observe(((endMs ?? createMs) - createMs) / 1_000);
      });
    },
    /** A provider has a message, or may have it. */
    handedOver(provider: string, { kind }: SendOutcome, { message, verification }: Job): void {
      conversions.handedOver(verification.id, { provider, channel: message.channel });
      if (message.copy > 0 || kind !== "accepted") return;
      const country = countryOf(verification);
      handedOver(country, provider, message.channel).add();
      // Without a series, codes of which none is typed would be no conversion instead of one of 0.
      verified(country, provider, message.channel);
    },
  };
}

/** Calls of providers; `handedOver` is told of those after which a provider may have the message. */
function providerMetrics(
  registry: Registry,
  handedOver: (provider: string, outcome: SendOutcome, job: Job) => void,
): Pick<Metrics, "providerCall"> & { beginProvider(name: string, channel: Channel): void } {
  const handOff = histograms(registry, {
    name: "otp_handoff_seconds",
    help: "From the commit that owes a message to the first look at a provider for it, whether that is called or has asked to wait.",
    bounds: [0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120],
  });
  const providerCalls = counters(registry, {
    name: "otp_provider_calls_total",
    help: "Calls of providers, by what they came to: accepted, refused, throttled, unavailable or ambiguous.",
    labels: ["provider", "outcome", "channel"],
  });
  const providerSeconds = histograms(registry, {
    name: "otp_provider_call_seconds",
    help: "How long provider calls took.",
    labels: ["provider", "channel"],
    bounds: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
  });
  return {
    providerCall(name, outcome, durationMs, job, startMs) {
      const { message, verification, now } = job;
      if (isSandbox(verification.tenant)) return;
      const { kind } = outcome;
      const { channel, copy } = message;
      // A message that was looked at before has a provider.
      if (message.provider === null) handOff().observe((startMs - (copy === 0 ? verification.createMs : now)) / 1_000);
      // A provider that has asked to wait was not called, however often the message is looked at meanwhile.
      if (kind === "throttled" && outcome.isUnasked === true) return;
      providerCalls(name, kind, channel).add();
      providerSeconds(name, channel).observe(durationMs / 1_000);
      if (kind === "accepted" || kind === "ambiguous") handedOver(name, outcome, job);
    },
    beginProvider(name, channel) {
      for (const outcome of providerOutcomes) providerCalls(name, outcome, channel);
    },
  };
}

function storeMetrics(registry: Registry): Pick<Metrics, "batch"> {
  const batchActs = histograms(registry, {
    name: "otp_store_batch_acts",
    help: "Acts that were committed together.",
    bounds: [1, 2, 4, 8, 16, 32, 64, 128, 256],
  });
  const batchSeconds = histograms(registry, {
    name: "otp_store_batch_seconds",
    help: "How long a batch of acts took, from its beginning until it was durable.",
    bounds: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1],
  });
  const batchFailures = counters(registry, {
    name: "otp_store_batch_failures_total",
    help: "Batches of acts that the database did not take.",
  });
  return {
    batch(acts, durationMs, isDurable) {
      batchActs().observe(acts);
      batchSeconds().observe(durationMs / 1_000);
      if (!isDurable) batchFailures().add();
    },
  };
}

function eventMetrics(registry: Registry): Pick<Metrics, "eventTried" | "eventsDropped"> {
  const eventTries = counters(registry, {
    name: "otp_event_deliveries_total",
    help: "Tries to post an event to a tenant's endpoint, by result: taken, failed (no 2xx in time) or gone (410).",
    labels: ["result"],
  });
  const eventsLost = counters(registry, {
    name: "otp_events_dropped_total",
    help: "Events that were not taken and are tried no more: after the last try, or beyond an endpoint's backlog.",
  });
  for (const result of ["taken", "failed", "gone"] as const) eventTries(result);
  return {
    eventTried(result) {
      eventTries(result).add();
    },
    eventsDropped(count) {
      eventsLost().add(count);
    },
  };
}

/** What is looked at only when somebody asks. Returns what brings it up to date. */
function gaugesOf(registry: Registry, { system, store, providers }: MetricsOptions): () => Promise<void> {
  const gauge = (name: string, help: string, labelNames: readonly string[] = []) =>
    new Gauge({ name, help, labelNames, registers: [registry] });
  const depth = gauge(
    "otp_outbox_depth",
    "Messages still to be handed over, those in a worker's hand included; counted up to 10,000.",
  );
  const lag = gauge(
    "otp_outbox_lag_seconds",
    "For how long the message that waits longest has been due; 0 when none is.",
  );
  const breaker = gauge(
    "otp_provider_breaker_open",
    "1 while a provider's circuit breaker is open or tries it, else 0.",
    ["provider", "channel"],
  );
  const events = gauge(
    "otp_events_waiting",
    "Events that no endpoint has taken yet, those to be tried again later included; counted up to 10,000.",
  );
  const eventsLag = gauge(
    "otp_events_lag_seconds",
    "For how long the event that waits longest has been due; 0 when none is.",
  );
  const readOutbox = oneAtATime(() => store().readOutbox());
  const readOwed = oneAtATime(() => {
    const { events: owed } = store();
    return Promise.all([owed.countEvents(outboxCountMax), owed.nextEventDue()]);
  });
  return async () => {
    for (const { name, channel, isClosed } of providers) breaker.set({ provider: name, channel }, isClosed() ? 0 : 1);
    const now = store().now();
    const within = <T>(read: Promise<T>) => inTime(system, readTimeoutMs, read).catch(() => undefined);
    const [outbox, owed] = await Promise.all([within(readOutbox()), within(readOwed())]);
    depth.set(outbox?.depth ?? Number.NaN);
    lag.set(outbox === undefined ? Number.NaN : outbox.lagMs / 1_000);
    const [waiting, dueMs = now] = owed ?? [Number.NaN, Number.NaN];
    events.set(waiting);
    eventsLag.set(Math.max(0, now - dueMs) / 1_000);
  };
}

/** A read that is shared while it is under way: it goes on where nobody waits for it any more, and takes a connection of calls. */
function oneAtATime<T>(read: () => Promise<T>): () => Promise<T> {
  let underWay: Promise<T> | undefined;
  return () => (underWay ??= read().finally(() => (underWay = undefined)));
}

/** Event-loop delay, memory, CPU: the process has them once, however many services run in it. */
let processMetrics: Registry | undefined;
function sharedProcessMetrics(): Registry {
  if (processMetrics === undefined) {
    processMetrics = new Registry();
    collectDefaultMetrics({ register: processMetrics, eventLoopMonitoringPrecision: eventLoopStepMs });
    // These go through every open socket at a scrape.
    for (const what of ["handles", "requests", "resources"]) {
      for (const suffix of ["", "_total"]) processMetrics.removeSingleMetric(`nodejs_active_${what}${suffix}`);
    }
  }
  return processMetrics;
}

/** What a message is that is not the first of its verification: fallbacks come before resends. */
function kindOf(copy: number, { fallback }: Verification): "fallback" | "resend" {
  return copy <= (fallback?.owed ?? 0) ? "fallback" : "resend";
}
