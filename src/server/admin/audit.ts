/**
 * ListAudit: what was written and looked at. An admin of one tenant reads what was done to that tenant; of operators'
 * acts the admin reads that they happened, and not who did them.
 */
import type { AuditEntry } from "../../otp/operators/audit.ts";
import { changeText } from "../../otp/operators/audit-words.ts";
import { ok } from "../../otp/reason.ts";
import { readAudit } from "../../service/operators/audit.ts";
import type { AuditKey } from "../../store/registry.ts";
import type { Store } from "../../store/store.ts";
import { tenantListed, type Asker } from "./asker.ts";
import { periodAsked, timeField, type HandlersOf } from "./handlers.ts";
import { badField, notFound } from "./refusal.ts";

const pageMax = 100;
const pageUsual = 50;
const newest = Number.MAX_SAFE_INTEGER;

export function auditHandlers({ store }: { readonly store: Store }): HandlersOf<"listAudit"> {
  return {
    async listAudit({ tenant, actor, action, subject, from, to, pageSize, pageToken }, asker) {
      const listed = tenantListed(asker, tenant);
      if (!listed.ok) return listed;
      const { value: only } = listed;
      if (only !== undefined && (await store.registry.findTenant(only)) === undefined) return notFound;
      if (pageSize < 0 || pageSize > pageMax) return badField("page_size", `must be 0 to ${pageMax}`);
      const period = periodAsked({ from, to });
      if (!period.ok) return period;
      const after = placeOf(pageToken);
      if (after === null) return badField("page_token", "must be as the page before had it");
      const { entries, next } = await readAudit(store, {
        tenant: only ?? "",
        actor,
        action,
        subject,
        // Else an operator's name could be asked for until it is found.
        actorTenant: asker.tenant !== undefined && actor !== "" ? asker.tenant : "",
        fromMs: period.value.fromMs ?? 0,
        toMs: period.value.toMs ?? newest,
        after,
        max: pageSize === 0 ? pageUsual : pageSize,
      });
      const nextPageToken = next === undefined ? "" : `${next.atMs}.${next.id}`;
      return ok({ entries: entries.map((entry) => shown(entry, asker)), nextPageToken });
    },
  };
}

/** Where a page begins; undefined for the first, null for what no page had. */
function placeOf(token: string): AuditKey | undefined | null {
  if (token === "") return undefined;
  const [, atMs, id] = /^(\d{1,15})\.(\d{1,15})$/.exec(token) ?? [];
  return id === undefined ? null : { atMs: Number(atMs), id: Number(id) };
}

function shown(entry: AuditEntry, asker: Asker) {
  const { atMs, action, tenant, subject, before, after } = entry;
  const isOwn = asker.tenant === undefined || entry.actorTenant === asker.tenant;
  const who = isOwn ? { actor: entry.actor, address: entry.address } : { actor: "operator", address: "" };
  return { ...timeField("time", atMs), ...who, action, tenant, subject, before, after, change: changeText(entry) };
}
