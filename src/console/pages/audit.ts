/**
 * Audit: who did what, and when.
 */
import { timestampFromDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import type { AuditEntry } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { calling } from "../api.ts";
import { make, type Child } from "../dom.ts";
import * as format from "../format.ts";
import type { Page, PageContext } from "../page.ts";
import { filters, load, pager, section } from "../parts.ts";
import { table } from "../table.ts";
import { tenantField } from "../tenant-choice.ts";

/** What the page is asked by, in its address and of ListAudit. */
const asks = ["tenant", "actor", "action", "subject"] as const;
const times = ["from", "to"] as const;

export const audit: Page = {
  name: "audit",
  title: "Audit",
  show(into, context) {
    const { query, go } = context;
    const { part, body } = section("What was done, the latest first");
    const place = make("div", {});
    const value = (name: string) => query.get(name) ?? "";
    into.append(place, part);
    void load(
      place,
      context,
      (signal) => tenantField(context, query.get("tenant"), signal),
      (tenant) =>
        filters(
          "What to show",
          [
            ...tenant,
            { name: "actor", label: "Who", value: value("actor"), hint: "Such as user:ann, key:… or cli." },
            { name: "action", label: "What", value: value("action"), options: actionsWith(value("action")) },
            { name: "subject", label: "Of", value: value("subject"), hint: "Such as a key's id or a prefix." },
            { name: "from", label: "From", type: "datetime-local", value: value("from") },
            { name: "to", label: "Before", type: "datetime-local", value: value("to") },
          ],
          "Show",
          (values) => go(`audit?${new URLSearchParams(values).toString()}`),
        ),
    );
    showPage(body, context, "");
  },
};

/** What can be done, by name. A newer version may have more. */
export const actions = [
  "api_key.create",
  "api_key.revoke",
  "api_key.rotate",
  "console.link",
  "console.sign_in",
  "destination.allow",
  "destination.block",
  "destination.remove",
  "guard.lift",
  "guard.set",
  "phone.erase",
  "phone.look",
  "phone.reset",
  "provider.try",
  "tenant.create",
  "tenant.disable",
  "tenant.enable",
  "tenant.update",
  "verification.cancel",
  "webhook.create",
  "webhook.disable",
  "webhook.enable",
  "webhook.expire_secrets",
  "webhook.remove",
  "webhook.rotate",
  "webhook.test",
];

/** All of them as a choice, and what is asked for where that is none of them. */
function actionsWith(asked: string): (readonly [value: string, text: string])[] {
  const named = asked === "" || actions.includes(asked) ? actions : [...actions, asked];
  return [["", "All"], ...named.map((action) => [action, action] as const)];
}

function showPage(into: HTMLElement, context: PageContext, pageToken: string): void {
  const { query } = context;
  const named = Object.fromEntries(asks.map((name) => [name, query.get(name) ?? ""]));
  const within = times.map((name) => [name, new Date(query.get(name) ?? "")] as const);
  const period = within
    .filter(([, at]) => !Number.isNaN(at.getTime()))
    .map(([name, at]) => [name, timestampFromDate(at)]);
  const asked = { ...named, ...(Object.fromEntries(period) as Partial<Record<"from" | "to", Timestamp>>), pageToken };
  void load(
    into,
    context,
    (signal) => context.client.listAudit(asked, calling(signal)),
    ({ entries, nextPageToken }) => [
      table("Audit", entries, columns, "Nothing was done that matches."),
      pager(pageToken, nextPageToken, (token) => showPage(into, context, token)),
    ],
  );
}

const columns = [
  { head: "When", cell: ({ time }: AuditEntry) => format.time(time) },
  {
    head: "Who",
    cell: ({ actor, address }: AuditEntry) => [actor, address !== "" && make("div", { class: "hint" }, address)],
  },
  { head: "What", cell: ({ action }: AuditEntry) => action },
  { head: "Of", cell: ({ subject }: AuditEntry) => make("code", {}, subject) },
  { head: "Tenant", cell: ({ tenant }: AuditEntry) => tenant },
  { head: "Change", kind: "words" as const, cell: changed },
];

function changed({ before, after, change }: AuditEntry): Child {
  if (before === "" && after === "") return "";
  const side = (name: string, json: string) => json !== "" && [make("h3", {}, name), make("pre", {}, pretty(json))];
  return make(
    "details",
    {},
    make("summary", {}, change === "" ? "Before and after" : format.told(change)),
    side("Before", before),
    side("After", after),
  );
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
