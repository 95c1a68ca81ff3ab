/**
 * What operators ask: GET /metrics. It needs no key, so where it may be asked from is the operator's choice.
 */
import { BlockList, isIPv6 } from "node:net";
import { refuse } from "../otp/reason.ts";
import type { Instant } from "../system.ts";
import type { Page } from "./answer.ts";
import type { Visit } from "./gateway.ts";

export interface OperationsOptions {
  /** Renders the metrics, and who may read them; undefined where there are none. */
  readonly metrics:
    | { readonly access: "loopback" | "on"; readonly render: () => Promise<{ type: string; body: string }> }
    | undefined;
  readonly now: () => Instant;
}

/** A stranger gets metrics that are at most so old: to render them costs more than a call. */
const strangersMetricsMs = 1_000;

/** Makes the function that finds the visit of a path. */
export function createOperations({ metrics, now }: OperationsOptions): (path: string) => Visit | undefined {
  const visits = new Map<string, Visit>();
  if (metrics !== undefined) visits.set("/metrics", metricsVisit(metrics, now));
  return (path) => visits.get(path);
}

function metricsVisit({ access, render }: NonNullable<OperationsOptions["metrics"]>, now: () => Instant): Visit {
  let latest: { readonly atMs: Instant; readonly page: Promise<Page> } | undefined;
  let underWay: Promise<Page> | undefined;

  /** Renders once for all who ask meanwhile. */
  function renderOnce(): Promise<Page> {
    underWay ??= render().finally(() => (underWay = undefined));
    return underWay;
  }

  return {
    methods: ["GET", "HEAD"],
    isUrgent: true,
    async answer({ peer }) {
      const isOurs = isLoopback(peer);
      if (access === "loopback" && !isOurs) return refuse("ROUTE_NOT_FOUND");
      if (isOurs) return { ok: true, value: await renderOnce() };
      const isFresh = latest !== undefined && now() - latest.atMs < strangersMetricsMs;
      if (!isFresh) latest = { atMs: now(), page: renderOnce() };
      return { ok: true, value: (await latest?.page) ?? (await renderOnce()) };
    },
  };
}

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

/** Whether a connection's other end is this machine. Headers do not count: anybody can write them. */
function isLoopback(peer: string | undefined): boolean {
  return peer !== undefined && loopback.check(peer, isIPv6(peer) ? "ipv6" : "ipv4");
}
