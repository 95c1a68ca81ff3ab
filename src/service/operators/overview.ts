/**
 * How the service fares: sums of a period, what is used of the caps today, and what is wrong now (problems.ts). Many rows are
 * read beside the calls, for 2 s at most.
 */
import type { CountKind } from "../../otp/verification/daily-cap.ts";
import { dayOf, type Policy } from "../../otp/verification/policy.ts";
import { capsOfPolicy } from "../../otp/decisions/spending.ts";
import { isSpraying } from "../../otp/verification/spraying.ts";
import type { TenantOf } from "../../otp/operators/tenant.ts";
import type { DayUsed } from "../../store/statistics.ts";
import type { Outbox, Store } from "../../store/store.ts";
import { findSuspects } from "./prefixes.ts";
import {
  capProblems,
  endpointProblems,
  guessingProblems,
  keyProblems,
  providerProblems,
  queueProblems,
  reportProblems,
  suspectProblems,
  type CapUse,
  type Problem,
} from "./problems.ts";
import { readPeriod, type PeriodAsked, type PeriodRead, type Stats, type StatsRead } from "./statistics.ts";
import { hourMs } from "../../system.ts";

export interface Overview {
  readonly period: PeriodRead;
  readonly caps: readonly CapUse[];
  readonly problems: readonly Problem[];
  /** Undefined for one tenant: all tenants' messages wait in one queue. */
  readonly outbox: Outbox | undefined;
}

export interface OverviewDependencies {
  readonly store: Store;
  readonly tenants: { readonly tenantOf: TenantOf; readonly refresh: () => Promise<void> };
  readonly providers: readonly { readonly name: string; readonly channel: string; readonly isOpen: () => boolean }[];
}

export interface OverviewAsked extends PeriodAsked {
  /** Whether what all tenants share is told of: providers and the queue, and keys of no tenant. */
  readonly scope: "installation" | "tenant";
}

/** Counts of a day that are compared with their caps; the highest. */
const countsMax = 500;
const capsMax = 100;
const problemsMax = 50;
const suspectsMax = 20;

/** Reads an overview. What was asked in vain is told as `readStats` does. */
export async function readOverview(
  dependencies: OverviewDependencies,
  asked: OverviewAsked,
): Promise<{ readonly ok: true; readonly value: Overview } | Extract<StatsRead, { ok: false }>> {
  const { store, tenants } = dependencies;
  const { tenant } = asked;
  const isInstallation = asked.scope === "installation";
  await tenants.refresh();
  // At once: on PostgreSQL each waits for a round trip or more.
  const [read, caps, outbox, suspects, others] = await Promise.all([
    readPeriod(store, asked),
    store.statistics.readDay(dayOf(store.now()), tenant, countsMax).then((used) => capsOf(used, tenants.tenantOf)),
    isInstallation ? store.readOutbox() : undefined,
    suspected(dependencies, asked),
    ofTenants(store, asked),
  ]);
  if (!read.ok) return read;
  const problems = [
    ...(isInstallation ? providerProblems(dependencies.providers) : []),
    ...(outbox === undefined ? [] : queueProblems(outbox)),
    ...capProblems(caps),
    ...suspects,
    ...reportProblems(read.value.byProvider.map(reportsOf)),
    ...others,
  ];
  const order = (problem: Problem) => (problem.severity === "critical" ? 0 : 1);
  return {
    ok: true,
    value: {
      period: read.value,
      caps: caps.slice(0, capsMax),
      problems: problems.toSorted((a, b) => order(a) - order(b)).slice(0, problemsMax),
      outbox,
    },
  };
}

function reportsOf({ provider, sums }: Stats) {
  return { provider, messages: sums.messages ?? 0, reported: (sums.delivered ?? 0) + (sums.undelivered ?? 0) };
}

/** What has a cap of what is used, those with the least left first. */
async function capsOf(used: readonly DayUsed[], tenantOf: TenantOf): Promise<CapUse[]> {
  const caps: CapUse[] = [];
  for (const { tenant, kind, count } of used) {
    // To read a tenant takes milliseconds the first time: what waits for the event loop goes first.
    await new Promise((resolve) => setImmediate(resolve));
    const cap = capOf(kind, tenantOf(tenant).policy);
    if (cap !== undefined) caps.push({ tenant, kind: kind === "spend" ? "money" : kind, used: count, ...cap });
  }
  const share = ({ used: count, max }: CapUse) => (max === 0 ? 1 : count / max);
  return caps.toSorted((a, b) => share(b) - share(a));
}

function capOf(kind: CountKind, policy: Policy): Pick<CapUse, "max" | "currency"> | undefined {
  const cap = capsOfPolicy(policy).find((each) => each.kind === kind);
  return cap && { max: cap.max, currency: cap.currency ?? "" };
}

async function suspected({ store, tenants }: OverviewDependencies, { tenant }: OverviewAsked): Promise<Problem[]> {
  const { reports } = await findSuspects(store, { tenant, after: undefined, max: suspectsMax });
  const modeOf = (id: string) => tenants.tenantOf(id).policy.fraudGuard;
  return suspectProblems(reports, modeOf, store.now() - hourMs);
}

/** Of endpoints, keys and guesses. */
async function ofTenants(store: Store, { tenant, scope }: OverviewAsked): Promise<Problem[]> {
  const now = store.now();
  const isAsked = (of: string | null) => tenant === undefined || of === tenant;
  const [endpoints, keys, admins, guesses] = await Promise.all([
    store.events.listEndpoints(),
    store.registry.listApiKeys(),
    store.registry.listAdminKeys(),
    store.readGuesses(),
  ]);
  const keysAsked = [
    ...keys.filter((key) => isAsked(key.tenant)),
    ...admins.filter((key) => (key.tenant === null ? scope === "installation" : isAsked(key.tenant))),
  ];
  const sprayed = [...guesses].filter(([of, each]) => isAsked(of) && isSpraying(each));
  return [
    ...endpointProblems(endpoints.filter(({ endpoint }) => isAsked(endpoint.tenant))),
    ...keyProblems(keysAsked, now),
    ...guessingProblems(sprayed.map(([of]) => of)),
  ];
}
