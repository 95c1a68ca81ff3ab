/**
 * The acts on API keys: issue, list, revoke, and authenticate a call.
 */
import {
  apiKeyBytes,
  judgeKey,
  makeApiKey,
  parseAuthorization,
  type ApiKey,
  type KeyKind,
  type Scope,
} from "../otp/api-key.ts";
import type { Result } from "../otp/reason.ts";
import type { Secret } from "../otp/secret.ts";
import type { Store } from "../store/store.ts";
import type { Instant, System } from "../system.ts";
import type { OwnKeys } from "./own-keys.ts";

/** The use of a key is noted at most this often. */
const lastUseNoteMs = 60_000;

/** Makes a key and stores its digest. The text is in the answer, and nowhere else ever after. */
export async function issueKey(
  store: Store,
  system: System,
  wish: {
    readonly kind: KeyKind;
    readonly tenant: string;
    readonly name: string;
    readonly scopes: readonly Scope[];
    readonly expireMs: Instant | null;
  },
): Promise<{ key: ApiKey; text: Secret }> {
  const { id, text, digest } = makeApiKey(wish.kind, system.randomBytes(apiKeyBytes));
  const key: ApiKey = { ...wish, id, digest, createMs: store.now(), revokeMs: null, lastUseMs: null };
  await store.registry.addApiKey(key);
  return { key, text };
}

/**
 * Makes the function that authenticates a call by its `Authorization` header. A key is looked up at every call, so that
 * one revoked by another process counts at once; a malformed one is refused before any look-up. The process's own keys
 * are known to it beside those of the store.
 */
export function createAuthenticate(store: Store, onFault: (error: unknown) => void, ownKeys?: OwnKeys) {
  /** Notes under way: many calls arrive before the first note is committed. */
  const noting = new Set<string>();

  function noteUse(id: string, now: Instant): void {
    if (noting.has(id)) return;
    noting.add(id);
    store.registry
      .touchApiKey(id, now)
      .catch(onFault)
      .finally(() => noting.delete(id));
  }

  return async function authenticate(header: string | undefined): Promise<Result<ApiKey>> {
    const presented = parseAuthorization(header);
    if (!presented.ok) return presented;
    const now = store.now();
    const own = ownKeys?.find(presented.value.id);
    if (own !== undefined) return judgeKey(presented.value, own, now);
    const judged = judgeKey(presented.value, await store.registry.findApiKey(presented.value.id), now);
    if (judged.ok && now - (judged.value.lastUseMs ?? 0) >= lastUseNoteMs) noteUse(judged.value.id, now);
    return judged;
  };
}
