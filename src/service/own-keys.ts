/**
 * Keys of the process itself, for a page of its own: made at the start and gone with the process. They are never stored
 * and never printed, so no copy of the database has a trace of them.
 */
import { apiKeyBytes, makeApiKey, type ApiKey } from "../otp/api-key.ts";
import type { Secret } from "../otp/secret.ts";
import type { System } from "../system.ts";

export interface OwnKeys {
  /** Makes a key, and returns its text. */
  make(spec: Pick<ApiKey, "kind" | "tenant" | "name" | "scopes" | "origins">): Secret;
  /** The key of that id, if it is one of these. */
  find(id: string): ApiKey | undefined;
}

export function createOwnKeys(system: System): OwnKeys {
  const keys = new Map<string, ApiKey>();
  return {
    make(spec) {
      const { id, text, digest } = makeApiKey(spec.kind, system.randomBytes(apiKeyBytes));
      const life = { createMs: system.now(), expireMs: null, revokeMs: null, lastUseMs: null };
      keys.set(id, { ...spec, ...life, id, digest, isApp: false });
      return text;
    },
    find: (id) => keys.get(id),
  };
}
