/**
 * Keys: what each may do, when it was last used, and when it ends.
 */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { ApiKey } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { calling } from "../api.ts";
import { breakable, make, type Child } from "../dom.ts";
import * as format from "../format.ts";
import { may, type PageContext } from "../page.ts";
import { badge, button, load, section } from "../parts.ts";
import { table } from "../table.ts";
import { auditLink } from "./audit-link.ts";
import { createKey, revokeKey, rotateKey } from "./key-dialogs.ts";

/** The keys of a tenant, or of all; `tenant` is empty for all. */
export function keySection(context: PageContext, tenant: string): HTMLElement {
  const fill = () =>
    void load(
      body,
      context,
      (signal) => context.client.listApiKeys({ tenant }, calling(signal)),
      ({ apiKeys }) =>
        table("API keys", apiKeys, columnsFor(context, fill), "There is no key: whoever is to send needs one."),
    );
  const { part, body } = section(
    tenant === "" ? "Keys" : `Keys of ${tenant}`,
    may(context, "admin.write") && button("New key", () => createKey(context, tenant, fill)),
  );
  fill();
  return part;
}

function columnsFor(context: PageContext, again: () => void) {
  return [
    { head: "Name", cell: nameOf, sortBy: ({ name, id }: ApiKey) => name || id },
    { head: "Kind", cell: ({ kind, app }: ApiKey) => [kind, app && " (app)"], sortBy: ({ kind }: ApiKey) => kind },
    { head: "Tenant", cell: tenantOf, sortBy: tenantOf },
    { head: "May", kind: "words" as const, cell: ({ scopes }: ApiKey) => scopes.join(", ") },
    { head: "From", kind: "words" as const, cell: ({ origins }: ApiKey) => breakable(origins.join(", ")) },
    {
      head: "Last used",
      cell: lastUse,
      sortBy: usedAt,
    },
    { head: "Ends", cell: (key: ApiKey) => endOf(key, context.now()), sortBy: endsAt },
    {
      head: "Actions",
      cell: (key: ApiKey) =>
        may(context, "admin.write") &&
        key.revokeTime === undefined &&
        !hasEnded(key, context.now()) &&
        make(
          "div",
          { class: "tools" },
          // Only admins of no tenant make keys for admins.
          (key.kind !== "admin" || context.session.tenant === "") &&
            button("Rotate", () => rotateKey(context, key, again)),
          button("Revoke", () => revokeKey(context, key, again), "danger"),
        ),
    },
  ];
}

/** How old a key is matters where it was never used. */
function lastUse({ lastUseTime, createTime }: ApiKey): Child {
  if (lastUseTime !== undefined) return format.time(lastUseTime);
  return ["never", make("div", { class: "hint" }, `made ${format.time(createTime)}`)];
}

const tenantOf = ({ tenant }: ApiKey): string => (tenant === "" ? "all" : tenant);
/** One that was never used comes with the oldest. */
const usedAt = ({ lastUseTime }: ApiKey) => (lastUseTime === undefined ? 0 : timestampMs(lastUseTime));
const endsAt = ({ revokeTime, expireTime }: ApiKey) => {
  const end = revokeTime ?? expireTime;
  return end && timestampMs(end);
};

function nameOf({ name, id }: ApiKey): Child {
  return [name, " ", auditLink(id)];
}

function hasEnded({ expireTime }: ApiKey, now: number): boolean {
  return expireTime !== undefined && timestampMs(expireTime) <= now;
}

function endOf(key: ApiKey, now: number): Child {
  const { revokeTime, expireTime, lastRefuseTime } = key;
  // Somebody still has it.
  const tried = lastRefuseTime && make("div", { class: "hint" }, `tried ${format.time(lastRefuseTime)}`);
  if (revokeTime !== undefined) return [badge("revoked", "bad"), make("br"), format.time(revokeTime), tried];
  if (hasEnded(key, now)) return [badge("ended", "bad"), make("br"), format.time(expireTime), tried];
  return expireTime === undefined ? "never" : [format.time(expireTime), tried];
}
