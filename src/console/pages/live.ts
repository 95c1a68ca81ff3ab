/**
 * Live: what happens on the instance that answers, as it happens. The page keeps the latest rows alone.
 */
import type { Activity, WatchActivityResponse } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { isBadQuestion, isGivenUp, sentenceOf } from "../api.ts";
import { make, type Child } from "../dom.ts";
import * as format from "../format.ts";
import type { Page, PageContext } from "../page.ts";
import { badge, button, filters, load, section } from "../parts.ts";
import { tenantField } from "../tenant-choice.ts";

const rowsMax = 200;
const againMs = 3_000;
const kinds = ["send", "resend", "fallback", "call", "report", "guess", "end", "refused", "fraud", "spend"];
const heads = ["Time", "What", "Outcome", "Phone", "Country", "Tenant", "Provider", "Verification"];

export const live: Page = {
  name: "live",
  title: "Live",
  show(into, context) {
    const { query, session, left } = context;
    const asked = {
      tenant: session.tenant === "" ? (query.get("tenant") ?? "") : "",
      kinds: [query.get("kind") ?? ""].filter((kind) => kinds.includes(kind)),
      country: query.get("country") ?? "",
    };
    const state = make("p", { class: "hint", attributes: { role: "status" } }, "Connecting…");
    const rows = make("tbody");
    const view = { state, rows, isPaused: false, omitted: 0n };
    const pause: HTMLButtonElement = button("Pause", () => {
      view.isPaused = !view.isPaused;
      pause.textContent = view.isPaused ? "Go on" : "Pause";
      state.textContent = view.isPaused ? "Paused: what happens meanwhile is not shown." : "Watching.";
    });
    const happening = section("As it happens", pause);
    const scroll = { tabindex: 0, role: "region", "aria-label": "Activities" };
    const head = heads.map((each) => make("th", { attributes: { scope: "col" } }, each));
    const table = make("table", {}, make("thead", {}, make("tr", {}, head)), rows);
    happening.body.append(state, make("div", { class: "scroll", attributes: scroll }, table));
    into.append(choice(context), happening.part);
    const run = async () => {
      try {
        for await (const answer of context.client.watchActivity(asked, { signal: left })) showBatch(view, answer);
      } catch (failure) {
        if (left.aborted || isGivenUp(failure)) return;
        // What was asked for is wrong, and stays so.
        const isOver = isBadQuestion(failure);
        state.textContent = `${sentenceOf(failure)}${isOver ? "" : " It is tried again."}`;
        if (isOver) return;
      }
      // A stream ends after some minutes.
      if (!left.aborted) setTimeout(go, againMs);
    };
    const go = () => void (left.aborted || run().catch(context.fail));
    go();
  },
};

interface View {
  readonly state: HTMLElement;
  readonly rows: HTMLElement;
  isPaused: boolean;
  omitted: bigint;
}

function showBatch(view: View, { activities, omitted }: WatchActivityResponse): void {
  if (view.isPaused) return;
  view.omitted += omitted;
  const more = view.omitted === 0n ? "" : ` ${format.count(view.omitted)} more happened than can be shown.`;
  const wait = view.rows.childElementCount + activities.length === 0 ? " Nothing has happened yet." : "";
  view.state.textContent = `Watching.${wait}${more}`;
  for (const activity of activities) view.rows.prepend(rowOf(activity));
  while (view.rows.childElementCount > rowsMax) view.rows.lastElementChild?.remove();
}

const tones: ReadonlyMap<string, "good" | "bad" | "warn"> = new Map([
  ["VERIFIED", "good"],
  ["LOCKED", "bad"],
  ["FAILED", "bad"],
  ["refused", "warn"],
  ["fraud", "bad"],
  ["spend", "bad"],
]);

function rowOf({ time, kind, outcome, phone, country, tenant, provider, requestRef }: Activity): HTMLElement {
  const link = (ref: string) =>
    make("a", { attributes: { href: `#/verification?${new URLSearchParams({ ref }).toString()}` } }, ref);
  const cells: readonly Child[] = [
    format.timeOfDay(time),
    badge(kind, tones.get(kind) ?? tones.get(outcome) ?? "plain"),
    outcome,
    phone,
    country,
    tenant,
    provider,
    requestRef === "" ? undefined : link(requestRef),
  ];
  return make(
    "tr",
    {},
    cells.map((cell) => make("td", {}, cell)),
  );
}

function choice(context: PageContext): HTMLElement {
  const place = make("div", {});
  const { query } = context;
  const any = [["", "All"], ...kinds.map((kind) => [kind, kind] as const)] as const;
  void load(
    place,
    context,
    (signal) => tenantField(context, query.get("tenant"), signal),
    (tenant) =>
      filters(
        "What to watch",
        [
          ...tenant,
          { name: "kind", label: "Kind", options: any, value: query.get("kind") ?? "" },
          { name: "country", label: "Country", value: query.get("country") ?? "", hint: "Two letters, such as NL." },
        ],
        "Watch",
        ({ country = "", ...values }) =>
          context.go(`live?${new URLSearchParams({ ...values, country: country.toUpperCase() }).toString()}`),
      ),
  );
  return place;
}
