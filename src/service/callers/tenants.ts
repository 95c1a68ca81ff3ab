/**
 * The tenants as a server knows them: all in memory, and read again when the store's revision has changed. So what the
 * command line writes counts from the next call on, and a call costs one look at the revision.
 */
import { ok, refuse, type Result } from "../../otp/reason.ts";
import { isSandbox, realTenantOf, sandboxOf } from "../../otp/message/sandbox.ts";
import type { Tenant, TenantOf, TenantRecord } from "../../otp/operators/tenant.ts";
import type { Store } from "../../store/store.ts";

export interface TenantsOptions {
  readonly store: Store;
  /** Makes the tenant that a record describes. It reports faults of a record itself, and does without those settings. */
  readonly read: (record: Pick<TenantRecord, "id" | "settings" | "disableMs">) => Tenant;
}

export interface OwnedKey {
  readonly tenant: string;
  /** The tenants' revision when it was looked up, which may spare a look; undefined where that is not known. */
  readonly tenantsRevision?: number;
  /** Where a publishable key may be used from. */
  readonly origins: readonly string[];
}

export interface Tenants {
  /**
   * The tenant of this id as of the latest refresh, or that of a sandbox. One that another server has just made, and this
   * one does not know yet, has the operator's settings.
   */
  readonly tenantOf: TenantOf;
  /** All there are as of the latest refresh, in no order. */
  records(): readonly TenantRecord[];
  /** Reads what has changed. Rejects with StoreUnavailable, and then nothing has changed here. */
  refresh(): Promise<void>;
  /**
   * Refuses a key as API_KEY_REVOKED while its tenant is disabled, and keeps those of its origins that are its tenant's.
   * A refusal is returned as it is.
   */
  admit<Key extends OwnedKey>(judged: Result<Key>): Promise<Result<Key>>;
}

export function createTenants({ store, read }: TenantsOptions): Tenants {
  const records = new Map<string, TenantRecord>();
  /** Tenants and sandboxes that were asked for: to read texts takes milliseconds, and most tenants are idle. */
  const made = new Map<string, Tenant>();
  let revision = -1;

  async function refresh(): Promise<void> {
    if ((await store.registry.tenantsRevision()) === revision) return;
    for (const record of await store.registry.listTenants(revision)) {
      // Another refresh may have been quicker, and have read later.
      if (record.revision < (records.get(record.id)?.revision ?? 0)) continue;
      records.set(record.id, record);
      made.delete(record.id);
      made.delete(sandboxOf(record.id));
      revision = Math.max(revision, record.revision);
    }
  }

  function tenantOf(id: string): Tenant {
    const known = made.get(id);
    if (known !== undefined) return known;
    if (isSandbox(id)) return remember(id, { ...tenantOf(realTenantOf(id)), id });
    const record = records.get(id);
    return record === undefined
      ? read({ id, settings: "{}", disableMs: null })
      : remember(id, { ...read(record), hasWebhooks: record.hasWebhooks === true });
  }

  function remember(id: string, tenant: Tenant): Tenant {
    // Not for an unknown tenant: its sandbox would stay as it is after the tenant became known.
    if (records.has(realTenantOf(id))) made.set(id, tenant);
    return tenant;
  }

  return {
    tenantOf,
    records: () => [...records.values()],
    refresh,
    async admit(judged) {
      if (!judged.ok) return judged;
      // Not as of before the key's look-up: a tenant is there before its keys are.
      if ((judged.value.tenantsRevision ?? (await store.registry.tenantsRevision())) !== revision) await refresh();
      const { isDisabled, origins } = tenantOf(judged.value.tenant);
      if (isDisabled) return refuse("API_KEY_REVOKED");
      if (origins === undefined) return judged;
      return ok({ ...judged.value, origins: judged.value.origins.filter((origin) => origins.has(origin)) });
    },
  };
}
