/**
 * The acts on API keys: issue one, and authenticate a call by it.
 */
import { apiKeyBytes, keyKinds, makeApiKey, type ApiKey, type KeyKind, type Scope } from "../../otp/keys/api-key.ts";
import { firstStart, noteOf, type Author } from "../../otp/operators/audit.ts";
import { defaultChannel, type Channel } from "../../otp/channel.ts";
import type { Limit } from "../../otp/limits/rate-limit.ts";
import type { Secret } from "../../otp/keys/secret.ts";
import type { Store } from "../../store/store.ts";
import type { Instant, System } from "../../system.ts";
import { createKeyCheck, type CallerAddress } from "./key-check.ts";
import type { OwnedKey } from "./tenants.ts";

export interface KeySpec {
  readonly kind: KeyKind;
  readonly tenant: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly expireMs: Instant | null;
  /** For a publishable key: the origins it lists, in canonical form, and whether apps may use it. */
  readonly origins?: readonly string[];
  readonly isApp?: boolean;
  /** The channels that it may use; SMS alone unless given. */
  readonly channels?: readonly Channel[];
}

/** A key to be stored, and its text, which is stored nowhere. */
export interface IssuedKey {
  readonly key: ApiKey;
  readonly text: Secret;
}

/** Makes a key and stores its digest. */
export async function issueKey(store: Store, system: System, spec: KeySpec, by?: Author): Promise<IssuedKey> {
  const issued = makeKey(store, system, spec);
  await store.registry.addApiKey(issued.key, noteOf(by, "api_key.create"));
  return issued;
}

/** Makes keys and stores their digests, all or none; undefined where the store has any key already. */
export async function issueFirstKeys(
  store: Store,
  system: System,
  specs: readonly KeySpec[],
): Promise<IssuedKey[] | undefined> {
  const issued = specs.map((spec) => makeKey(store, system, spec));
  const keys = issued.map(({ key }) => key);
  return (await store.registry.addFirstApiKeys(keys, noteOf(firstStart, "api_key.create"))) ? issued : undefined;
}

/** Makes a key that is not stored yet. */
export function makeKey(store: Store, system: System, spec: KeySpec): IssuedKey {
  const { id, text, digest } = makeApiKey(spec.kind, system.randomBytes(apiKeyBytes));
  const life = { createMs: store.now(), revokeMs: null, lastUseMs: null, lastRefuseMs: null };
  return { key: { origins: [], isApp: false, channels: [defaultChannel], ...spec, ...life, id, digest }, text };
}

/**
 * Keys of the process itself, for a page of its own: made at the start and gone with the process. They are never stored and
 * never printed, so no copy of the database has a trace of them.
 */
export interface OwnKeys {
  /** Makes a key, and returns its text. */
  make(spec: Pick<ApiKey, "kind" | "tenant" | "name" | "scopes" | "origins">): Secret;
  find(id: string): ApiKey | undefined;
}

/** `channels` are those that its keys may use. */
export function createOwnKeys(system: System, channels: readonly Channel[]): OwnKeys {
  const keys = new Map<string, ApiKey>();
  return {
    make(spec) {
      const { id, text, digest } = makeApiKey(spec.kind, system.randomBytes(apiKeyBytes));
      const life = { createMs: system.now(), expireMs: null, revokeMs: null, lastUseMs: null, lastRefuseMs: null };
      keys.set(id, { ...spec, ...life, id, digest, isApp: false, channels });
      return text;
    },
    find: keys.get.bind(keys),
  };
}

/** A key with the tenants' revision of its look-up, if it took one. */
export type CallersKey = ApiKey & Pick<OwnedKey, "tenantsRevision">;

export interface AuthenticateOptions {
  readonly store: Pick<Store, "now" | "registry">;
  readonly ownKeys?: OwnKeys;
  /** Refused keys from one address. */
  readonly failureLimit: Limit;
  readonly isShared: (address: CallerAddress) => boolean;
  readonly onFault: (error: unknown) => void;
}

/** Makes what authenticates callers by their keys. */
export function createAuthenticate({ store, ownKeys, failureLimit, isShared, onFault }: AuthenticateOptions) {
  return createKeyCheck<KeyKind, CallersKey>({
    now: store.now,
    kinds: keyKinds,
    findOwn: ownKeys?.find,
    find: store.registry.findApiKey,
    touch: (id, at) => store.registry.touchApiKey(id, at),
    noteRefused: (id, at) => store.registry.refuseApiKey(id, at),
    failureLimit,
    isShared,
    onFault,
  });
}
