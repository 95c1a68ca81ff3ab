/**
 * Fills a development database with the sample month: tenants with keys, endpoints and an audit, and what became of
 * their requests. Nobody has the secrets of these keys and endpoints, so nothing is ever sent for them.
 */
import { apiKeyBytes, makeApiKey, secretScopes, type ApiKey } from "../../otp/keys/api-key.ts";
import {
  auditEntry,
  commandLine,
  destinationStory,
  endpointStory,
  keyStory,
  tenantStory,
  type AuditAction,
  type Audited,
  type AuditEntry,
  type Author,
} from "../../otp/operators/audit.ts";
import type { Destination } from "../../otp/verification/destination.ts";
import {
  endpointSecretBytes,
  endpointsMax,
  sealSecret,
  secretNonceBytes,
  type Endpoint,
} from "../../otp/operators/endpoint.ts";
import type { KeyRing } from "../../otp/keys/key-ring.ts";

import type { Sampled } from "../../store/sample.ts";
import type { Store } from "../../store/store.ts";
import { dayMs, hourMs, randomText, type Instant, type System } from "../../system.ts";
import { monthOf } from "./month.ts";
import { incidentsUntil, sampleDays, sampleTenants } from "./plan.ts";

export interface FillOptions {
  readonly store: Store;
  readonly system: System;
  readonly keys: KeyRing;
  readonly seed: number;
  /** Ends what has expired, and sums what has ended. */
  readonly sweep: () => Promise<void>;
}

export type Filled =
  | { readonly kind: Exclude<Sampled, "filled"> | "there" }
  | { readonly kind: "filled"; readonly requests: number; readonly stories: number };

const triesMax = 3;

/** Fills a database, once: `there` where it has its sample, and see `Sampled`. */
export async function fillSample(options: FillOptions): Promise<Filled> {
  const { store, keys, seed, sweep } = options;
  for (const { id } of sampleTenants) {
    if ((await store.registry.findTenant(id)) !== undefined) return { kind: "there" };
  }
  for (let tries = 1; ; tries++) {
    await sweep();
    const endMs = store.samples.sampleEndMs();
    const things = thingsOf(options, endMs);
    const keyIdOf = (tenant: string) => things.keys.find((key) => key.tenant === tenant)?.id ?? "";
    const month = monthOf({ seed, endMs, key: keys.current, keyIdOf });
    const came = await store.samples.addSample({ ...month, audit: auditOf(things, endMs) });
    // A server beside it may have summed meanwhile.
    if (came === "busy" && tries < triesMax) continue;
    if (came !== "filled") return { kind: came };
    await addThings(store, things);
    const requests = month.sums.reduce((sum, { sums }) => sum + (sums.asked ?? 0), 0);
    return { kind: "filled", requests, stories: month.verifications.length };
  }
}

/** What operators have made. */
interface Things {
  readonly keys: readonly ApiKey[];
  readonly endpoints: readonly Endpoint[];
  readonly destinations: readonly Destination[];
}

function thingsOf({ system, keys: ring }: FillOptions, endMs: Instant): Things {
  const startMs = endMs - sampleDays * dayMs;
  const key = (tenant: string, name: string, more: Partial<ApiKey> = {}): ApiKey => {
    const { id, digest } = makeApiKey(more.kind ?? "live", system.randomBytes(apiKeyBytes));
    const life = {
      createMs: startMs + hourMs,
      expireMs: null,
      revokeMs: null,
      lastUseMs: endMs - 40_000,
      lastRefuseMs: null,
    };
    const rights = { scopes: secretScopes, origins: [], isApp: false, channels: ["sms" as const] };
    return { kind: "live", tenant, name, ...rights, digest, id, ...life, ...more };
  };
  const endpoint = (tenant: string, url: string, more: Partial<Endpoint> = {}): Endpoint => {
    const id = `we_${randomText(system, 12)}`;
    const secret = system.randomBytes(endpointSecretBytes);
    const box = sealSecret(ring.current, id, secret, system.randomBytes(secretNonceBytes));
    const createMs = startMs + 2 * hourMs;
    const made = { kid: ring.current.kid, secrets: [{ box, createMs, endMs: null }], createMs };
    const rest = { types: [], showPhones: false, disableMs: null, why: null, failingSinceMs: null };
    return { id, tenant, url, ...made, ...rest, ...more };
  };
  const { attacks } = incidentsUntil(endMs);
  return {
    keys: [
      key("demo-shop", "backend"),
      key("demo-shop", "checkout page", {
        kind: "pub",
        scopes: ["verify", "resend", "read", "cancel"],
        origins: ["https://shop.example"],
      }),
      key("demo-bank", "app backend, 2nd", { createMs: endMs - 12 * dayMs, expireMs: endMs + 5 * dayMs }),
      key("demo-bank", "app backend", {
        expireMs: endMs + 5 * dayMs,
        revokeMs: endMs - 11 * dayMs,
        lastUseMs: endMs - 11 * dayMs - hourMs,
        lastRefuseMs: endMs - 9 * dayMs,
      }),
      key("demo-clinic", "reception", { lastUseMs: endMs - 3 * hourMs }),
    ],
    endpoints: [
      endpoint("demo-shop", "https://shop.example/otp/events"),
      endpoint("demo-clinic", "https://clinic.example/hooks", {
        types: ["verification.verified"],
        failingSinceMs: endMs - 6 * dayMs,
        disableMs: endMs - 2 * dayMs,
        why: "failing",
      }),
    ],
    destinations: attacks.slice(0, 1).map(({ tenant, prefix, toMs }) => ({
      tenant,
      prefix,
      verdict: "block",
      note: "pumped",
      createMs: toMs,
    })),
  };
}

async function addThings({ registry, events }: Store, { keys, endpoints, destinations }: Things): Promise<void> {
  for (const { id, settings } of sampleTenants) {
    const keep = { settings: JSON.stringify(settings), disableMs: null };
    await registry.changeTenant(id, () => ({ keep, result: undefined }));
  }
  for (const key of keys) await registry.addApiKey(key);
  for (const endpoint of endpoints) await events.addEndpoint(endpoint, endpointsMax);
  for (const destination of destinations) await registry.putDestination(destination);
}

/** What operators did in the month, the oldest first. */
function auditOf({ keys, endpoints, destinations }: Things, endMs: Instant): AuditEntry[] {
  const startMs = endMs - sampleDays * dayMs;
  const person: Author = { actor: "user:development", actorTenant: "", address: "127.0.0.1" };
  const entry = (by: Author, action: AuditAction, audited: Audited, atMs: Instant) =>
    auditEntry({ by, action }, audited, atMs);
  const { attacks, outage, busyDayMs } = incidentsUntil(endMs);
  const all = [
    ...sampleTenants.map(({ id, settings }) => {
      const after = tenantStory({ settings: JSON.stringify(settings), disableMs: null });
      return entry(commandLine, "tenant.create", { tenant: id, subject: id, after }, startMs);
    }),
    ...keys.map((key) => {
      const after = keyStory({ ...key, revokeMs: null });
      return entry(commandLine, "api_key.create", { tenant: key.tenant, subject: key.id, after }, key.createMs);
    }),
    ...keys
      .filter(({ revokeMs }) => revokeMs !== null)
      .map((key) => {
        const told = { before: keyStory({ ...key, revokeMs: null }), after: keyStory(key) };
        return entry(person, "api_key.revoke", { tenant: key.tenant, subject: key.id, ...told }, key.revokeMs ?? 0);
      }),
    ...endpoints.map((each) => {
      const after = endpointStory({ ...each, disableMs: null, why: null });
      return entry(person, "webhook.create", { tenant: each.tenant, subject: each.id, after }, each.createMs);
    }),
    ...attacks.flatMap(({ tenant, enforcedMs }) => {
      if (enforcedMs === undefined) return [];
      const told = { before: { fraud_guard: "observe" }, after: { fraud_guard: "enforce" } };
      return [entry(person, "guard.set", { tenant, subject: tenant, ...told }, enforcedMs)];
    }),
    ...destinations.map((each) => {
      const { tenant, prefix, createMs } = each;
      return entry(person, "destination.block", { tenant, subject: prefix, after: destinationStory(each) }, createMs);
    }),
    entry(
      person,
      "phone.look",
      { tenant: "demo-bank", subject: "search", after: { seen: 4 } },
      busyDayMs + 18 * hourMs,
    ),
    entry(
      person,
      "provider.try",
      { tenant: "default", subject: "bird", after: { channel: "sms", country: "NL" } },
      outage.toMs,
    ),
  ];
  return all.toSorted((a, b) => a.atMs - b.atMs);
}
