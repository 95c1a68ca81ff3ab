/**
 * What operators do with tenants: make, change, disable and enable them. Each act writes its entry of the audit with its change.
 */
import { noteOf, type Author } from "../../otp/operators/audit.ts";
import { tenantsMax, type TenantRecord } from "../../otp/operators/tenant.ts";
import type { TenantDecided } from "../../store/registry.ts";
import type { Store } from "../../store/store.ts";

type WithRegistry = Pick<Store, "registry">;

/** Settings to store, if there are to be any, and what to tell. */
export interface Prepared<R> {
  /** As a record stores them. */
  readonly settings?: string;
  readonly result: R;
}

/** What came of making a tenant. */
export type Created<R> =
  | { readonly kind: "exists" }
  | { readonly kind: "too many" }
  | { readonly kind: "prepared"; readonly result: R };

/** Makes a tenant with the settings that are prepared. `prepare` is pure and may be run again. */
export function createTenant<R>(
  { registry }: WithRegistry,
  id: string,
  prepare: () => Prepared<R>,
  by: Author,
): Promise<Created<R>> {
  return registry.changeTenant(
    id,
    ({ tenant, count }): TenantDecided<Created<R>> => {
      if (tenant !== undefined) return { result: { kind: "exists" } };
      if (count >= tenantsMax) return { result: { kind: "too many" } };
      const { settings, result } = prepare();
      const decided = { kind: "prepared", result } as const;
      return settings === undefined ? { result: decided } : { keep: { settings, disableMs: null }, result: decided };
    },
    noteOf(by, "tenant.create"),
  );
}

/** Changes a tenant's settings to those that are prepared; undefined if there is none. `prepare` is pure and may be run again. */
export function updateTenant<R>(
  { registry }: WithRegistry,
  id: string,
  prepare: (record: TenantRecord) => Prepared<R>,
  by: Author,
): Promise<{ readonly result: R } | undefined> {
  return registry.changeTenant(
    id,
    ({ tenant }): TenantDecided<{ readonly result: R } | undefined> => {
      if (tenant === undefined) return { result: undefined };
      const { settings, result } = prepare(tenant);
      if (settings === undefined) return { result: { result } };
      return { keep: { settings, disableMs: tenant.disableMs }, result: { result } };
    },
    noteOf(by, "tenant.update"),
  );
}

/** Disables or enables a tenant; false if there is none. What changes nothing writes nothing. */
export function turnTenant(
  { registry }: WithRegistry,
  id: string,
  act: "disable" | "enable",
  by: Author,
): Promise<boolean> {
  return registry.changeTenant(
    id,
    ({ now, tenant }): TenantDecided<boolean> => {
      if (tenant === undefined) return { result: false };
      const { settings, disableMs: since } = tenant;
      const disableMs = act === "enable" ? null : (since ?? now);
      return disableMs === since ? { result: true } : { keep: { settings, disableMs }, result: true };
    },
    noteOf(by, `tenant.${act}`),
  );
}
