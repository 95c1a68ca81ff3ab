/**
 * Metrics of attacks: prefixes that are pumped, and codes that are guessed.
 */
import { Gauge, type Registry } from "prom-client";
import { counters } from "./series.ts";

export interface AttackMetrics {
  /** The pumping guard blocked a prefix, or would have were it not to observe only. */
  tripped(isEnforced: boolean): void;
  /** A prefix had no room for a send before its codes are typed: it was refused, or would be. */
  prefixLimited(isEnforced: boolean): void;
  /** At so many tenants somebody seems to guess codes. */
  guessed(tenants: number): void;
}

export function attackMetrics(registry: Registry): AttackMetrics {
  const trips = counters(registry, {
    name: "otp_prefix_trips_total",
    help: "Prefixes that the pumping guard blocked (enforced: yes), or would have while it observes (no).",
    labels: ["enforced"],
  });
  const limits = counters(registry, {
    name: "otp_prefix_limits_total",
    help: "Prefixes to which more was sent than they take before codes are typed: refused (enforced: yes), or noted (no).",
    labels: ["enforced"],
  });
  for (const family of [trips, limits]) for (const enforced of ["yes", "no"]) family(enforced);
  const guessedAt = new Gauge({
    name: "otp_guessed_tenants",
    help: "Tenants at which so many codes are wrong that somebody seems to guess: nearly all of them, or three times what is usual.",
    registers: [registry],
  });
  return {
    tripped: (isEnforced) => trips(isEnforced ? "yes" : "no").add(),
    prefixLimited: (isEnforced) => limits(isEnforced ? "yes" : "no").add(),
    guessed: (tenants) => guessedAt.set(tenants),
  };
}
