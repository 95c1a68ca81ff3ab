/**
 * What an operator does with the webhook endpoints of a tenant: makes them, rotates their secrets, disables and enables
 * them. A secret is returned once, by the act that makes it.
 */
import { noteOf, type Author } from "../../otp/operators/audit.ts";
import {
  disabled,
  enabled,
  endpointSecretBytes,
  endpointsMax,
  isSigning,
  resealed,
  sealSecret,
  secretNonceBytes,
  secretsMax,
  type Endpoint,
} from "../../otp/operators/endpoint.ts";
import type { EventType } from "../../otp/event-type.ts";
import type { KeyRing } from "../../otp/keys/key-ring.ts";
import { Secret } from "../../otp/keys/secret.ts";
import type { Store } from "../../store/store.ts";
import { randomText, type Instant, type System } from "../../system.ts";

export interface EndpointDependencies {
  readonly store: Store;
  readonly system: System;
  readonly keys: KeyRing;
}

type WithStore = Pick<EndpointDependencies, "store">;

export interface EndpointSpec {
  readonly tenant: string;
  /** As `parseEndpointUrl` gave it. */
  readonly url: URL;
  /** Empty for all. */
  readonly types: readonly EventType[];
  readonly showPhones: boolean;
}

/** A new secret, as its receiver needs it: `whsec_` and 32 bytes in base64. */
export interface IssuedSecret {
  readonly id: string;
  readonly secret: Secret;
}

/** Makes an endpoint; "no-tenant" or "full" where there can be none. */
export async function addEndpoint(
  dependencies: EndpointDependencies,
  spec: EndpointSpec,
  by?: Author,
): Promise<IssuedSecret | "no-tenant" | "full"> {
  const { store, system, keys } = dependencies;
  const id = `we_${randomText(system, 12)}`;
  const { bytes, secret } = newSecret(system);
  const createMs = store.now();
  const box = sealSecret(keys.current, id, bytes, system.randomBytes(secretNonceBytes));
  const added = await store.events.addEndpoint(
    {
      id,
      tenant: spec.tenant,
      url: spec.url.href,
      types: spec.types,
      showPhones: spec.showPhones,
      kid: keys.current.kid,
      secrets: [{ box, createMs, endMs: null }],
      createMs,
      disableMs: null,
      why: null,
      failingSinceMs: null,
    },
    endpointsMax,
    noteOf(by, "webhook.create"),
  );
  return added === "added" ? { id, secret } : added;
}

/**
 * Gives an endpoint a new secret; the earlier ones sign beside it for `keepMs` more. "unknown" if there is no endpoint with
 * this id, "full" while three secrets sign already.
 */
export async function rotateSecret(
  dependencies: EndpointDependencies,
  id: string,
  keepMs: number,
  by?: Author,
): Promise<IssuedSecret | "unknown" | "full"> {
  const { store, system, keys } = dependencies;
  const { bytes, secret } = newSecret(system);
  const box = sealSecret(keys.current, id, bytes, system.randomBytes(secretNonceBytes));
  let isFull = false;
  const rotate = (loaded: Endpoint, now: Instant): Endpoint => {
    const signing = loaded.secrets.filter((each) => isSigning(each, now));
    isFull = keepMs > 0 && signing.length >= secretsMax;
    if (isFull) return loaded;
    const endpoint = resealed(keys, loaded, () => system.randomBytes(secretNonceBytes));
    return { ...endpoint, secrets: [{ box, createMs: now, endMs: null }, ...endedBy(endpoint, now, now + keepMs)] };
  };
  const found = await store.events.changeEndpoint(id, rotate, noteOf(by, "webhook.rotate"));
  if (!found) return "unknown";
  return isFull ? "full" : { id, secret };
}

/** Signs only with the newest secret from now on; false if there is no endpoint with this id. */
export function expireSecrets({ store }: WithStore, id: string, by?: Author): Promise<boolean> {
  const newest = (endpoint: Endpoint): Endpoint => ({ ...endpoint, secrets: endpoint.secrets.slice(0, 1) });
  return store.events.changeEndpoint(id, newest, noteOf(by, "webhook.expire_secrets"));
}

/** Disables an endpoint; false if there is none with this id. */
export function disableEndpoint({ store }: WithStore, id: string, by?: Author): Promise<boolean> {
  const disable = (endpoint: Endpoint, now: Instant) => disabled(endpoint, "operator", now);
  return store.events.changeEndpoint(id, disable, noteOf(by, "webhook.disable"));
}

/** Enables an endpoint again; false if there is none with this id. */
export function enableEndpoint({ store }: WithStore, id: string, by?: Author): Promise<boolean> {
  return store.events.changeEndpoint(id, enabled, noteOf(by, "webhook.enable"));
}

/** Forgets an endpoint and what waits for it; false if there is none with this id. */
export function removeEndpoint({ store }: WithStore, id: string, by?: Author): Promise<boolean> {
  return store.events.removeEndpoint(id, noteOf(by, "webhook.remove"));
}

/** The secrets that still sign, each until `untilMs` at the latest. */
function endedBy({ secrets }: Endpoint, now: Instant, untilMs: Instant) {
  return secrets
    .map((each) => ({ ...each, endMs: Math.min(each.endMs ?? untilMs, untilMs) }))
    .filter((each) => isSigning(each, now));
}

function newSecret(system: System): { bytes: Uint8Array; secret: Secret } {
  const bytes = system.randomBytes(endpointSecretBytes);
  return { bytes, secret: new Secret(`whsec_${Buffer.from(bytes).toString("base64")}`) };
}
