/**
 * The registry on SQLite: what operators write.
 */
import type { ApiKey } from "../../otp/api-key.ts";
import { prefixDigitsMax, prefixesOf, type Destination } from "../../otp/destination.ts";
import type { Instant } from "../../system.ts";
import { toDestination, toTenant } from "../rows/tenant.ts";
import { neverMs, toApiKey } from "../rows/api-key.ts";
import { judgeMasterKeys, type Registry } from "../registry.ts";
import type { prepare } from "./statements.ts";

/**
 * The longest entry that a number begins with. Most tenants have none, which costs 1 µs to find out; the statement over
 * the prefixes costs 20.
 */
export function longestDestination(
  sql: ReturnType<typeof prepare>,
  tenant: string,
  e164: string,
): Destination | undefined {
  if (sql.anyDestination.get(tenant) === undefined) return undefined;
  const prefixes = prefixesOf(e164);
  // No entry is empty: the places that a short number leaves match nothing.
  const rest = Array<string>(prefixDigitsMax - prefixes.length).fill("");
  const row = sql.longestDestination.get(tenant, ...prefixes, ...rest);
  return row === undefined ? undefined : toDestination(row);
}

/**
 * `act` runs a write within the next transaction, `read` a read on what is committed. Gives also what runs another's write
 * that what is remembered here may be about, and what has it forgotten.
 */
export function createRegistry(
  sql: ReturnType<typeof prepare>,
  act: <T>(run: (now: Instant) => T) => Promise<T>,
  read: <T>(run: () => T) => T,
): {
  registry: Registry;
  changing: <T>(run: (now: Instant) => T) => Promise<T>;
  forget: () => void;
} {
  /** What every call asks for, as it was read last. True until somebody writes. */
  const apiKeys = new Map<string, ApiKey>();
  let revision: number | undefined;
  let version: number | undefined;
  let isCurrent = false;

  function forget(): void {
    apiKeys.clear();
    revision = undefined;
  }

  /**
   * Runs a read that may use what is remembered. One pragma tells whether another process has written since; it is asked
   * once in each turn of the event loop, for all the calls that arrived together.
   */
  function remembering<T>(run: () => T): T {
    return read(() => {
      if (isCurrent) return run();
      const latest = sql.dataVersion.get()?.data_version;
      if (latest !== version) forget();
      version = latest;
      isCurrent = true;
      setImmediate(() => (isCurrent = false));
      return run();
    });
  }

  /** Runs a write that what is remembered may be about. This connection's own writes do not change its data_version. */
  function changing<T>(run: (now: Instant) => T): Promise<T> {
    return act((now) => {
      forget();
      return run(now);
    }).finally(forget);
  }

  function addApiKey(key: ApiKey): void {
    const { id, kind, tenant, name, scopes, origins, isApp, digest, createMs, expireMs } = key;
    const [granted, listed] = [scopes.join(" "), origins.join(" ")];
    sql.insertApiKey.run(id, kind, tenant, name, granted, listed, isApp ? 1 : 0, digest, createMs, expireMs);
    for (const origin of origins) sql.insertKeyOrigin.run(origin, expireMs ?? neverMs, id);
  }

  const registry: Registry = {
    async findApiKey(id) {
      return remembering(() => {
        const known = apiKeys.get(id);
        if (known !== undefined) return known;
        const row = sql.apiKey.get(id);
        if (row === undefined) return undefined;
        const key = toApiKey(row);
        apiKeys.set(id, key);
        return key;
      });
    },

    addApiKey(key) {
      return changing(() => addApiKey(key));
    },

    addFirstApiKeys(keys) {
      return changing(() => {
        if (sql.apiKeys.get() !== undefined) return false;
        keys.forEach(addApiKey);
        return true;
      });
    },

    async listApiKeys() {
      return read(() => sql.apiKeys.all().map(toApiKey));
    },

    revokeApiKey(id, now) {
      return changing(() => {
        const row = sql.apiKey.get(id);
        if (row === undefined) return false;
        const { origins, expireMs } = toApiKey(row);
        for (const origin of origins) sql.deleteKeyOrigin.run(origin, expireMs ?? neverMs, id);
        return sql.revokeApiKey.run(now, id).changes === 1;
      });
    },

    async listsOrigin(origin, now) {
      return read(() => sql.listsOrigin.get(origin, now) !== undefined);
    },

    touchApiKey(id, now) {
      return changing(() => void sql.touchApiKey.run(now, id));
    },

    async findTenant(id) {
      return read(() => {
        const row = sql.tenant.get(id);
        return row === undefined ? undefined : toTenant(row);
      });
    },

    async listTenants(afterRevision) {
      return read(() => sql.tenantsAfter.all(afterRevision).map(toTenant));
    },

    async tenantsRevision() {
      return remembering(() => (revision ??= sql.tenantsRevision.get()?.revision ?? 0));
    },

    changeTenant(id, decide) {
      return changing((now) => {
        const row = sql.tenant.get(id);
        const tenant = row === undefined ? undefined : toTenant(row);
        const { keep, result } = decide({ now, tenant, count: sql.tenantCount.get()?.count ?? 0 });
        // One writer at a time, so that no revision is seen before a lower one.
        if (keep !== undefined) sql.putTenant.run(id, tenant?.createMs ?? now, keep.settings, keep.disableMs);
        return result;
      });
    },

    putDestination({ tenant, prefix, verdict, note, createMs }) {
      return act(() => sql.putDestination.run(prefix, verdict, note, createMs, tenant).changes === 1);
    },

    removeDestination(tenant, prefix) {
      return act(() => sql.deleteDestination.run(tenant, prefix).changes === 1);
    },

    async listDestinations(tenant) {
      return read(() => sql.destinations.all(tenant).map(toDestination));
    },

    async findDestination(tenant, e164) {
      return read(() => longestDestination(sql, tenant, e164));
    },

    admitMasterKeys(keys) {
      return act((now) => {
        const isUsed = (kid: number) => sql.usesMasterKey.get({ kid, now }) !== undefined;
        for (const kid of judgeMasterKeys(keys, sql.masterKeys.all(), isUsed)) sql.deleteMasterKey.run(kid);
        for (const { kid, check } of keys.slice(0, 1)) sql.putMasterKey.run(kid, check, now);
      });
    },
  };
  return { registry, changing, forget };
}
