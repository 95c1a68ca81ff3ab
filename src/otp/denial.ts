/**
 * Denials: a send or a resend that a limit, a prefix or a cap has no room for, with the little that it writes. It spends
 * nothing of any of them.
 */
import type { Instant } from "../system.ts";
import type { spendNamed } from "./named-limit.ts";
import type { Policy } from "./policy.ts";
import type { Judgment } from "./pumping-guard.ts";
import type { Counted } from "./spending.ts";
import { refused } from "./standing.ts";
import { nothing } from "./writes.ts";

/** Refuses for a phone's limits. Nothing is spent; TATs that were too far ahead are corrected. */
export function rateLimited({ retryAfterMs, tatsMs }: { retryAfterMs: number; tatsMs?: readonly Instant[] }) {
  const result = refused("PHONE_RATE_LIMITED", { field: "phone", retryAfterMs });
  return tatsMs === undefined ? nothing(result) : { writes: { tats: tatsMs }, result };
}

/** Refuses for a limit that the send names, as `rateLimited` does for the phone's. */
export function limitReached({ refusal, tats }: Extract<ReturnType<typeof spendNamed>, { allowed: false }>) {
  const result = { kind: "refused", refusal } as const;
  return tats === undefined ? nothing(result) : { writes: { limitTats: tats }, result };
}

/** Refuses for the prefix, if the guard enforces. Only the refusal is counted. */
export function prefixRefused(judgment: Judgment | undefined, policy: Policy) {
  if (judgment === undefined || judgment.kind === "admitted" || policy.fraudGuard === "observe") return undefined;
  const result =
    judgment.kind === "blocked"
      ? refused("DESTINATION_BLOCKED", { field: "phone" })
      : refused("PHONE_RATE_LIMITED", { field: "phone", retryAfterMs: judgment.retryAfterMs });
  return { writes: { prefix: judgment.change }, result };
}

/** Refuses for a cap of the day. Nothing is spent. */
export function spendLimited({ refusal, writes, reached }: Extract<Counted, { counted: false }>) {
  return { writes, result: { kind: "refused", refusal, reached } as const };
}
