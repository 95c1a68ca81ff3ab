/**
 * The acts on API keys.
 */
import type { ApiKey } from "../../otp/api-key.ts";
import type { Engine } from "../engine.ts";
import type { ApiKeys } from "../registry.ts";
import { apiKeyColumns, apiKeyValues, neverMs, toApiKey, type ApiKeyRow } from "../rows/api-key.ts";
import { list, lock, query, send, valuesOf, type Steps } from "../statement.ts";

const sql = {
  /** With the tenants' revision of the same moment: a call needs both. */
  find: {
    name: "api-key",
    text: `SELECT ${list(apiKeyColumns)}, (SELECT coalesce(max(revision), 0) FROM tenants) AS tenants_revision
      FROM api_keys WHERE id = $1`,
  },
  all: { name: "api-keys", text: `SELECT ${list(apiKeyColumns)} FROM api_keys ORDER BY create_ms, id` },
  any: { name: "any-api-key", text: `SELECT 1 FROM api_keys LIMIT 1` },
  insert: {
    name: "insert-api-key",
    text: `INSERT INTO api_keys (${list(apiKeyColumns)}) VALUES (${valuesOf(apiKeyColumns)})`,
    changesRecalled: true,
  },
  revoke: {
    name: "revoke-api-key",
    text: `UPDATE api_keys SET revoke_ms = coalesce(revoke_ms, $1) WHERE id = $2 RETURNING id`,
    changesRecalled: true,
  },
  touch: { name: "touch-api-key", text: `UPDATE api_keys SET last_use_ms = $1 WHERE id = $2`, changesRecalled: true },
  listsOrigin: {
    name: "lists-origin",
    text: `SELECT 1 FROM key_origins WHERE origin = $1 AND end_ms > $2 LIMIT 1`,
  },
  insertOrigin: {
    name: "insert-key-origin",
    text: `INSERT INTO key_origins (origin, end_ms, key_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
  },
  deleteOrigins: { name: "delete-key-origins", text: `DELETE FROM key_origins WHERE key_id = $1` },
} as const;

export function apiKeyActs(engine: Engine): ApiKeys {
  return {
    async findApiKey(id) {
      const [row] = await engine.recall<ApiKeyRow & { readonly tenants_revision: number }>(sql.find, [id]);
      return row && { ...toApiKey(row), tenantsRevision: row.tenants_revision };
    },
    addApiKey: (key) => engine.transact(() => add(key)),
    addFirstApiKeys: (keys) =>
      engine.transact(function* () {
        yield* lock("api_keys");
        if ((yield* query(sql.any)).length > 0) return false;
        for (const key of keys) yield* add(key);
        return true;
      }),
    async listApiKeys() {
      return (await engine.query<ApiKeyRow>(sql.all, [])).map(toApiKey);
    },
    revokeApiKey: (id, now) =>
      engine.transact(function* () {
        yield* send(sql.deleteOrigins, [id]);
        return (yield* query(sql.revoke, [now, id])).length === 1;
      }),
    async listsOrigin(origin, now) {
      return (await engine.query(sql.listsOrigin, [origin, now])).length === 1;
    },
    async touchApiKey(id, now) {
      await engine.write(sql.touch, [now, id]);
    },
  };
}

function* add(key: ApiKey): Steps<void> {
  yield* send(sql.insert, apiKeyValues(key));
  yield* send(sql.insertOrigin, ...key.origins.map((origin) => [origin, key.expireMs ?? neverMs, key.id]));
}
