/**
 * The RPCs on tenants. An admin of one tenant reads its own, and makes its settings stricter: it raises no cap and no limit.
 */
import { TenantView } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { ok } from "../../otp/reason.ts";
import { loosened } from "../../otp/operators/tenant-bounds.ts";
import { isTenantName, type Tenant, type TenantRecord } from "../../otp/operators/tenant.ts";
import { createTenant, turnTenant, updateTenant, type Prepared } from "../../service/operators/tenants.ts";
import type { Tenants } from "../../service/callers/tenants.ts";
import type { Store } from "../../store/store.ts";
import { sees, tenantListed, type Asker } from "./asker.ts";
import { timeField, type HandlersOf } from "./handlers.ts";
import { badField, notFound, refuseAdmin, type AdminResult } from "./refusal.ts";

/** How settings are read and told: configuration knows. All pure. */
export interface SettingsRules {
  readonly names: readonly string[];
  /** The tenant that a record describes. */
  read(record: StoredSettings): Tenant;
  /** What holds for a tenant, each with where it comes from. */
  held(record: TenantRecord): readonly HeldSetting[];
  /** Reads a change by names of settings. An empty value takes the tenant's own away. */
  change(record: StoredSettings, changes: Readonly<Record<string, string>>): SettingsChanged;
}

type StoredSettings = Pick<TenantRecord, "id" | "settings" | "disableMs">;

interface HeldSetting {
  readonly name: string;
  readonly value: string;
  readonly source: string;
  readonly fault: string;
}

type SettingsChanged =
  | {
      readonly ok: true;
      /** As a record stores them. */
      readonly settings: string;
      readonly tenant: Tenant;
      readonly warnings: readonly string[];
    }
  | { readonly ok: false; readonly faults: readonly { readonly setting: string; readonly rest: string }[] };

export interface TenantDependencies {
  readonly store: Store;
  readonly tenants: Pick<Tenants, "refresh" | "records">;
  readonly settings: SettingsRules;
}

/** The most of a page: with settings, of which texts may have 32 KiB, and of the basic view. */
const pageMax = 100;
const basicPageMax = 1_000;
const pageUsual = 50;
/** Faults that are told at once. */
const faultsMax = 10;

type TenantRpcs = "listTenants" | "createTenant" | "updateTenant" | "disableTenant" | "enableTenant";
type Change = AdminResult<{ readonly warnings: readonly string[] }>;

export function tenantHandlers({ store, tenants, settings: rules }: TenantDependencies): HandlersOf<TenantRpcs> {
  /** Looks at a change of a record, as an admin asks for it. */
  function prepare(record: StoredSettings, changes: Readonly<Record<string, string>>, asker: Asker): Prepared<Change> {
    const changed = rules.change(record, changes);
    if (!changed.ok) return { result: badSettings(changed.faults) };
    const looser = asker.tenant === undefined ? [] : loosened(rules.read(record), changed.tenant);
    if (looser.length > 0) return { result: raising(looser) };
    return { settings: changed.settings, result: ok({ warnings: changed.warnings }) };
  }

  const unknownIn = (changes: Readonly<Record<string, string>>) =>
    Object.keys(changes).every((name) => rules.names.includes(name))
      ? undefined
      : badField("settings", `must be of ${rules.names.join(", ")}`);

  /** A tenant as it is by now. */
  async function now(id: string): Promise<AdminResult<{ tenant: ReturnType<typeof shown> }>> {
    const record = await store.registry.findTenant(id);
    return record === undefined ? notFound : ok({ tenant: shown(record, rules.held(record)) });
  }

  async function turn(id: string, act: "disable" | "enable", { author }: Asker) {
    return (await turnTenant(store, id, act, author)) ? now(id) : notFound;
  }

  return {
    async listTenants({ tenant: asked, view, pageSize, pageToken }, asker) {
      const listed = tenantListed(asker, asked);
      if (!listed.ok) return listed;
      const isBasic = view === TenantView.BASIC;
      const max = isBasic ? basicPageMax : pageMax;
      if (pageSize < 0 || pageSize > max) return badField("page_size", `must be 0 to ${max} of this view`);
      if (pageToken !== "" && !isTenantName(pageToken))
        return badField("page_token", "must be as the page before had it");
      await tenants.refresh();
      const only = listed.value;
      const records = tenants.records().filter(({ id }) => (only === undefined || id === only) && id > pageToken);
      if (only !== undefined && pageToken === "" && records.length === 0) return notFound;
      const page = records.toSorted((a, b) => (a.id < b.id ? -1 : 1)).slice(0, pageSize === 0 ? pageUsual : pageSize);
      const told: ReturnType<typeof shown>[] = [];
      for (const record of page) {
        told.push(shown(record, isBasic ? [] : rules.held(record)));
        // To read a tenant's texts takes some milliseconds: calls go in between.
        if (!isBasic) await new Promise((resolve) => setImmediate(resolve));
      }
      return ok({ tenants: told, nextPageToken: page.length < records.length ? (page.at(-1)?.id ?? "") : "" });
    },

    async createTenant({ id, settings }, asker) {
      if (!isTenantName(id)) return badField("id", "must be 1 to 40 of a-z, 0-9 and -, and not begin with -");
      const unknown = unknownIn(settings);
      if (unknown !== undefined) return unknown;
      const none = { id, settings: "{}", disableMs: null };
      const created = await createTenant(store, id, () => prepare(none, settings, asker), asker.author);
      if (created.kind === "exists") return refuseAdmin("ALREADY_EXISTS", { field: "id" });
      if (created.kind === "too many") return refuseAdmin("TOO_MANY");
      return answer(created.result, id);
    },

    async updateTenant({ id, settings }, asker) {
      if (!sees(asker, id)) return notFound;
      const unknown = unknownIn(settings);
      if (unknown !== undefined) return unknown;
      if (Object.keys(settings).length === 0) return badField("settings", "must name one at least");
      const updated = await updateTenant(store, id, (record) => prepare(record, settings, asker), asker.author);
      return updated === undefined ? notFound : answer(updated.result, id);
    },

    disableTenant: ({ id }, asker) => turn(id, "disable", asker),
    enableTenant: ({ id }, asker) => turn(id, "enable", asker),
  };

  async function answer(changed: Change, id: string) {
    if (!changed.ok) return changed;
    const read = await now(id);
    return read.ok ? ok({ ...read.value, warnings: [...changed.value.warnings] }) : read;
  }
}

/** A tenant as it is told. The one that came with the database has no time of its making. */
function shown({ id, createMs, disableMs }: TenantRecord, settings: readonly HeldSetting[]) {
  const times = {
    ...timeField("createTime", createMs === 0 ? null : createMs),
    ...timeField("disableTime", disableMs),
  };
  return { id, ...times, settings: [...settings] };
}

/** All that is wrong with settings; the field is that of the first. */
function badSettings(faults: readonly { readonly setting: string; readonly rest: string }[]) {
  const sentences = faults.slice(0, faultsMax).map(({ setting, rest }) => `settings.${setting} ${rest}.`);
  const field = `settings.${faults[0]?.setting ?? ""}`;
  return refuseAdmin("INVALID_REQUEST", { field, message: sentences.join(" ") });
}

function raising(settings: readonly string[]) {
  const names = settings.join(", ");
  const message =
    names === "audience"
      ? "An admin of one tenant changes no audience: receipts in another's name would be believed there."
      : `An admin of one tenant raises no cap or limit: ${names} would be looser than it is.`;
  return refuseAdmin("SCOPE_MISSING", { field: `settings.${settings[0] ?? ""}`, message });
}
