/**
 * The RPCs on what the pumping guard finds: suspected prefixes, why a destination is or would be blocked, how to
 * unblock it, and whether a tenant's guard enforces.
 */
import { GuardMode as ToldMode } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import type { Destination } from "../../otp/verification/destination.ts";
import type { KeyRing } from "../../otp/keys/key-ring.ts";
import { countryOfPrefix } from "../../otp/phone-number.ts";
import type { GuardMode } from "../../otp/limits/pumping-guard.ts";
import { ok } from "../../otp/reason.ts";
import type { TenantOf } from "../../otp/operators/tenant.ts";
import { isWholeNumber } from "../../service/operators/destinations.ts";
import { entrySentence, guardSentence } from "../../service/operators/prefix-words.ts";
import {
  entriesFor,
  explainPrefix,
  findNamed,
  findSuspects,
  liftBlock,
  savedBy,
  setGuard,
  type Named,
  type PrefixReport,
  type WithGuard,
} from "../../service/operators/prefixes.ts";
import type { Money } from "../../service/operators/statistics.ts";
import type { Store, SuspectKey } from "../../store/store.ts";
import { tenantListed, tenantMeant, type Asker } from "./asker.ts";
import { destinationShown, maskedFor } from "./destinations.ts";
import { timeField, type HandlersOf } from "./handlers.ts";
import { badField, notFound, refuseAdmin, type AdminResult } from "./refusal.ts";

export interface SuspectDependencies {
  readonly store: Store;
  readonly keys: KeyRing;
  readonly tenants: { readonly tenantOf: TenantOf; readonly refresh: () => Promise<void> };
  readonly withGuard: WithGuard;
  /** What a message to a country costs at most; undefined without a price. */
  readonly costTo: (country: string) => Money | undefined;
}

const longerMax = 100;
const pageMax = 100;
const pageUsual = 20;
const listedDecisionsMax = 10;

const modes = new Map<ToldMode, GuardMode | undefined>([
  [ToldMode.UNSPECIFIED, undefined],
  [ToldMode.OBSERVE, "observe"],
  [ToldMode.ENFORCE, "enforce"],
]);

export function suspectHandlers(
  dependencies: SuspectDependencies,
): HandlersOf<"listSuspects" | "explainDestination" | "unblock" | "setGuard"> {
  const { store, keys, tenants, withGuard } = dependencies;

  /** The mode of a tenant's guard as it is stored now. */
  async function modeOf(tenant: string): Promise<GuardMode> {
    await tenants.refresh();
    return tenants.tenantOf(tenant).policy.fraudGuard;
  }

  async function named(field: string, typed: string, asked: string, asker: Asker): Promise<AdminResult<Named>> {
    const tenant = tenantMeant(asker, asked);
    if (!tenant.ok) return tenant;
    if ((await store.registry.findTenant(tenant.value)) === undefined) return notFound;
    const read = await findNamed(store, tenant.value, typed);
    return read === undefined ? badField(field, "must be a number in E.164, or a + and 1 to 15 digits") : ok(read);
  }

  return {
    async listSuspects({ tenant: asked, pageSize, pageToken }, asker) {
      const tenant = tenantListed(asker, asked);
      if (!tenant.ok) return tenant;
      if (tenant.value !== undefined && (await store.registry.findTenant(tenant.value)) === undefined) return notFound;
      if (pageSize < 0 || pageSize > pageMax) return badField("page_size", `must be 0 to ${pageMax}`);
      const after = pageToken === "" ? undefined : placeOf(pageToken);
      if (pageToken !== "" && after === undefined) return badField("page_token", "must be as the page before had it");
      await tenants.refresh();
      const found = await findSuspects(store, { tenant: tenant.value, after, max: pageSize || pageUsual });
      const suspects = found.reports.map((report) => {
        const { fraudGuard } = tenants.tenantOf(report.tenant).policy;
        const shown = suspectShown(report, fraudGuard, dependencies.costTo);
        return { ...shown, decisions: shown.decisions.slice(0, listedDecisionsMax) };
      });
      return ok({ suspects, nextPageToken: found.next === undefined ? "" : tokenOf(found.next) });
    },

    async explainDestination({ destination, tenant: asked }, asker) {
      const meant = await named("destination", destination, asked, asker);
      if (!meant.ok) return meant;
      const { name } = meant.value;
      const mode = await modeOf(name.tenant);
      const { entry, longer: all } = await entriesFor(store, meant.value);
      const longer = all.slice(0, longerMax);
      await noteLook(store, asker, name.tenant, entry === undefined ? longer : [entry, ...longer]);
      const report = await explainPrefix(store, name);
      return ok({
        ...(report === undefined ? {} : { suspect: suspectShown(report, mode, dependencies.costTo) }),
        ...(entry === undefined ? {} : { entry: destinationShown(entry, asker) }),
        longer: longer.map((each) => destinationShown(each, asker)),
        sentence: sentenceOn({ entry: entry && maskedFor(asker, entry), report, mode }),
      });
    },

    async unblock({ prefix, tenant: asked }, asker) {
      const meant = await named("prefix", prefix, asked, asker);
      if (!meant.ok) return meant;
      const mode = await modeOf(meant.value.name.tenant);
      return ok(await liftBlock(store, meant.value, mode, { by: asker.author, keys }));
    },

    async setGuard({ tenant: asked, mode: wanted }, asker) {
      const tenant = tenantMeant(asker, asked);
      if (!tenant.ok) return tenant;
      if (!modes.has(wanted)) return badField("mode", "must be one that this server knows");
      const isBound = asker.tenant !== undefined;
      const may = (before: GuardMode, after: GuardMode) => !isBound || before === "observe" || after === "enforce";
      const change = { tenant: tenant.value, mode: modes.get(wanted), may };
      const set = await setGuard(store, change, withGuard, asker.author);
      if (set.kind === "set") return ok({ mode: toldMode(set.mode) });
      return set.kind === "no tenant" ? notFound : loosening;
    },
  };
}

/** What pumping costs is the operator's to pay. */
const loosening = refuseAdmin("SCOPE_MISSING", {
  message: "That a guard no longer enforces is for admins that are bound to no tenant.",
});

/** Where a page ends, as text. It tells nothing that the page did not, and gives nobody more than its tenant. */
function tokenOf({ latestMs, tenant, prefix }: SuspectKey): string {
  return Buffer.from(`${latestMs} ${tenant} ${prefix}`).toString("base64url");
}

function placeOf(token: string): SuspectKey | undefined {
  const text = Buffer.from(token.slice(0, 200), "base64url").toString();
  const [, latest, tenant, prefix] = /^(\d{1,15}) ([a-z0-9-]{1,40}) (\+\d{1,15})$/.exec(text) ?? [];
  if (latest === undefined || tenant === undefined || prefix === undefined) return undefined;
  return { latestMs: Number(latest), tenant, prefix };
}

/** Whole numbers are told to whom they may be told, and the audit tells of it. */
async function noteLook({ registry }: Store, asker: Asker, tenant: string, entries: readonly Destination[]) {
  const numbers = entries.filter(({ prefix }) => isWholeNumber(prefix)).length;
  if (numbers === 0 || !asker.scopes.includes("admin.phones")) return;
  const subject = `destinations: ${numbers} whole ${numbers === 1 ? "number" : "numbers"}`;
  await registry.addAudit({ by: asker.author, action: "phone.look" }, { tenant, subject });
}

interface Explained {
  readonly entry: Destination | undefined;
  readonly report: PrefixReport | undefined;
  readonly mode: GuardMode;
}

function sentenceOn({ entry, report, mode }: Explained): string {
  if (entry !== undefined) return entrySentence(entry);
  if (report === undefined) return "Nothing is known of this prefix: no send to it was judged in the last 30 days.";
  return `${report.prefix}••••: ${guardSentence(report, mode)}`;
}

function toldMode(mode: GuardMode): ToldMode {
  return mode === "enforce" ? ToldMode.ENFORCE : ToldMode.OBSERVE;
}

/** What is known of a prefix, as it is told. */
function suspectShown(report: PrefixReport, mode: GuardMode, costTo: SuspectDependencies["costTo"]) {
  const { tenant, prefix, record, decisions } = report;
  const { phase, sent, ended, verified, refused, untilMs } = record;
  const country = countryOfPrefix(prefix);
  const { messages, cost } = savedBy(report, costTo(country));
  return {
    tenant,
    prefix,
    country,
    phase,
    mode: toldMode(mode),
    sent,
    ended,
    verified,
    refused,
    savedMessages: BigInt(messages),
    ...(cost === undefined ? {} : { saved: { micros: BigInt(cost.micros), currency: cost.currency } }),
    ...timeField("untilTime", phase === "tripped" ? untilMs : undefined),
    decisions: decisions.map((decision) => ({
      ...timeField("time", decision.atMs),
      kind: decision.kind,
      ended: decision.ended,
      verified: decision.verified,
      refused: decision.refused,
      ...timeField("untilTime", decision.untilMs),
      enforced: decision.enforced,
    })),
  };
}
