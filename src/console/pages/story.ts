/**
 * The story of one verification: the problem in a sentence, its messages, what happened, and what can be done.
 */
import { Code, ConnectError } from "@connectrpc/connect";
import type {
  GetVerificationResponse,
  TimelineEntry,
  VerificationMessage,
  VerificationSummary,
} from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { Delivery, State } from "../../../gen/otp/v1/otp_service_pb.ts";
import { calling } from "../api.ts";
import { ask, show } from "../dialog.ts";
import { make, type Child } from "../dom.ts";
import * as format from "../format.ts";
import { may, type PageContext } from "../page.ts";
import { badge, button, facts, load, section, type Field } from "../parts.ts";
import { table } from "../table.ts";
import { stateBadge } from "./state-badge.ts";

export function showStory(into: HTMLElement, context: PageContext, ref: string): void {
  const back = make("p", {}, make("a", { attributes: { href: "#/verification" } }, "← Search"));
  const actions = make("div", { class: "tools" });
  const { part, body } = section(`Request ${ref}`, actions);
  into.append(back, part);
  const read = (showPhone: boolean) => {
    void load(
      body,
      context,
      (signal) => context.client.getVerification({ requestRef: ref, showPhone }, calling(signal)).catch(sayMissing),
      (answer) => {
        actions.replaceChildren(
          ...actionsOn(answer, context, { again: () => read(showPhone), showPhone: () => read(true) }),
        );
        return story(answer);
      },
    );
  };
  read(false);
}

/** What was not found is said in words of this page. */
function sayMissing(failure: unknown): never {
  const isMissing = ConnectError.from(failure).code === Code.NotFound;
  throw isMissing
    ? new Error("No request with this id is stored. What is past its retention, or erased, is gone.")
    : failure;
}

function story(answer: GetVerificationResponse): Child {
  const { verification: v, messages, timeline, diagnosis } = answer;
  if (v === undefined) return undefined;
  return [
    diagnosis !== "" && make("p", { class: "diagnosis" }, diagnosis),
    facts([
      ["State", stateBadge(v.state)],
      ["Number", [v.phone, " ", format.country(v.country)]],
      ["Asked for", format.time(v.createTime)],
      [
        "Ended",
        v.endTime === undefined ? `not yet; at the latest ${format.time(answer.expireTime)}` : format.time(v.endTime),
      ],
      ["Codes compared", `${v.attempts} of ${answer.attemptsMax}`],
      ["Code", `${answer.codeLength} digits, in ${answer.locale}`],
      ["Channel", v.channel],
      ["Resends", answer.resends],
      ["Purpose", v.purpose === "" ? format.dash : v.purpose],
      ["Tenant", [v.tenant, v.test && [" ", badge("test")]]],
      ["API key", answer.apiKeyId],
    ]),
    make("h3", {}, "Messages"),
    table("Messages", messages, messageColumns, "No message was owed."),
    make("h3", {}, "What happened"),
    timelineList(answer, timeline),
  ];
}

const messageColumns = [
  { head: "No.", kind: "number" as const, cell: ({ number }: VerificationMessage) => number },
  { head: "Channel", cell: ({ channel }: VerificationMessage) => channel },
  { head: "Delivery", cell: ({ delivery }: VerificationMessage) => format.enumWord(Delivery, delivery) },
  { head: "Provider", cell: ({ provider }: VerificationMessage) => provider },
  {
    head: "The provider's id",
    cell: ({ providerMessageId }: VerificationMessage) => make("code", {}, providerMessageId),
  },
  { head: "Our reference", cell: ({ reference }: VerificationMessage) => make("code", {}, reference) },
  { head: "The provider's words", kind: "words" as const, cell: ({ detail }: VerificationMessage) => detail },
  { head: "Calls", kind: "number" as const, cell: ({ calls }: VerificationMessage) => calls },
];

function timelineList({ timelineOmitted: omitted }: GetVerificationResponse, entries: readonly TimelineEntry[]): Child {
  const half = Math.floor(entries.length / 2);
  return make(
    "ol",
    { class: "timeline" },
    entries.map((entry, i) => [
      omitted > 0 && i === half && make("li", { class: "hint" }, `${omitted} more are left out here.`),
      make("li", {}, make("time", {}, format.timeOfDay(entry.time)), make("span", {}, sentenceOf(entry))),
    ]),
  );
}

/** What happened, in a sentence. */
function sentenceOf({ kind, outcome, message, provider }: TimelineEntry): string {
  const said = format.word(outcome);
  const nth = `message ${message}`;
  switch (kind) {
    case "send":
      return `A code was asked for by ${said}.`;
    case "resend":
      return `It was asked for again, by ${said} (${nth}).`;
    case "fallback":
      return `It went on by ${said} (${nth}).`;
    case "call":
      return `${provider === "" ? "No provider" : provider} was asked to send ${nth}: ${said}.`;
    case "report":
      return `${provider} reported ${nth} ${said}.`;
    case "guess":
      return outcome === "right" ? "The right code was typed." : "A wrong code was typed.";
    case "end":
      return `It ended: ${said}.`;
    case "posted":
      return `An endpoint took the event ${outcome}.`;
    case "dropped":
      return `An endpoint did not take the event ${outcome}.`;
    default:
      return `${kind}: ${said}`;
  }
}

interface Steps {
  readonly again: () => void;
  readonly showPhone: () => void;
}

function actionsOn(
  { verification: v }: GetVerificationResponse,
  context: PageContext,
  { again, showPhone }: Steps,
): HTMLButtonElement[] {
  if (v === undefined) return [];
  const buttons: HTMLButtonElement[] = [];
  const isMasked = v.phone.includes("•");
  if (may(context, "admin.phones") && isMasked) buttons.push(button("Show the number", showPhone));
  if (!may(context, "admin.write")) return buttons;
  if (v.state === State.PENDING) buttons.push(button("Cancel", () => cancel(v, context, again)));
  buttons.push(
    button("Reset the number", () => reset(v, context)),
    button("Erase the number", () => erase(v, context), "danger"),
  );
  return buttons;
}

/** A number, whole or masked, and whose it is. */
type NumberOf = Pick<VerificationSummary, "phone" | "tenant">;

/** What is done to a number needs it whole: where it is masked here, it is typed. */
function wholeNumber({ phone }: NumberOf): readonly Field[] {
  const hint = `It is ${phone} here: type it as the user gave it.`;
  const asked = { name: "phone", label: "The whole number", type: "tel", isRequired: true, hint } as const;
  return phone.includes("•") ? [asked] : [];
}

/** The number that something is done to; throws where another than this request's was typed. */
function numberMeant({ phone }: NumberOf, { phone: typed = phone }: Readonly<Record<string, string>>): string {
  const number = typed.replaceAll(/[ ().-]/g, "");
  const isThis = number.length === phone.length && [...phone].every((each, i) => each === "•" || each === number[i]);
  if (!isThis) throw new Error(`That is not the number of this request, which is ${phone}.`);
  return number;
}

function cancel({ requestRef }: VerificationSummary, context: PageContext, again: () => void): void {
  ask(context, {
    title: "Cancel this verification?",
    text: "Its code no longer verifies. The user can ask for a new one.",
    doIt: "Cancel it",
    act: async () => {
      await context.client.cancelVerification({ requestRef }, calling(context.left));
      context.say("It is canceled.");
      again();
    },
  });
}

function reset(v: VerificationSummary, context: PageContext): void {
  const { tenant } = v;
  ask(context, {
    title: `Reset ${v.phone}?`,
    text: "Its limits are full again and its wrong codes are forgotten. What is pending stays as it is.",
    doIt: "Reset it",
    fields: wholeNumber(v),
    act: async (values) => {
      await context.client.resetPhone({ phone: numberMeant(v, values), tenant }, calling(context.left));
      context.say("The number has a fresh start.");
    },
  });
}

/** Erases a number with one tenant, or with all where `tenant` is empty. */
export function erase(v: NumberOf, context: PageContext): void {
  const { tenant } = v;
  ask(context, {
    title: `Erase ${v.phone}?`,
    isDanger: true,
    text: `All that is stored of it with ${tenant === "" ? "any tenant" : tenant} is deleted: verifications, messages and events that wait. This cannot be undone. Backups and logs are not touched.`,
    doIt: "Erase it",
    fields: wholeNumber(v),
    act: async (values) => {
      const asked = { phone: numberMeant(v, values), tenant };
      const gone = await context.client.erasePhone(asked, calling(context.left));
      context.go("verification");
      show(
        "The number is erased",
        facts([
          ["Verifications", gone.verifications],
          ["Of those canceled", gone.canceled],
          ["Events", gone.events],
        ]),
        gone.entries.length > 0 &&
          make(
            "p",
            {},
            `Entries of lists name the number and stay: ${gone.entries.map(({ prefix }) => prefix).join(", ")}.`,
          ),
        make("p", { class: "hint" }, "Its count of wrong codes stays, without the number, until it ages."),
      );
    },
  });
}
