/**
 * What operators ask of the server, by GET or HEAD and without a key: /livez tells whether the process answers at all,
 * /readyz whether it should be sent calls, and /metrics how it fares, which not everybody may read. All three are answered
 * when every place is taken and during a stop, since that is when they are needed.
 */
import { isLoopback } from "../../delivery/public-address.ts";
import { readinessChecks, type CheckResult, type ReadinessCheck } from "../../observe/readiness.ts";
import { invalid, refuse } from "../../otp/reason.ts";
import type { Instant } from "../../system.ts";
import type { PageAnswer } from "../http/response.ts";
import { hostOf } from "../http/own-names.ts";
import type { Page, PagesByPath } from "./pages.ts";
import { queryCharsMax, valuesOf } from "./query.ts";

export interface OperationsOptions {
  /** Renders the metrics, and who may read them; undefined where there are none. */
  readonly metrics:
    | { readonly access: "loopback" | "on"; readonly render: () => Promise<{ type: string; body: string }> }
    | undefined;
  /** Looks at how things are. */
  readonly judge: (checks: readonly ReadinessCheck[]) => Promise<Partial<Record<ReadinessCheck, CheckResult>>>;
  /** Whether what a request names as its host is this machine. */
  readonly isOwnName: (host: string | undefined) => boolean;
  readonly now: () => Instant;
}

/** A stranger gets metrics that are at most so old: to render them costs more than a call. */
const strangersMetricsMs = 1_000;
/** This machine gets fresh ones, at most so many in that time: each is held for as long as somebody is slow to take it. */
const ownRendersMax = 8;

export function createOperations({ metrics, judge, isOwnName, now }: OperationsOptions): PagesByPath {
  const pages = new Map<string, Page>([
    ["/livez", { ...askedUrgently, answer: async () => ({ ok: true, value: json({ status: "alive" }) }) }],
    ["/readyz", readyPage(judge)],
  ]);
  if (metrics !== undefined) pages.set("/metrics", metricsPage(metrics, isOwnName, now));
  return pages;
}

const askedUrgently = { methods: ["GET", "HEAD"], isUrgent: true } as const;

function json(value: unknown, status = 200): PageAnswer {
  return { status, type: "application/json", body: JSON.stringify(value) };
}

/** The body names checks alone: it is for anybody to read. `?exclude=provider` leaves one out, and may be repeated. */
function readyPage(judge: OperationsOptions["judge"]): Page {
  return {
    ...askedUrgently,
    async answer({ target }) {
      const excluded = valuesOf(target, "exclude");
      if (excluded === undefined) return invalid(undefined, `The query has more than ${queryCharsMax} characters.`);
      if (!excluded.every((name) => readinessChecks.some((check) => check === name))) {
        return invalid(undefined, `exclude must be one of ${readinessChecks.join(", ")}.`);
      }
      const checks = await judge(readinessChecks.filter((check) => !excluded.includes(check)));
      const isReady = !Object.values(checks).includes("failing");
      return { ok: true, value: json({ status: isReady ? "ready" : "not_ready", checks }, isReady ? 200 : 503) };
    },
  };
}

function metricsPage(
  { access, render }: NonNullable<OperationsOptions["metrics"]>,
  isOwnName: OperationsOptions["isOwnName"],
  now: () => Instant,
): Page {
  let latest: { readonly atMs: Instant; readonly page: Promise<PageAnswer> } | undefined;
  let underWay: Promise<PageAnswer> | undefined;
  let own = { sinceMs: now(), renders: 0 };

  /** Renders once for all who ask meanwhile. As bytes it is in memory once, however many are slow to take it. */
  function renderOnce(): Promise<PageAnswer> {
    underWay ??= render()
      .then(({ type, body }) => ({ type, body: Buffer.from(body) }))
      .finally(() => (underWay = undefined));
    return underWay;
  }

  function mayRenderAgain(): boolean {
    if (now() - own.sinceMs >= strangersMetricsMs) own = { sinceMs: now(), renders: 0 };
    own.renders += 1;
    return own.renders <= ownRendersMax;
  }

  return {
    ...askedUrgently,
    async answer({ peer, headers }) {
      // No header lets anybody in, since anybody can write them; but a browser on this machine may be another site's tool.
      const isOurs = peer !== undefined && isLoopback(peer);
      if (access === "loopback" && !(isOurs && isOwnName(hostOf(headers)))) return refuse("ROUTE_NOT_FOUND");
      if (isOurs && mayRenderAgain()) return { ok: true, value: await renderOnce() };
      const isFresh = latest !== undefined && now() - latest.atMs < strangersMetricsMs;
      if (!isFresh) latest = { atMs: now(), page: renderOnce() };
      return { ok: true, value: (await latest?.page) ?? (await renderOnce()) };
    },
  };
}
