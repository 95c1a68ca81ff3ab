/**
 * Audit: who did what, and when.
 */
import type { AuditEntry } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { calling } from "../api.ts";
import { make, type Child } from "../dom.ts";
import * as format from "../format.ts";
import type { Page, PageContext } from "../page.ts";
import { filters, load, pager, section, table } from "../parts.ts";

export const audit: Page = {
  name: "audit",
  title: "Audit",
  show(into, context) {
    const { query, go } = context;
    const { part, body } = section("What was done, the latest first");
    into.append(
      filters(
        "What to show",
        [
          { name: "actor", label: "Who", value: query.get("actor") ?? "", hint: "Such as key:… or cli." },
          { name: "action", label: "What", value: query.get("action") ?? "", hint: "Such as api_key.revoke." },
        ],
        "Show",
        (values) => go(`audit?${new URLSearchParams(values).toString()}`),
      ),
      part,
    );
    showPage(body, context, "");
  },
};

function showPage(into: HTMLElement, context: PageContext, pageToken: string): void {
  const asked = { actor: context.query.get("actor") ?? "", action: context.query.get("action") ?? "", pageToken };
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
  { head: "Change", kind: "words" as const, cell: change },
];

function change({ before, after }: AuditEntry): Child {
  if (before === "" && after === "") return "";
  const side = (name: string, json: string) => json !== "" && [make("h3", {}, name), make("pre", {}, pretty(json))];
  return make("details", {}, make("summary", {}, "Before and after"), side("Before", before), side("After", after));
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
