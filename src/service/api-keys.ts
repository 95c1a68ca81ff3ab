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
import { defaultChannel, type Channel } from "../otp/channel.ts";
import type { Limit } from "../otp/rate-limit.ts";
import { ok, type Result } from "../otp/reason.ts";
import type { Secret } from "../otp/secret.ts";
import type { Store } from "../store/store.ts";
import type { Instant, System } from "../system.ts";
import { createExpiryMap } from "./expiry-map.ts";
import { createCallLimit, unlimited } from "./call-limits.ts";
import type { OwnedKey } from "./tenants.ts";

/** The use of a key is recorded at most this often. */
const lastUseEveryMs = 60_000;

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
export async function issueKey(store: Store, system: System, spec: KeySpec): Promise<IssuedKey> {
  const issued = makeKey(store, system, spec);
  await store.registry.addApiKey(issued.key);
  return issued;
}

/** Makes keys and stores their digests, all or none; undefined where the store has any key already. */
export async function issueFirstKeys(
  store: Store,
  system: System,
  specs: readonly KeySpec[],
): Promise<IssuedKey[] | undefined> {
  const issued = specs.map((spec) => makeKey(store, system, spec));
  return (await store.registry.addFirstApiKeys(issued.map(({ key }) => key))) ? issued : undefined;
}

function makeKey(store: Store, system: System, spec: KeySpec): IssuedKey {
  const { id, text, digest } = makeApiKey(spec.kind, system.randomBytes(apiKeyBytes));
  const life = { createMs: store.now(), revokeMs: null, lastUseMs: null };
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
      const life = { createMs: system.now(), expireMs: null, revokeMs: null, lastUseMs: null };
      keys.set(id, { ...spec, ...life, id, digest, isApp: false, channels });
      return text;
    },
    find: (id) => keys.get(id),
  };
}

/** A key that was found valid is remembered for so long. */
const seenValidMs = 300_000;
/** So many of those are remembered. */
const seenValidMax = 10_000;
/** Headers whose keys are remembered, and their characters: a key has 68 at most, with its scheme. */
const headersMax = 4_096;
const headerCharsMax = 128;

/** A key that a header brought, and the name that its digest gives it. */
interface NamedKey extends PresentedKey {
  readonly name: string;
}

export interface AuthenticateOptions {
  readonly store: Pick<Store, "now" | "registry">;
  readonly ownKeys?: OwnKeys;
  /** Refused keys from one address. */
  readonly failureLimit: Limit;
  readonly isShared: (address: CallerAddress) => boolean;
  readonly onFault: (error: unknown) => void;
}

/** A key with the tenants' revision of its look-up, if it took one. */
export type CallersKey = ApiKey & Pick<OwnedKey, "tenantsRevision">;

/** Where a call comes from: the name that limits know it by, and the whole address where that is known. */
export interface CallerAddress {
  readonly name: string;
  readonly text: string | undefined;
}

/**
 * Makes what authenticates a call by its `Authorization` header. A key is looked up at every call, so a revocation by
 * another process counts at once. A malformed key is refused before any look-up. The process's own keys count beside
 * those of the store.
 *
 * Every refused key counts for its address, and beyond the limit keys from there are IP_RATE_LIMITED, before any look-up.
 * Never so a key that was valid in the last five minutes: a stranger behind the same address could have a backend
 * refused. From an address that many share, a well-formed key is looked up beyond the limit too, and only a wrong one is
 * refused: a stranger and a backend that has just started look the same there.
 */
export function createAuthenticate({ store, ownKeys, failureLimit, isShared, onFault }: AuthenticateOptions) {
  const failures = createCallLimit(failureLimit, "IP_RATE_LIMITED", () => store.now());
  /** Until when a key counts as seen valid, by its digest. */
  const seenValid = createExpiryMap(seenValidMax);
  /** Keys whose use is being recorded: many calls arrive before the first record is committed. */
  const recording = new Set<string>();
  const { read, remember } = createHeaders();
  /** Look-ups under way, by key. They share one permit, or the first calls of a busy backend would take them all. */
  const lookUps = new Map<string, number>();

  function recordUse(id: string, now: Instant): void {
    if (recording.has(id)) return;
    recording.add(id);
    store.registry
      .touchApiKey(id, now)
      .catch(onFault)
      .finally(() => recording.delete(id));
  }

  async function lookUp(presented: PresentedKey, now: Instant): Promise<Result<CallersKey>> {
    const own = ownKeys?.find(presented.id);
    if (own !== undefined) return judgeKey(presented, own, now);
    const judged = judgeKey(presented, await store.registry.findApiKey(presented.id), now);
    if (judged.ok && now - (judged.value.lastUseMs ?? 0) >= lastUseEveryMs) recordUse(judged.value.id, now);
    return judged;
  }

  async function authenticate(header: string | undefined, addressOf: () => CallerAddress): Promise<Result<CallersKey>> {
    const presented = read(header);
    if (!presented.ok) {
      const isKey = presented.refusal.reason !== "API_KEY_MISSING";
      const tooMany = isKey ? failures.take(addressOf().name).refusal : undefined;
      return tooMany === undefined ? presented : { ok: false, refusal: tooMany };
    }
    const now = store.now();
    const { name } = presented.value;
    if (seenValid.get(name) > now) {
      const judged = await lookUp(presented.value, now);
      seenValid.set(name, judged.ok ? now + seenValidMs : 0, now);
      if (judged.ok) remember(header, presented.value);
      else failures.take(addressOf().name);
      return judged;
    }
    const others = lookUps.get(name) ?? 0;
    const permit = others === 0 ? failures.take(addressOf().name) : unlimited;
    if (permit.refusal !== undefined && !isShared(addressOf())) return { ok: false, refusal: permit.refusal };
    lookUps.set(name, others + 1);
    let isRefused = false;
    try {
      const judged = await lookUp(presented.value, now);
      isRefused = !judged.ok;
      if (judged.ok) seenValid.set(name, now + seenValidMs, now);
      else if (permit.refusal !== undefined) return { ok: false, refusal: permit.refusal };
      else if (permit === unlimited) failures.take(addressOf().name);
      return judged;
    } finally {
      // A look-up that failed says nothing of the key.
      if (!isRefused) permit.giveBack();
      const left = (lookUps.get(name) ?? 1) - 1;
      if (left === 0) lookUps.delete(name);
      else lookUps.set(name, left);
    }
  }

  return {
    authenticate,
    /** Whether this is a secret key that was valid in the last five minutes. No look-up. */
    wasValid(header: string | undefined): boolean {
      const presented = read(header);
      return presented.ok && !isPublishable(presented.value.kind) && seenValid.get(presented.value.name) > store.now();
    },
  };
}

/** Reads keys out of headers, and remembers some: to read one again would take a twentieth of a call. */
function createHeaders() {
  const known = new Map<string, NamedKey>();
  return {
    read(header: string | undefined): Result<NamedKey> {
      const remembered = header === undefined ? undefined : known.get(header);
      if (remembered !== undefined) return ok(remembered);
      const presented = parseAuthorization(header);
      if (!presented.ok) return presented;
      return ok({ ...presented.value, name: Buffer.from(presented.value.digest).toString("base64") });
    },
    /** Only of a valid key: strangers must not drive out what callers brought. */
    remember(header: string | undefined, key: NamedKey): void {
      if (header === undefined || header.length > headerCharsMax || known.has(header)) return;
      const [oldest] = known.keys();
      if (known.size >= headersMax && oldest !== undefined) known.delete(oldest);
      known.set(header, key);
    },
  };
}
