/**
 * The acts on the keys of callers and of operators.
 */
import { adminKeyStory, keyStory } from "../../otp/operators/audit.ts";
import type { ApiKey } from "../../otp/keys/api-key.ts";
import type { Engine } from "../engine.ts";
import type { AdminKeys, ApiKeys } from "../registry.ts";
import { apiKeyColumns, apiKeyValues, neverMs, toApiKey, type ApiKeyRow } from "../rows/api-key.ts";
import { adminKeyColumns, adminKeyValues, toAdminKey, type AdminKeyRow } from "../rows/audit.ts";
import { list, lock, query, send, type Steps } from "../statement.ts";
import { keySteps } from "./key-table.ts";

const sql = {
  /** With the tenants' revision of the same moment: a call needs both. */
  find: {
    name: "api-key",
    text: `SELECT ${list(apiKeyColumns)}, (SELECT coalesce(max(revision), 0) FROM tenants) AS tenants_revision
      FROM api_keys WHERE id = $1`,
  },
  findAdmin: { name: "admin-key", text: `SELECT ${list(adminKeyColumns)} FROM admin_keys WHERE id = $1` },
  any: { name: "any-api-key", text: `SELECT 1 FROM api_keys LIMIT 1` },
  insertOrigin: {
    name: "insert-key-origin",
    text: `INSERT INTO key_origins (origin, end_ms, key_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
  },
  deleteOrigins: { name: "delete-key-origins", text: `DELETE FROM key_origins WHERE key_id = $1` },
  endOrigins: { name: "end-key-origins", text: `UPDATE key_origins SET end_ms = $1 WHERE key_id = $2` },
} as const;

export function apiKeyActs(engine: Engine): ApiKeys {
  const keys = keySteps<ApiKey, ApiKeyRow>(engine, {
    table: "api_keys",
    columns: apiKeyColumns,
    valuesOf: apiKeyValues,
    toKey: toApiKey,
    audited: (key) => ({ tenant: key.tenant, subject: key.id, after: keyStory(key) }),
  });

  return {
    findApiKey: (id) => engine.recall(sql.find, id, toCallersKey),
    addApiKey: (key, note) =>
      engine.transact(function* () {
        yield* keys.add(key, note);
        yield* addOrigins(key);
      }),
    addFirstApiKeys: (first, note) =>
      engine.transact(function* () {
        yield* lock("api_keys");
        if ((yield* query(sql.any)).length > 0) return false;
        for (const key of first) {
          yield* keys.add(key, note);
          yield* addOrigins(key);
        }
        return true;
      }),
    listApiKeys: keys.all,
    revokeApiKey: (id, now, note) =>
      engine.transact(function* () {
        yield* send(sql.deleteOrigins, [id]);
        return yield* keys.revoke(id, now, note);
      }),
    replaceApiKey: (id, replacement, note) =>
      engine.transact(function* () {
        const endMs = yield* keys.replace(id, replacement, note);
        if (endMs === undefined) return false;
        yield* send(sql.endOrigins, [endMs, id]);
        yield* addOrigins(replacement.next);
        return true;
      }),
    listsOrigin: (origin, now) => engine.listsOrigin(origin, now),
    touchApiKey: keys.touch,
    refuseApiKey: keys.noteRefused,
  };
}

function toCallersKey([row]: readonly (ApiKeyRow & { readonly tenants_revision: number })[]) {
  return row && { ...toApiKey(row), tenantsRevision: row.tenants_revision };
}

function addOrigins({ origins, expireMs, id }: ApiKey): Steps<void> {
  return send(sql.insertOrigin, ...origins.map((origin) => [origin, expireMs ?? neverMs, id]));
}

export function adminKeyActs(engine: Engine): AdminKeys {
  const keys = keySteps(engine, {
    table: "admin_keys",
    columns: adminKeyColumns,
    valuesOf: adminKeyValues,
    toKey: toAdminKey,
    audited: (key) => ({ tenant: key.tenant ?? "", subject: key.id, after: adminKeyStory(key) }),
  });

  return {
    async findAdminKey(id) {
      return (await engine.query<AdminKeyRow>(sql.findAdmin, [id])).map(toAdminKey)[0];
    },
    addAdminKey: (key, note) => engine.transact(() => keys.add(key, note)),
    listAdminKeys: keys.all,
    revokeAdminKey: (id, now, note) => engine.transact(() => keys.revoke(id, now, note)),
    replaceAdminKey: (id, replacement, note) =>
      engine.transact(function* () {
        return (yield* keys.replace(id, replacement, note)) !== undefined;
      }),
    touchAdminKey: keys.touch,
    refuseAdminKey: keys.noteRefused,
  };
}
