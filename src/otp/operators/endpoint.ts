/**
 * An endpoint is a URL of a tenant's own to which events are posted. This file holds what is kept of one, how its secrets
 * are kept, and what a try to post means for an event and its endpoint. Tries follow the schedule of the Standard Webhooks
 * specification: at once, and then after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h.
 */
import { createCipheriv, createDecipheriv, createHmac, createSecretKey, type KeyObject } from "node:crypto";
import type { Instant } from "../../system.ts";
import type { EventType } from "../event-type.ts";
import type { KeyRing, MasterKey } from "../keys/key-ring.ts";
import { localHosts } from "../keys/origin.ts";

export interface EndpointSecret {
  readonly box: Uint8Array;
  readonly createMs: Instant;
  /** From when on nothing is signed with it; null while that is open. */
  readonly endMs: Instant | null;
}

/** Why an endpoint gets nothing: an operator's word, its own (410), or days without an answer. */
export type Disabling = "operator" | "gone" | "failing";

export interface Endpoint {
  /** `we_` and 16 characters of base64url. */
  readonly id: string;
  readonly tenant: string;
  readonly url: string;
  /** What it asks for; empty for everything. */
  readonly types: readonly EventType[];
  /** Whether it gets whole phones instead of masked ones. */
  readonly showPhones: boolean;
  /** The master key that all its secrets are encrypted under. */
  readonly kid: number;
  /** The newest first; at least one. */
  readonly secrets: readonly EndpointSecret[];
  readonly createMs: Instant;
  /** When it was disabled; null while it is not. */
  readonly disableMs: Instant | null;
  readonly why: Disabling | null;
  /** When it first failed since it last took an event; null when it did not. */
  readonly failingSinceMs: Instant | null;
}

/** Endpoints of one tenant. Each event is kept and posted once for each. */
export const endpointsMax = 5;
/** Secrets of one endpoint that sign at the same time. */
export const secretsMax = 3;
/** Bytes of a secret; the specification allows 24 to 64. */
export const endpointSecretBytes = 32;
/** How long a rotated secret still signs, unless it is said otherwise. */
export const overlapMs = 24 * 3_600_000;
/** Events that wait for one endpoint; beyond them the oldest are dropped. */
export const backlogMax = 10_000;
/** A claim on an event lasts so long; a worker that has not recorded its try by then is taken for dead. */
export const eventLeaseMs = 60_000;

const [second, minute, hour] = [1_000, 60_000, 3_600_000];
/** The wait after each try but the last. */
export const retryWaitsMs: readonly number[] = [
  5 * second,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour,
];
/** Up to so much of a wait is added to it, so that what failed together does not come back together. */
const jitterShare = 0.1;
/** An endpoint that took nothing for so long is disabled when an event's last try fails. All tries take 75 h 35 min. */
export const failingMaxMs = 3 * 24 * hour;

/** What came of a try: a 2xx, a 410, or anything else. */
export type TryOutcome = "taken" | "gone" | "failed";

/** What follows for the event, and the new form of its endpoint where that changes. */
export interface AfterTry {
  /** Null when the event is done with, whether it was taken or given up. */
  readonly retry: { readonly tries: number; readonly dueMs: Instant } | null;
  readonly isTaken: boolean;
  readonly endpoint: Endpoint;
}

/** Decides what a try means. `tries` are those before it; `chance` is in [0, 1). Pure. */
export function afterTry(
  tries: number,
  endpoint: Endpoint,
  outcome: TryOutcome,
  now: Instant,
  chance: number,
): AfterTry {
  if (outcome === "taken") {
    return {
      retry: null,
      isTaken: true,
      endpoint: endpoint.failingSinceMs === null ? endpoint : { ...endpoint, failingSinceMs: null },
    };
  }
  const since = endpoint.failingSinceMs ?? now;
  const failing = endpoint.failingSinceMs === null ? { ...endpoint, failingSinceMs: now } : endpoint;
  if (outcome === "gone") return { retry: null, isTaken: false, endpoint: disabled(failing, "gone", now) };
  const waitMs = retryWaitsMs[tries];
  if (waitMs === undefined) {
    const isOver = now - since >= failingMaxMs;
    return { retry: null, isTaken: false, endpoint: isOver ? disabled(failing, "failing", now) : failing };
  }
  return {
    retry: { tries: tries + 1, dueMs: now + Math.floor(waitMs * (1 + jitterShare * chance)) },
    isTaken: false,
    endpoint: failing,
  };
}

/** The endpoint disabled; one that is already keeps its reason. Pure. */
export function disabled(endpoint: Endpoint, why: Disabling, now: Instant): Endpoint {
  return endpoint.disableMs === null ? { ...endpoint, disableMs: now, why } : endpoint;
}

/** The endpoint enabled, with a clean slate. Pure. */
export function enabled(endpoint: Endpoint): Endpoint {
  if (endpoint.disableMs === null && endpoint.failingSinceMs === null) return endpoint;
  return { ...endpoint, disableMs: null, why: null, failingSinceMs: null };
}

/** Whether a change enables an endpoint that was disabled or failing: what waits for it begins anew. Pure. */
export function isEnabledAnew(before: Endpoint, after: Endpoint): boolean {
  const wasOff = before.disableMs !== null || before.failingSinceMs !== null;
  return wasOff && after.disableMs === null && after.failingSinceMs === null;
}

/** True while a secret signs. Pure. */
export function isSigning({ endMs }: EndpointSecret, now: Instant): boolean {
  return endMs === null || now < endMs;
}

/** The secrets that sign at a moment, the newest first. Throws when their master key is not configured. */
export function signingSecrets(keys: KeyRing, endpoint: Endpoint, now: Instant): Buffer[] {
  return endpoint.secrets.filter((secret) => isSigning(secret, now)).map(({ box }) => openSecret(keys, endpoint, box));
}

/** The endpoint with all its secrets encrypted under the current master key. `nonceOf` draws 12 random bytes. */
export function resealed(keys: KeyRing, endpoint: Endpoint, nonceOf: () => Uint8Array): Endpoint {
  if (endpoint.kid === keys.current.kid) return endpoint;
  const secrets = endpoint.secrets.map((secret) => ({
    ...secret,
    box: sealSecret(keys.current, endpoint.id, openSecret(keys, endpoint, secret.box), nonceOf()),
  }));
  return { ...endpoint, kid: keys.current.kid, secrets };
}

export const secretNonceBytes = 12;
const tagBytes = 16;

/** Encrypts a secret for its endpoint: AES-256-GCM under HMAC(webhook key, endpoint's id); the nonce leads the box. */
export function sealSecret(key: MasterKey, endpointId: string, secret: Uint8Array, nonce: Uint8Array): Uint8Array {
  const cipher = createCipheriv("aes-256-gcm", endpointKey(key, endpointId), nonce, { authTagLength: tagBytes });
  return Buffer.concat([nonce, cipher.update(secret), cipher.final(), cipher.getAuthTag()]);
}

function openSecret(keys: KeyRing, { id, kid }: Endpoint, box: Uint8Array): Buffer {
  const key = keys.find(kid);
  if (key === undefined) throw new Error(`no master key with kid ${kid} is configured`);
  const nonce = box.subarray(0, secretNonceBytes);
  const decipher = createDecipheriv("aes-256-gcm", endpointKey(key, id), nonce, { authTagLength: tagBytes });
  decipher.setAuthTag(box.subarray(-tagBytes));
  return Buffer.concat([decipher.update(box.subarray(secretNonceBytes, -tagBytes)), decipher.final()]);
}

function endpointKey(key: MasterKey, id: string): KeyObject {
  return createSecretKey(createHmac("sha256", key.webhook).update(id, "latin1").digest());
}

const urlCharsMax = 2_048;

/**
 * Reads an endpoint's URL: https, without a user or a fragment; http to this machine alone, and only in development.
 * Where its name leads is looked at whenever something is posted. Pure.
 */
export function parseEndpointUrl(text: string, isDevelopment: boolean): URL | undefined {
  if (text.length > urlCharsMax || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const isSafe =
    url.protocol === "https:" || (isDevelopment && url.protocol === "http:" && localHosts.has(url.hostname));
  const isPlain = url.username === "" && url.password === "" && url.hash === "";
  return isSafe && isPlain ? url : undefined;
}
