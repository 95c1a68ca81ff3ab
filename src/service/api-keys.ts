/**
 * The acts on API keys: issue one, and authenticate a call by it.
 */
import {
  apiKeyBytes,
  isPublishable,
  judgeKey,
  makeApiKey,
  parseAuthorization,
  type ApiKey,
  type KeyKind,
  type PresentedKey,
  type Scope,
} from "../otp/api-key.ts";
import type { Limit } from "../otp/rate-limit.ts";
import type { Result } from "../otp/reason.ts";
import type { Secret } from "../otp/secret.ts";
import type { Store } from "../store/store.ts";
import type { Instant, System } from "../system.ts";
import { createMoments } from "./expiry-map.ts";
import type { OwnKeys } from "./own-keys.ts";
import { createQuota, unlimited } from "./quotas.ts";

/** The use of a key is noted at most this often. */
const lastUseNoteMs = 60_000;

/** What a key is to be. */
export interface KeyWish {
  readonly kind: KeyKind;
  readonly tenant: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly expireMs: Instant | null;
  /** For a publishable key: the origins it lists, in canonical form, and whether apps may use it. */
  readonly origins?: readonly string[];
  readonly isApp?: boolean;
}

/** A key to be stored, and its text, which is nowhere else ever after. */
export interface IssuedKey {
  readonly key: ApiKey;
  readonly text: Secret;
}

/** Makes a key and stores its digest. */
export async function issueKey(store: Store, system: System, wish: KeyWish): Promise<IssuedKey> {
  const issued = makeKey(store, system, wish);
  await store.registry.addApiKey(issued.key);
  return issued;
}

/** Makes keys and stores their digests, all or none; undefined where the store has any key already. */
export async function issueFirstKeys(
  store: Store,
  system: System,
  wishes: readonly KeyWish[],
): Promise<IssuedKey[] | undefined> {
  const issued = wishes.map((wish) => makeKey(store, system, wish));
  return (await store.registry.addFirstApiKeys(issued.map(({ key }) => key))) ? issued : undefined;
}

function makeKey(store: Store, system: System, wish: KeyWish): IssuedKey {
  const { id, text, digest } = makeApiKey(wish.kind, system.randomBytes(apiKeyBytes));
  const life = { createMs: store.now(), revokeMs: null, lastUseMs: null };
  return { key: { origins: [], isApp: false, ...wish, ...life, id, digest }, text };
}

/** How long a key that was found valid is remembered. */
const seenValidMs = 300_000;
/** And how many of them. */
const seenValidMax = 10_000;

export interface AuthenticateOptions {
  readonly store: Pick<Store, "now" | "registry">;
  readonly ownKeys?: OwnKeys;
  /** Refused keys from one address. */
  readonly failureLimit: Limit;
  /** Whether an address stands for many callers, who cannot be told apart. */
  readonly isShared: (address: CallerAddress) => boolean;
  readonly onFault: (error: unknown) => void;
}

/** Where a call comes from: what limits know it by, and the whole address where it is known. */
export interface CallerAddress {
  readonly name: string;
  readonly text: string | undefined;
}

/**
 * Makes what authenticates a call by its `Authorization` header. A key is looked up at every call, so that
 * one revoked by another process counts at once; a malformed one is refused before any look-up. The process's own keys
 * are known to it beside those of the store.
 *
 * Every refused key counts for the address it came from, and beyond the limit keys from there are IP_RATE_LIMITED, again
 * before any look-up; but never one that was valid in the last five minutes, or a stranger behind the same address could
 * have a backend refused. From an address that many share, a well-formed key is looked up beyond the limit too, and only a
 * wrong one is refused: there a stranger and a backend that has just started look the same.
 */
export function createAuthenticate({ store, ownKeys, failureLimit, isShared, onFault }: AuthenticateOptions) {
  const failures = createQuota(failureLimit, "IP_RATE_LIMITED", () => store.now());
  /** Until when a key counts as seen valid, by its digest. */
  const seenValid = createMoments(seenValidMax);
  /** Notes under way: many calls arrive before the first note is committed. */
  const noting = new Set<string>();
  /** How many look for a key now. They share one place, or the first calls of a busy backend would take them all. */
  const looking = new Map<string, number>();

  function noteUse(id: string, now: Instant): void {
    if (noting.has(id)) return;
    noting.add(id);
    store.registry
      .touchApiKey(id, now)
      .catch(onFault)
      .finally(() => noting.delete(id));
  }

  async function look(presented: PresentedKey, now: Instant): Promise<Result<ApiKey>> {
    const own = ownKeys?.find(presented.id);
    if (own !== undefined) return judgeKey(presented, own, now);
    const judged = judgeKey(presented, await store.registry.findApiKey(presented.id), now);
    if (judged.ok && now - (judged.value.lastUseMs ?? 0) >= lastUseNoteMs) noteUse(judged.value.id, now);
    return judged;
  }

  async function authenticate(header: string | undefined, addressOf: () => CallerAddress): Promise<Result<ApiKey>> {
    const presented = parseAuthorization(header);
    if (!presented.ok) {
      const isKey = presented.refusal.reason !== "API_KEY_MISSING";
      const tooMany = isKey ? failures.take(addressOf().name).refusal : undefined;
      return tooMany === undefined ? presented : { ok: false, refusal: tooMany };
    }
    const now = store.now();
    const name = nameOf(presented.value);
    if (seenValid.get(name) > now) {
      const judged = await look(presented.value, now);
      seenValid.set(name, judged.ok ? now + seenValidMs : 0, now);
      if (!judged.ok) failures.take(addressOf().name);
      return judged;
    }
    const others = looking.get(name) ?? 0;
    const place = others === 0 ? failures.take(addressOf().name) : unlimited;
    if (place.refusal !== undefined && !isShared(addressOf())) return { ok: false, refusal: place.refusal };
    looking.set(name, others + 1);
    let isRefused = false;
    try {
      const judged = await look(presented.value, now);
      isRefused = !judged.ok;
      if (judged.ok) seenValid.set(name, now + seenValidMs, now);
      else if (place.refusal !== undefined) return { ok: false, refusal: place.refusal };
      else if (place === unlimited) failures.take(addressOf().name);
      return judged;
    } finally {
      // A look-up that failed says nothing of the key.
      if (!isRefused) place.giveBack();
      const left = (looking.get(name) ?? 1) - 1;
      if (left === 0) looking.delete(name);
      else looking.set(name, left);
    }
  }

  return {
    authenticate,
    /** Tells whether this is a secret key that was valid in the last five minutes, without looking it up. */
    wasValid(header: string | undefined): boolean {
      const presented = parseAuthorization(header);
      return (
        presented.ok && !isPublishable(presented.value.kind) && seenValid.get(nameOf(presented.value)) > store.now()
      );
    },
  };
}

function nameOf({ digest }: PresentedKey): string {
  return Buffer.from(digest).toString("base64");
}
