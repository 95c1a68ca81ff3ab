/**
 * The acts by which a database judges the configured master keys, and admits them.
 */
import type { Instant } from "../../system.ts";
import type { Engine } from "../engine.ts";
import { MasterKeyMismatch, type MasterKeyCheck, type MasterKeys } from "../registry.ts";
import { lock, query, queryEach, send } from "../statement.ts";

interface KnownKey {
  kid: number;
  key_check: Uint8Array;
}

const sql = {
  all: { name: "master-keys", text: `SELECT kid, key_check FROM master_keys` },
  /** Rows from before they bore a key's id may be any key's. */
  used: {
    name: "used-master-key",
    text: `SELECT kid FROM master_keys AS k WHERE kid = $1 AND (
        EXISTS (SELECT 1 FROM verifications AS v WHERE v.kid = k.kid)
        OR EXISTS (SELECT 1 FROM phones AS p WHERE p.kid = k.kid OR p.kid IS NULL)
        OR EXISTS (SELECT 1 FROM buckets AS b WHERE (b.kid = k.kid OR b.kid IS NULL) AND b.tat_ms > $2)
        OR EXISTS (SELECT 1 FROM webhook_endpoints AS w WHERE w.kid = k.kid)
        OR EXISTS (SELECT 1 FROM events AS e WHERE e.kid = k.kid)
      )`,
  },
  put: {
    name: "put-master-key",
    text: `INSERT INTO master_keys (kid, key_check, create_ms) VALUES ($1, $2, $3) ON CONFLICT (kid) DO NOTHING`,
  },
  delete: { name: "delete-master-key", text: `DELETE FROM master_keys WHERE kid = $1` },
} as const;

export function masterKeyActs(engine: Engine): MasterKeys {
  return {
    admitMasterKeys: (keys) =>
      engine.transact(function* () {
        yield* lock("master_keys");
        const now = engine.now();
        const missing = yield* missingOf(keys, now);
        yield* send(sql.delete, ...missing.map((kid) => [kid]));
        yield* send(sql.put, ...keys.slice(0, 1).map(({ kid, check }) => [kid, check, now]));
      }),
    hasMasterKey: async () => (await engine.query<KnownKey>(sql.all, [])).length > 0,
    judgeMasterKeys: (keys) =>
      engine.transact(function* () {
        yield* missingOf(keys, engine.now());
      }),
  };
}

/** The keys that the database knows, no longer needs and is not given. Throws where those that are given do not fit. */
function* missingOf(keys: readonly MasterKeyCheck[], now: Instant) {
  const known = yield* query<KnownKey>(sql.all);
  refuseStrange(keys, known);
  const missing = known.map(({ kid }) => kid).filter((kid) => keys.every((key) => key.kid !== kid));
  const used = yield* queryEach(
    sql.used,
    missing.map((kid) => [kid, now]),
  );
  if (used.length > 0) {
    throw new MasterKeyMismatch(
      "a master key that this database still needs is missing: keep old keys in the list, behind the current one, until requests under them are past their retention and wrong codes are 90 days old",
    );
  }
  return missing;
}

/** Throws unless each configured key has an id of its own, and those that the database knows are what it knows. */
function refuseStrange(keys: readonly MasterKeyCheck[], known: readonly KnownKey[]): void {
  const configured = new Map(keys.map((key) => [key.kid, key]));
  if (configured.size < keys.length) {
    // Also the same key twice: what is kept under its second place would be deleted as an older key's.
    throw new MasterKeyMismatch("two of the configured master keys are the same, or have the same id");
  }
  const familiar = known.filter(({ kid }) => configured.has(kid));
  if (familiar.some((row) => Buffer.compare(row.key_check, configured.get(row.kid)?.check ?? new Uint8Array()) !== 0)) {
    throw new MasterKeyMismatch(
      "a configured master key has the id of another key that this database was written with",
    );
  }
  if (known.length > 0 && familiar.length === 0) {
    throw new MasterKeyMismatch("this database was written with another master key");
  }
}
