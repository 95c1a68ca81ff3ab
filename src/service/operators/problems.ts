/**
 * What is wrong now, with one tenant or with the installation: for each problem a sentence for people, and where the
 * console shows more. Pure but for what is handed in.
 */
import type { Endpoint } from "../../otp/operators/endpoint.ts";
import type { GuardMode } from "../../otp/limits/pumping-guard.ts";
import { dayMs, type Instant } from "../../system.ts";
import type { PrefixReport } from "./prefixes.ts";

export interface Problem {
  readonly severity: "warning" | "critical";
  /** A word for what it is; it does not change. */
  readonly kind: string;
  readonly sentence: string;
  /** A page of the console, with its query. */
  readonly link: string;
}

/** What is used of a cap today. */
export interface CapUse {
  readonly tenant: string;
  /** `messages`, `calls`, `country:NG`, or `money`. */
  readonly kind: string;
  readonly used: number;
  readonly max: number;
  /** Of `money`. */
  readonly currency: string;
}

/** Keys that end within it are told of. */
const keyEndsMs = 7 * dayMs;
/** Events that wait for one endpoint. */
const waitingMany = 1_000;
/** Messages without any report. */
const unreportedMin = 20;
/** Messages that have been due for longer. */
const lagMsMax = 60_000;
const nearShare = 0.8;

const counted = (count: number, one: string, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

/** Providers that are left alone, by channel. */
export function providerProblems(
  providers: readonly { readonly name: string; readonly channel: string; readonly isOpen: () => boolean }[],
): Problem[] {
  return providers
    .filter(({ isOpen }) => isOpen())
    .map(({ name, channel }) => {
      const others = providers.filter((each) => each.channel === channel && !each.isOpen());
      const rest =
        others.length === 0
          ? `and no other takes ${channel}, so nothing is sent by it.`
          : `so ${channel} goes to ${others.map((each) => each.name).join(", ")}.`;
      return {
        severity: others.length === 0 ? "critical" : "warning",
        kind: "provider_open",
        sentence: `The provider ${name} failed too often and is left alone until a trial succeeds, ${rest}`,
        link: "providers",
      };
    });
}

/** Messages that wait too long. */
export function queueProblems({ depth, lagMs }: { readonly depth: number; readonly lagMs: number }): Problem[] {
  if (lagMs < lagMsMax) return [];
  const sentence = `${counted(depth, "message")} wait for a provider, the longest for ${Math.round(lagMs / 1_000)} s.`;
  return [{ severity: "critical", kind: "messages_waiting", sentence, link: "providers" }];
}

/** Caps that are near or reached. */
export function capProblems(caps: readonly CapUse[]): Problem[] {
  return caps
    .filter(({ used, max }) => used >= nearShare * max)
    .map(({ tenant, kind, used, max }) => {
      const isReached = used >= max;
      const share = max === 0 ? 100 : Math.floor((100 * used) / max);
      return {
        severity: isReached ? "critical" : "warning",
        kind: isReached ? "cap_reached" : "cap_near",
        sentence: `Tenant ${tenant} has used ${share} % of its daily cap on ${capName(kind)}${isReached ? ": sends are refused as SPEND_LIMIT until midnight UTC" : ""}.`,
        link: `overview?${new URLSearchParams({ tenant }).toString()}`,
      };
    });
}

function capName(kind: string): string {
  return kind.startsWith("country:") ? `messages to ${kind.slice("country:".length)}` : kind;
}

/** Prefixes that are refused now, or would be. One whose block is over is no problem any more until it is sent to again. */
export function suspectProblems(
  reports: readonly PrefixReport[],
  modeOf: (tenant: string) => GuardMode,
  sinceMs: Instant,
): Problem[] {
  return reports
    .filter(
      ({ record, decisions, isDue }) =>
        (record.phase !== "open" && !isDue) || (record.refused > 0 && (decisions[0]?.atMs ?? 0) >= sinceMs),
    )
    .map(({ tenant, prefix, record }) => {
      const refused = counted(record.refused, "send");
      const what =
        modeOf(tenant) === "enforce"
          ? `${refused} to it ${record.refused === 1 ? "was" : "were"} refused`
          : `nothing is refused, since the guard observes: ${refused} would have been`;
      // An open prefix has had more sends than it has room for; of few codes there is no proof yet.
      const seen =
        record.phase === "open" ? "More is sent than codes are typed, to" : "Few codes are typed of those sent to";
      return {
        severity: "warning",
        kind: "prefix_suspected",
        sentence: `${seen} ${prefix}•••• by tenant ${tenant}, as when messages are pumped; ${what}.`,
        link: `fraud?${new URLSearchParams({ tenant, prefix }).toString()}`,
      };
    });
}

/** No provider at all, and the one that prints what it is to send. */
const reportless = new Set(["", "console"]);

/** Providers whose messages get no report. */
export function reportProblems(
  sums: readonly { readonly provider: string; readonly messages: number; readonly reported: number }[],
): Problem[] {
  return sums
    .filter(
      ({ provider, messages, reported }) => !reportless.has(provider) && messages >= unreportedMin && reported === 0,
    )
    .map(({ provider, messages }) => ({
      severity: "warning",
      kind: "no_reports",
      sentence: `The provider ${provider} took ${counted(messages, "message")} in this period and reported on none: its reports may not reach this service.`,
      link: "providers",
    }));
}

/** Endpoints that are not told. */
export function endpointProblems(
  endpoints: readonly { readonly endpoint: Endpoint; readonly waiting: number }[],
): Problem[] {
  const problem = (
    severity: Problem["severity"],
    kind: string,
    { endpoint }: (typeof endpoints)[number],
    rest: string,
  ) => ({
    severity,
    kind,
    sentence: `The endpoint ${endpoint.id} of tenant ${endpoint.tenant} ${rest}.`,
    link: "webhooks",
  });
  return endpoints.flatMap((each) => {
    const { failingSinceMs, disableMs, why } = each.endpoint;
    if (disableMs !== null) {
      if (why === "operator") return [];
      return [
        problem(
          "warning",
          "webhook_disabled",
          each,
          `was disabled, since it ${why === "gone" ? "answered 410" : "failed for days"}`,
        ),
      ];
    }
    if (failingSinceMs !== null) {
      const rest = `has failed since ${new Date(failingSinceMs).toISOString()}, and ${counted(each.waiting, "event waits", "events wait")}`;
      return [problem("warning", "webhook_failing", each, rest)];
    }
    if (each.waiting < waitingMany) return [];
    return [problem("warning", "webhook_behind", each, `is behind: ${each.waiting} events wait`)];
  });
}

/** A key, as far as its end goes. */
export interface EndingKey {
  readonly id: string;
  readonly name: string;
  readonly expireMs: Instant | null;
  readonly revokeMs: Instant | null;
  readonly lastUseMs?: Instant | null | undefined;
}

/** Keys in use that end soon. */
export function keyProblems(keys: readonly EndingKey[], now: Instant): Problem[] {
  return keys
    .filter(
      ({ expireMs, revokeMs }) =>
        revokeMs === null && expireMs !== null && expireMs > now && expireMs - now < keyEndsMs,
    )
    .toSorted((a, b) => (a.expireMs ?? 0) - (b.expireMs ?? 0))
    .map(({ id, name, expireMs }) => ({
      severity: "warning",
      kind: "key_expiring",
      sentence: `The key ${id}${name === "" ? "" : ` (${name})`} ends at ${new Date(expireMs ?? 0).toISOString()}: rotate it before.`,
      link: "tenants",
    }));
}

/** Tenants at which codes are guessed. */
export function guessingProblems(tenants: readonly string[]): Problem[] {
  return tenants.map((tenant) => ({
    severity: "warning",
    kind: "codes_guessed",
    sentence: `Four codes in five are wrong at tenant ${tenant}, as when somebody guesses: its new codes are longer.`,
    link: `overview?${new URLSearchParams({ tenant }).toString()}`,
  }));
}
