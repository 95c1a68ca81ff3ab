/**
 * Tenants and keys: the tenants, what holds for each and where it comes from, and the keys.
 */
import type { Setting, Tenant } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { calling } from "../api.ts";
import { make, type Child } from "../dom.ts";
import * as format from "../format.ts";
import { may, type Page, type PageContext } from "../page.ts";
import { attempt, badge, button, load, pager, section } from "../parts.ts";
import { table } from "../table.ts";
import { auditOf } from "./audit-link.ts";
import { keySection } from "./keys.ts";
import { changeSetting, createTenant, disableTenant } from "./tenant-dialogs.ts";

export const tenants: Page = {
  name: "tenants",
  title: "Tenants and keys",
  show(into, context) {
    const { session, query } = context;
    const one = session.tenant === "" ? (query.get("tenant") ?? "") : session.tenant;
    if (one === "") showAll(into, context);
    else showOne(into, context, one);
    into.append(keySection(context, one));
  },
};

const linkTo = (id: string) => `tenants?${new URLSearchParams({ tenant: id }).toString()}`;

function showAll(into: HTMLElement, context: PageContext): void {
  const fill = (pageToken = ""): void =>
    void load(
      body,
      context,
      (signal) => context.client.listTenants({ pageToken }, calling(signal)),
      (answer) => [
        table(
          "Tenants by name",
          answer.tenants,
          columnsFor(context, () => fill(pageToken)),
          "There is no tenant.",
        ),
        pager(pageToken, answer.nextPageToken, fill),
      ],
    );
  const { part, body } = section(
    "Tenants",
    may(context, "admin.write") && button("New tenant", () => createTenant(context, (id) => context.go(linkTo(id)))),
  );
  into.append(part);
  fill();
}

function columnsFor(context: PageContext, again: () => void) {
  return [
    {
      head: "Name",
      cell: ({ id }: Tenant) => make("a", { attributes: { href: `#/${linkTo(id)}` } }, id),
    },
    { head: "State", cell: stateOf },
    { head: "Made", cell: ({ createTime }: Tenant) => format.time(createTime) },
    {
      head: "Settings of its own",
      kind: "words" as const,
      cell: ({ settings }: Tenant): Child => {
        const own = settings.filter(({ source }) => source === "tenant").map(({ name }) => name);
        return own.length === 0 ? "none" : own.join(", ");
      },
    },
    { head: "Actions", cell: (tenant: Tenant) => toggle(context, tenant, again) },
  ];
}

function stateOf({ disableTime, settings }: Tenant): Child {
  const faults = settings.filter(({ fault }) => fault !== "").length;
  return [
    disableTime === undefined
      ? badge("active", "good")
      : [badge("disabled", "bad"), ` since ${format.time(disableTime)}`],
    faults > 0 && [" ", badge(faults === 1 ? "1 setting does not count" : `${faults} settings do not count`, "warn")],
  ];
}

/** Disables or enables: for admins of no tenant. */
function toggle(context: PageContext, { id, disableTime }: Tenant, again: () => void): Child {
  if (!may(context, "admin.write") || context.session.tenant !== "") return undefined;
  if (disableTime === undefined) return button("Disable", () => disableTenant(context, id, again), "danger");
  const enable: HTMLButtonElement = button(
    "Enable",
    () =>
      void attempt(context, enable, async () => {
        await context.client.enableTenant({ id }, calling(context.left));
        context.say(`${id} is enabled.`);
        again();
      }),
  );
  return enable;
}

function showOne(into: HTMLElement, context: PageContext, id: string): void {
  const fill = () =>
    void load(
      body,
      context,
      (signal) => context.client.listTenants({ tenant: id }, calling(signal)),
      ({ tenants: [tenant] }) =>
        tenant !== undefined && [
          make("div", { class: "tools" }, stateOf(tenant), toggle(context, tenant, fill), changedLink(id)),
          table(`What holds for ${id}`, tenant.settings, settingColumns(context, id, fill), "Nothing holds for it."),
        ],
    );
  const { part, body } = section(
    `Settings of ${id}`,
    context.session.tenant === "" && button("All tenants", () => context.go("tenants")),
  );
  into.append(part);
  fill();
}

function changedLink(id: string): Child {
  return make("a", { attributes: { href: auditOf(id) } }, "Who changed this");
}

function settingColumns(context: PageContext, id: string, again: () => void) {
  return [
    { head: "Setting", cell: ({ name }: Setting) => make("code", {}, name) },
    { head: "Value", kind: "words" as const, cell: valueOf },
    { head: "From", cell: sourceOf },
    {
      head: "Actions",
      cell: (setting: Setting): Child => {
        if (!may(context, "admin.write")) return undefined;
        // A receipt in another's name would be believed there, so an admin of one tenant never changes it.
        if (setting.name === "audience" && context.session.tenant !== "") return undefined;
        const change = button("Change", () => changeSetting(context, id, setting, again));
        change.setAttribute("aria-label", `Change ${setting.name}`);
        return change;
      },
    },
  ];
}

/** What stands for a setting without a value. */
const unset: ReadonlyMap<string, string> = new Map([
  ["texts", "those that come with the service"],
  ["countries", "all"],
  ["daily_cap", "none"],
  ["country_caps", "none"],
  ["daily_spend_cap", "none"],
  ["limits", "none"],
  ["origins", "any"],
]);

function valueOf({ name, value, source, fault }: Setting): Child {
  const isFile = name === "texts" && source !== "tenant" && source !== "default";
  const told = isFile ? "those of the operator's file" : value === "" ? (unset.get(name) ?? format.dash) : value;
  const texts = name === "texts" && value !== "";
  return [
    texts ? make("details", {}, make("summary", {}, "of its own"), make("pre", {}, value)) : told,
    fault !== "" && make("p", { class: "error" }, `Its own value does not count: it ${fault}.`),
  ];
}

function sourceOf({ source }: Setting): Child {
  if (source === "tenant") return badge("its own", "good");
  return source === "default" ? "default" : make("code", {}, source);
}
