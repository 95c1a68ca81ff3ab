/**
 * Keys of the process itself: made at the start for a page of its own, known to this process only, gone with it. They
 * are never stored and never printed, so a database that is copied or kept has no trace of them.
 */
import { apiKeyBytes, makeApiKey, type ApiKey } from "../otp/api-key.ts";
import type { Secret } from "../otp/secret.ts";
import type { System } from "../system.ts";

export interface OwnKeys {
  /** Makes a key, and returns its text. */
  make(wish: Pick<ApiKey, "kind" | "tenant" | "name" | "scopes" | "origins">): Secret;
  /** The key of that id, if it is one of these. */
  find(id: string): ApiKey | undefined;
}

export function createOwnKeys(system: System): OwnKeys {
  const keys = new Map<string, ApiKey>();
  return {
    make(wish) {
      const { id, text, digest } = makeApiKey(wish.kind, system.randomBytes(apiKeyBytes));
      const life = { createMs: system.now(), expireMs: null, revokeMs: null, lastUseMs: null };
      keys.set(id, { ...wish, ...life, id, digest, isApp: false });
      return text;
    },
    find: (id) => keys.get(id),
  };
}
