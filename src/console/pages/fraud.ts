/**
 * Fraud: prefixes that are refused or would be, why, and the lists of destinations. A number that is typed here stays out of
 * the address.
 */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import {
  GuardMode,
  type Destination,
  type ExplainDestinationResponse,
  type GuardDecision,
  type Suspect,
} from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { calling } from "../api.ts";
import { ask } from "../dialog.ts";
import { make, type Child } from "../dom.ts";
import * as format from "../format.ts";
import { may, type Page, type PageContext } from "../page.ts";
import { attempt, badge, button, facts, filters, load, pager, section } from "../parts.ts";
import { table } from "../table.ts";
import { tenantField } from "../tenant-choice.ts";
import { guardPart, readGuard } from "./guard.ts";

/** The page with its parts, each of which can be shown anew. */
interface View {
  readonly context: PageContext;
  readonly tenant: string;
  readonly again: () => void;
  readonly explain: (destination: string, tenant: string) => void;
}

export const fraud: Page = {
  name: "fraud",
  title: "Fraud",
  show(into, context) {
    const { query, session, client } = context;
    const tenant = session.tenant === "" ? (query.get("tenant") ?? "") : session.tenant;
    const named = tenant === "" ? "default" : tenant;
    const suspects = section("Suspects");
    const guard = section(`The guard of ${named}`);
    const about = section("Why is a destination refused?");
    const lists = section(`Lists of ${named}`, may(context, "admin.write") && listButtons());
    const answer = make("div", { attributes: { "aria-live": "polite" } });
    const view: View = { context, tenant, again, explain };

    function explain(destination: string, of: string): void {
      const asked = { destination, tenant: of };
      const askAgain = { ...view, again: () => (again(), explain(destination, of)) };
      void load(
        answer,
        context,
        (signal) => client.explainDestination(asked, calling(signal)),
        (found) => explained(found, { ...askAgain, tenant: of }),
      );
    }
    function listButtons(): Child {
      return [
        button("Block", () => put("block", "", view)),
        mayAllow(context) && button("Allow", () => put("allow", "", view)),
      ];
    }
    function again(): void {
      showSuspects("");
      void load(
        guard.body,
        context,
        (signal) => readGuard(view, signal),
        (mode) => guardPart(mode, view),
      );
      void load(
        lists.body,
        context,
        (signal) => client.listDestinations({ tenant }, calling(signal)),
        ({ destinations }) => listTable("Entries of the lists", destinations, view),
      );
    }
    function showSuspects(pageToken: string): void {
      void load(
        suspects.body,
        context,
        (signal) => client.listSuspects({ tenant, pageToken }, calling(signal)),
        (found) => [
          // Of a list of several pages one page says nothing when it is sorted.
          suspectTable(found.suspects, view, pageToken === "" && found.nextPageToken === ""),
          found.suspects.length > 0 && make("p", { class: "hint" }, aboutProbes),
          pager(pageToken, found.nextPageToken, showSuspects),
        ],
      );
    }

    about.body.append(
      filters(
        "Explain a destination",
        [
          {
            name: "destination",
            label: "Number or prefix",
            type: "tel",
            value: query.get("prefix") ?? "",
            isRequired: true,
          },
        ],
        "Explain",
        ({ destination = "" }) => explain(destination, tenant),
      ),
      answer,
    );
    into.append(choice(context, tenant), suspects.part, about.part, guard.part, lists.part);
    again();
    const prefix = query.get("prefix");
    if (prefix !== null) explain(prefix, tenant);
  },
};

const aboutProbes =
  "A probe is a send that a block lets through once its time is over: if its code is typed, the block ends.";

/** The tenant to look at, for who may look at all. */
function choice(context: PageContext, tenant: string): HTMLElement {
  const place = make("div", {});
  if (context.session.tenant !== "") return place;
  void load(
    place,
    context,
    (signal) => tenantField(context, tenant, signal),
    (fields) =>
      filters("What to show", fields, "Show", (values) =>
        context.go(`fraud?${new URLSearchParams(values).toString()}`),
      ),
  );
  return place;
}

function suspectTable(suspects: readonly Suspect[], view: View, isWhole: boolean): HTMLElement {
  const sortable = <By extends (suspect: Suspect) => string | number | undefined>(sortBy: By) =>
    isWhole ? { sortBy } : {};
  return table(
    "Suspects",
    suspects,
    [
      {
        head: "Prefix",
        cell: ({ prefix, country }) => [make("code", {}, `${prefix}••••`), ` ${placeOf(country)}`],
        ...sortable(({ prefix }) => prefix),
      },
      { head: "Tenant", cell: ({ tenant }) => linkTo(tenant, view), ...sortable(({ tenant }) => tenant) },
      {
        head: "Now",
        cell: (suspect) => [
          phaseOf(suspect, view.context.now()),
          make("div", { class: "hint" }, `since ${format.time(sinceOf(suspect))}`),
        ],
        ...sortable(sinceMsOf),
      },
      { head: "Verified", kind: "number", cell: verifiedOf },
      {
        head: savedHead(suspects),
        kind: "number",
        cell: savedOf,
        ...sortable(({ savedMessages }) => Number(savedMessages)),
      },
      {
        head: "Last decision",
        kind: "words",
        cell: ({ decisions: [latest] }) => latest && [words(latest), make("br"), format.time(latest.time)],
      },
      {
        head: "Actions",
        cell: ({ prefix, tenant }) =>
          make(
            "div",
            { class: "tools" },
            button("Explain", () => view.explain(prefix, tenant)),
            may(view.context, "admin.write") && button("Block", () => put("block", prefix, { ...view, tenant })),
          ),
      },
    ],
    "No prefix is suspected. One is listed as soon as few of its codes are typed, or more is sent to it than it takes before they are.",
  );
}

/** A tenant as the way to its guard and lists, from a page that shows another's. */
function linkTo(tenant: string, view: View): Child {
  if (view.tenant === tenant || view.context.session.tenant !== "") return tenant;
  return make("a", { attributes: { href: `#/fraud?${new URLSearchParams({ tenant }).toString()}` } }, tenant);
}

/** The first decision against it since sends went through, as far as decisions are kept. */
function sinceOf({ decisions }: Suspect): GuardDecision["time"] {
  const isGood = ({ kind }: GuardDecision) => kind === "closed" || kind === "unblocked" || kind === "passed";
  const end = decisions.findIndex(isGood);
  return (end === -1 ? decisions : decisions.slice(0, end)).at(-1)?.time;
}

function sinceMsOf(suspect: Suspect): number | undefined {
  const since = sinceOf(suspect);
  return since && timestampMs(since);
}

/** Of the block that was judged last, where none is under way or none of it has ended. */
function verifiedOf({ phase, verified, ended, decisions }: Suspect): string {
  const trip =
    phase === "tripped" || ended === 0 ? decisions.find(({ kind }) => kind.startsWith("tripped")) : undefined;
  return trip === undefined ? `${verified} of ${ended}` : `${trip.verified} of ${trip.ended}`;
}

function savedHead(suspects: readonly Suspect[]): string {
  const isAny = (mode: GuardMode) => suspects.some((each) => each.mode === mode);
  if (!isAny(GuardMode.ENFORCE)) return "Enforcing would have saved";
  return isAny(GuardMode.OBSERVE) ? "Saved, or would have" : "Saved";
}

function savedOf({ savedMessages, saved }: Suspect): string {
  const messages = `${format.count(savedMessages)} messages`;
  return saved === undefined ? messages : `${messages}, ${format.money(saved)}`;
}

/** A calling code of several countries stands for itself. */
function placeOf(country: string): string {
  return country.startsWith("+") ? country : format.country(country);
}

function phaseOf({ phase, mode, untilTime, decisions }: Suspect, now: number): Child {
  const isRefused = mode === GuardMode.ENFORCE;
  if (phase === "tripped") {
    if (untilTime !== undefined && timestampMs(untilTime) <= now)
      return badge("three probes are let through next", "warn");
    const until = untilTime === undefined ? "" : ` until ${format.time(untilTime)}`;
    return [isRefused ? badge("refused", "bad") : badge("would be refused", "warn"), until];
  }
  if (phase === "half-open") return badge("three probes decide", "warn");
  // Some go through: a prefix without typed codes has a limit.
  if (decisions[0]?.kind === "limited") {
    return badge(mode === GuardMode.ENFORCE ? "limited" : "would be limited", "warn");
  }
  return badge("sends go through", "good");
}

const decisionWords: ReadonlyMap<string, string> = new Map([
  ["passed", "passed"],
  ["tripped", "too few typed"],
  ["half-opened", "three probes let through"],
  ["tripped-again", "no probe was typed"],
  ["closed", "a probe was typed: open again"],
  ["unblocked", "unblocked by an operator"],
  ["limited", "too many sends before codes were typed"],
]);

function words({ kind, enforced }: GuardDecision): string {
  return `${decisionWords.get(kind) ?? kind}${enforced ? "" : " (observed)"}`;
}

function explained({ suspect, entry, longer, sentence }: ExplainDestinationResponse, view: View): Child {
  return make(
    "div",
    { class: "stack" },
    make("p", {}, format.told(sentence)),
    suspect !== undefined && suspectPart(suspect, view),
    entry !== undefined && [make("h3", {}, deciding), listTable(deciding, [entry], view)],
    longer.length > 0 && [make("h3", {}, ofSome), listTable(ofSome, longer, view)],
  );
}

function suspectPart(suspect: Suspect, view: View): Child {
  const { prefix, tenant, country, sent, ended, verified, refused, decisions, phase, mode } = suspect;
  const isEnforced = mode === GuardMode.ENFORCE;
  return [
    facts([
      ["Prefix", [make("code", {}, `${prefix}••••`), ` ${placeOf(country)}, tenant ${tenant}`]],
      ["Now", phaseOf(suspect, view.context.now())],
      ...(phase === "tripped"
        ? []
        : [["The block under way", `${sent} sent, ${ended} ended, ${verified} verified`] as const]),
      [
        isEnforced ? "Refused since the last decision" : "Would have refused since the last decision",
        format.count(refused),
      ],
      [isEnforced ? "Saved, as far as decisions are kept" : "Enforcing would have saved", savedOf(suspect)],
    ]),
    make(
      "div",
      { class: "buttons" },
      may(view.context, "admin.write") && phase !== "open" && unblockButton(prefix, tenant, view),
      may(view.context, "admin.write") && button("Block", () => put("block", prefix, view)),
      mayAllow(view.context) && button("Allow", () => put("allow", prefix, view)),
    ),
    table(
      "Decisions",
      decisions,
      [
        { head: "Time", cell: ({ time }: GuardDecision) => format.time(time) },
        { head: "Decision", kind: "words", cell: words },
        { head: "Verified", kind: "number", cell: (each: GuardDecision) => `${each.verified} of ${each.ended}` },
        { head: "Refused before it", kind: "number", cell: (each: GuardDecision) => format.count(each.refused) },
        { head: "Until", cell: ({ untilTime }: GuardDecision) => format.time(untilTime) },
      ],
      "No decision was made yet.",
    ),
  ];
}

/** What it lets past is the operator's to pay, so an admin of one tenant does not. */
function mayAllow(context: PageContext): boolean {
  return may(context, "admin.write") && context.session.tenant === "";
}

function unblockButton(prefix: string, tenant: string, { context, again }: View): HTMLButtonElement {
  const pressed: HTMLButtonElement = button(
    "Unblock",
    () =>
      void attempt(context, pressed, async () => {
        const { entryRemoved, guardLifted } = await context.client.unblock({ prefix, tenant }, calling(context.left));
        const what = [entryRemoved && "The entry is removed.", guardLifted && "The guard's block is lifted."];
        context.say(what.filter((each) => each !== false).join(" ") || "Nothing blocks it any more.");
        again();
      }),
  );
  return pressed;
}

function removeButton(prefix: string, tenant: string, { context, again }: View): HTMLButtonElement {
  const pressed: HTMLButtonElement = button(
    "Remove",
    () =>
      void attempt(context, pressed, async () => {
        await context.client.removeDestination({ prefix, tenant }, calling(context.left));
        context.say("It is not on the lists any more.");
        again();
      }),
  );
  return pressed;
}

function put(verdict: "block" | "allow", prefix: string, { context, tenant, again }: View): void {
  const isBlock = verdict === "block";
  ask(context, {
    title: isBlock ? "Block a destination" : "Allow a destination",
    text: isBlock
      ? "Sends to numbers that begin with it are refused from the next call on, unless a longer entry allows them."
      : "Numbers that begin with it are taken from the next call on, whatever the number plans, the country list and the guard say.",
    doIt: isBlock ? "Block it" : "Allow it",
    fields: [
      {
        name: "prefix",
        label: "Prefix or number",
        type: "tel",
        value: prefix,
        isRequired: true,
        hint: "Such as +31612.",
      },
      { name: "note", label: "Note", hint: "Why, for whoever reads the list." },
    ],
    act: async (values) => {
      const entry = { prefix: values["prefix"] ?? "", note: values["note"] ?? "", tenant };
      await context.client[verdict](entry, calling(context.left));
      context.say(isBlock ? "It is blocked." : "It is allowed.");
      again();
    },
  });
}

const deciding = "The entry that decides";
const ofSome = "Longer entries, for some of its numbers";

function listTable(caption: string, destinations: readonly Destination[], view: View): HTMLElement {
  return table(
    caption,
    destinations,
    [
      { head: "Prefix", cell: ({ prefix }) => make("code", {}, prefix) },
      { head: "Says", cell: ({ blocked }) => (blocked ? badge("blocked", "bad") : badge("allowed", "good")) },
      { head: "Note", kind: "words", cell: ({ note }) => note || format.dash },
      { head: "Since", cell: ({ createTime }) => format.time(createTime) },
      {
        head: "Actions",
        cell: ({ prefix, tenant, blocked }) =>
          may(view.context, "admin.write") &&
          !prefix.includes("•") &&
          (blocked ? unblockButton(prefix, tenant, view) : removeButton(prefix, tenant, view)),
      },
    ],
    "No destination is blocked or allowed. To one that is blocked nothing is sent; one that is allowed is sent to whatever the country list and the guard say.",
  );
}
