/**
 * Verification: finds by number, id, first digits, state and time; and tells the story of one.
 */
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { VerificationSummary } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { Delivery, State } from "../../../gen/otp/v1/otp_service_pb.ts";
import { calling } from "../api.ts";
import { make, type Child } from "../dom.ts";
import * as format from "../format.ts";
import { may, type Page, type PageContext } from "../page.ts";
import { badge, button, filters, load, pager, section } from "../parts.ts";
import { table } from "../table.ts";
import { tenantField } from "../tenant-choice.ts";
import { stateBadge } from "./state-badge.ts";
import { erase, showStory } from "./story.ts";

const states = [
  ["", "All"],
  ...Object.entries(State)
    .filter(([name]) => name !== "UNSPECIFIED")
    .map(([name, value]) => [String(value), format.word(name)] as const),
] as const;

const refChars = 12;
/** More digits are a whole number. */
const prefixDigitsMax = 8;

type Search = Readonly<Record<string, string>>;

/** The latest search stays while the console is open: a number must not be in the address. */
let latest: Search = {};

export const verification: Page = {
  name: "verification",
  title: "Verifications",
  show(into, context) {
    const ref = context.query.get("ref");
    if (ref !== null && ref !== "") return showStory(into, context, ref);
    const choice = make("div", {});
    const found = section("Results");
    into.append(choice, found.part);
    const search = (values: Search) => {
      latest = values;
      showFound(found.body, context, values, "");
    };
    void load(
      choice,
      context,
      (signal) => tenantField(context, latest["tenant"], signal),
      (tenant) =>
        filters(
          "What to look for",
          [
            {
              name: "what",
              label: "Number, request or first digits",
              type: "search",
              value: latest["what"] ?? "",
              hint: "+31612345678, a request_id or its first 12 characters, or +31612 with a tenant. Empty for all.",
            },
            ...tenant,
            { name: "state", label: "State", options: states, value: latest["state"] ?? "" },
            { name: "from", label: "From", type: "datetime-local", value: latest["from"] ?? "" },
            { name: "to", label: "Before", type: "datetime-local", value: latest["to"] ?? "" },
            ...(may(context, "admin.phones")
              ? [
                  {
                    name: "whole",
                    label: "Show whole numbers (this goes into the audit)",
                    type: "checkbox",
                    value: "",
                  } as const,
                ]
              : []),
          ],
          "Search",
          (values) => {
            search(values);
            // There is one at most, and its story is what is asked for.
            if (kindOf(values) === "ref") context.go(linkTo((values["what"] ?? "").slice(0, refChars)));
          },
        ),
    );
    search(latest);
  },
};

function showFound(into: HTMLElement, context: PageContext, values: Search, pageToken: string): void {
  void load(
    into,
    context,
    async (signal) =>
      kindOf(values) === "neither"
        ? { verifications: [], nextPageToken: "" }
        : await context.client.findVerifications({ ...requestOf(values), pageToken }, calling(signal)),
    ({ verifications, nextPageToken }) => [
      kindOf(values) === "phone" && may(context, "admin.write") && numberTools(context, values),
      table("Verifications", verifications, columns, emptySentence(values, nextPageToken)),
      pager(pageToken, nextPageToken, (token) => showFound(into, context, values, token)),
    ],
  );
}

const whenEmpty = {
  all: "No verification is stored for this.",
  phone: `No verification of this number is stored. What is past its retention is gone. First digits of numbers are ${prefixDigitsMax} at most.`,
  prefix: "Nothing matches in the 24 hours looked through: give From or Before for others.",
  ref: "Nothing matches. What is past its retention is gone.",
  neither:
    "A number begins with + and its country code, such as +31612345678. A request_id has 22 characters, of which the first 12 do.",
};

function emptySentence(values: Search, next: string): string {
  return next === "" ? whenEmpty[kindOf(values)] : "Nothing on this page. There are more to look through.";
}

/** What was typed, with 00 for + and without what people put between digits. */
function numberIn({ what = "" }: Search): string | undefined {
  const digits = what.replaceAll(/[ ().-]/g, "").replace(/^00/, "+");
  return /^\+\d+$/.test(digits) ? digits : undefined;
}

function kindOf(values: Search): keyof typeof whenEmpty {
  const { what = "" } = values;
  if (what === "") return "all";
  const number = numberIn(values);
  if (number !== undefined) return number.length > prefixDigitsMax + 1 ? "phone" : "prefix";
  return /^[\w-]{12}(?:[\w-]{10})?$/.test(what) ? "ref" : "neither";
}

/** A search as the service takes it. `what` is a whole number, the first digits of one, or an id. */
function requestOf(values: Search) {
  const { what = "", tenant = "", state = "", from = "", to = "", whole = "" } = values;
  const kind = kindOf(values);
  const number = numberIn(values) ?? "";
  return {
    phone: kind === "phone" ? number : "",
    prefix: kind === "prefix" ? number : "",
    requestRef: kind === "ref" ? what.slice(0, refChars) : "",
    tenant,
    state: Number(state) as State,
    ...(from === "" ? {} : { from: timestampFromDate(new Date(from)) }),
    ...(to === "" ? {} : { to: timestampFromDate(new Date(to)) }),
    showPhones: whole === "on",
  };
}

const columns = [
  { head: "Asked for", cell: ({ createTime }: VerificationSummary) => format.time(createTime) },
  { head: "Request", cell: ({ requestRef }: VerificationSummary) => link(requestRef) },
  { head: "Number", cell: ({ phone }: VerificationSummary) => phone },
  { head: "Country", cell: ({ country }: VerificationSummary) => format.country(country) },
  { head: "State", cell: ({ state }: VerificationSummary) => stateBadge(state) },
  { head: "Delivery", cell: ({ delivery }: VerificationSummary) => format.enumWord(Delivery, delivery) },
  { head: "Channel", cell: ({ channel }: VerificationSummary) => channel },
  { head: "Codes typed", kind: "number" as const, cell: ({ attempts }: VerificationSummary) => attempts },
  { head: "Purpose", cell: ({ purpose }: VerificationSummary) => purpose },
  { head: "Tenant", cell: ({ tenant, test }: VerificationSummary) => [tenant, test && [" ", badge("test")]] },
];

/** What can be done with the number that was searched for, also where no verification of it is left. */
function numberTools(context: PageContext, values: Search): HTMLElement {
  const phone = numberIn(values) ?? "";
  const tenant = values["tenant"] ?? "";
  return make(
    "div",
    { class: "buttons" },
    button("Erase this number", () => erase({ phone, tenant }, context), "danger"),
  );
}

const linkTo = (ref: string) => `verification?ref=${encodeURIComponent(ref)}`;

function link(ref: string): Child {
  return make("a", { attributes: { href: `#/${linkTo(ref)}` } }, ref);
}
