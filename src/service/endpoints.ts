/**
 * What an operator does with the endpoints of a tenant: makes them, rotates their secrets, turns them off and on. A secret
 * is told once, by the act that makes it.
 */
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
} from "../otp/endpoint.ts";
import type { EventType } from "../otp/event.ts";
import type { KeyRing } from "../otp/key-ring.ts";
import { Secret } from "../otp/secret.ts";
import type { Store } from "../store/store.ts";
import type { Instant, System } from "../system.ts";

export interface WebhooksGround {
  readonly store: Store;
  readonly system: System;
  readonly keys: KeyRing;
}

export interface EndpointWish {
  readonly tenant: string;
  /** As `parseEndpointUrl` gave it. */
  readonly url: URL;
  /** Empty for all. */
  readonly types: readonly EventType[];
  readonly showPhones: boolean;
}

/** A new secret, as its receiver needs it: `whsec_` and 32 bytes in base64. */
export interface Made {
  readonly id: string;
  readonly secret: Secret;
}

/** Makes an endpoint; "no-tenant" or "full" where that cannot be. */
export async function addWebhook(ground: WebhooksGround, wish: EndpointWish): Promise<Made | "no-tenant" | "full"> {
  const { store, system, keys } = ground;
  const id = `we_${Buffer.from(system.randomBytes(12)).toString("base64url")}`;
  const { bytes, secret } = newSecret(system);
  const createMs = store.now();
  const box = sealSecret(keys.current, id, bytes, system.randomBytes(secretNonceBytes));
  const added = await store.events.addEndpoint(
    {
      id,
      tenant: wish.tenant,
      url: wish.url.href,
      types: wish.types,
      showPhones: wish.showPhones,
      kid: keys.current.kid,
      secrets: [{ box, createMs, endMs: null }],
      createMs,
      disableMs: null,
      why: null,
      failingSinceMs: null,
    },
    endpointsMax,
  );
  return added === "added" ? { id, secret } : added;
}

/**
 * Gives an endpoint a new secret; those before sign beside it for `keepMs` more. "unknown" if there is none with this id,
 * "full" while three sign already.
 */
export async function rotateSecret(
  ground: WebhooksGround,
  id: string,
  keepMs: number,
): Promise<Made | "unknown" | "full"> {
  const { store, system, keys } = ground;
  const { bytes, secret } = newSecret(system);
  const box = sealSecret(keys.current, id, bytes, system.randomBytes(secretNonceBytes));
  let isFull = false;
  const found = await store.events.changeEndpoint(id, (loaded, now) => {
    const endpoint = resealed(keys, loaded, () => system.randomBytes(secretNonceBytes));
    const signing = endpoint.secrets.filter((each) => isSigning(each, now));
    isFull = keepMs > 0 && signing.length >= secretsMax;
    if (isFull) return endpoint;
    return { ...endpoint, secrets: [{ box, createMs: now, endMs: null }, ...endedBy(endpoint, now, now + keepMs)] };
  });
  if (!found) return "unknown";
  return isFull ? "full" : { id, secret };
}

/** Signs with the newest secret alone from now on; false if there is no endpoint with this id. */
export function expireSecrets({ store }: Pick<WebhooksGround, "store">, id: string): Promise<boolean> {
  return store.events.changeEndpoint(id, (endpoint) => ({ ...endpoint, secrets: endpoint.secrets.slice(0, 1) }));
}

/** Turns an endpoint off; false if there is none with this id. */
export function disableWebhook({ store }: Pick<WebhooksGround, "store">, id: string): Promise<boolean> {
  return store.events.changeEndpoint(id, (endpoint, now) => disabled(endpoint, "operator", now));
}

/** Turns an endpoint on again; false if there is none with this id. */
export function enableWebhook({ store }: Pick<WebhooksGround, "store">, id: string): Promise<boolean> {
  return store.events.changeEndpoint(id, enabled);
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
