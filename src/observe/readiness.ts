/**
 * Whether this instance is ready: it is not about to stop, the database takes writes, and there is a provider to call. Probes
 * are many, so one write is tried for all of them, at most every two seconds. A batch of acts that fails counts at once.
 */
import { inTime, type Instant, type System } from "../system.ts";

export const readinessChecks = ["serving", "database", "provider"] as const;
export type ReadinessCheck = (typeof readinessChecks)[number];

/** `degraded` is one of several providers that cannot be called: no reason to send callers elsewhere. */
export type CheckResult = "ok" | "degraded" | "failing";

export interface ReadinessOptions {
  readonly system: Pick<System, "now" | "after">;
  /** Resolves when the database takes a write. */
  readonly ping: () => Promise<void>;
  readonly providers: () => readonly { readonly isOpen: () => boolean }[];
}

export interface Readiness {
  /** Makes each of these checks. */
  judge(checks: readonly ReadinessCheck[]): Promise<Partial<Record<ReadinessCheck, CheckResult>>>;
  /** Called after each batch of acts that has failed as a whole. */
  batchFailed(): void;
  /** The instance is not ready from now on. */
  drain(): void;
}

/** The result of a write counts for so long. */
const goodForMs = 2_000;
/** After a batch has failed, no write is tried for so long: calls show whether it still fails. */
const badForMs = 1_000;
/** A write that takes longer has failed: nobody waits for such a database. */
const pingTimeoutMs = 2_000;

export function createReadiness({ system, ping, providers }: ReadinessOptions): Readiness {
  let draining = false;
  let latest: { readonly atMs: Instant; readonly isWritable: Promise<boolean> } | undefined;
  let failedMs: Instant | undefined;
  let pinging: Promise<boolean> | undefined;

  /** Tries a write. One that hangs is not followed by another: they would only queue up behind it. */
  async function tryWrite(): Promise<boolean> {
    pinging ??= ping()
      .then(
        () => true,
        () => false,
      )
      .finally(() => (pinging = undefined));
    return (await inTime(system, pingTimeoutMs, pinging)) === true;
  }

  function isWritable(): Promise<boolean> {
    const now = system.now();
    if (failedMs !== undefined && now - failedMs < badForMs) return Promise.resolve(false);
    if (latest === undefined || now - latest.atMs >= goodForMs) latest = { atMs: now, isWritable: tryWrite() };
    return latest.isWritable;
  }

  function ofProviders(): CheckResult {
    const open = providers().filter(({ isOpen }) => isOpen()).length;
    if (open === 0) return "ok";
    return open < providers().length ? "degraded" : "failing";
  }

  const looks: Record<ReadinessCheck, () => CheckResult | Promise<CheckResult>> = {
    serving: () => (draining ? "failing" : "ok"),
    database: async () => ((await isWritable()) ? "ok" : "failing"),
    provider: ofProviders,
  };

  return {
    async judge(checks) {
      const results = await Promise.all(checks.map(async (check) => [check, await looks[check]()] as const));
      return Object.fromEntries(results);
    },
    batchFailed() {
      failedMs = system.now();
      latest = undefined;
    },
    drain() {
      draining = true;
    },
  };
}
