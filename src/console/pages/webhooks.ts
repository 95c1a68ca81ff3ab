/**
 * Webhooks: endpoints that are told of events, and how they take them.
 */
import { durationFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { Webhook } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { calling } from "../api.ts";
import { ask, show, showOnce } from "../dialog.ts";
import { breakable, make, type Child } from "../dom.ts";
import * as format from "../format.ts";
import { may, type Page, type PageContext } from "../page.ts";
import { attempt, badge, button, facts, load, section } from "../parts.ts";
import { table } from "../table.ts";
import { auditLink } from "./audit-link.ts";

const hourMs = 3_600_000;
const toldOnce = "This is the only time that it is shown. The receiver checks signatures with it.";

export const webhooks: Page = {
  name: "webhooks",
  title: "Webhooks",
  show(into, context) {
    const fill = () =>
      void load(
        body,
        context,
        (signal) => context.client.listWebhooks({}, calling(signal)),
        (answer) =>
          table(
            "Endpoints and their state",
            answer.webhooks,
            columnsFor(context, fill),
            "No endpoint is told of events.",
          ),
      );
    const { part, body } = section(
      "Endpoints",
      button("Refresh", fill),
      may(context, "admin.write") && button("New endpoint", () => create(context, fill)),
    );
    into.append(part);
    fill();
  },
};

function columnsFor(context: PageContext, again: () => void) {
  return [
    {
      head: "Endpoint",
      kind: "words" as const,
      cell: ({ url, id, createTime }: Webhook) => [
        breakable(url),
        make("br"),
        auditLink(id),
        make("div", { class: "hint" }, `made ${format.time(createTime)}`),
      ],
      sortBy: ({ url }: Webhook) => url,
    },
    { head: "Tenant", cell: ({ tenant }: Webhook) => tenant, sortBy: ({ tenant }: Webhook) => tenant },
    {
      head: "Told of",
      kind: "words" as const,
      cell: ({ types }: Webhook) => (types.length === 0 ? "all" : breakable(types.join(", "))),
    },
    { head: "State", cell: stateOf, sortBy: urgencyOf },
    { head: "Waiting", cell: waitingFor, sortBy: ({ waiting }: Webhook) => Number(waiting) },
    { head: "Last answer", kind: "words" as const, cell: answerOf, sortBy: triedAt },
    { head: "Secrets", kind: "number" as const, cell: ({ secrets }: Webhook) => secrets },
    { head: "Actions", cell: (webhook: Webhook) => may(context, "admin.write") && actionsOn(webhook, context, again) },
  ];
}

const triedAt = ({ lastTryTime }: Webhook) => lastTryTime && timestampMs(lastTryTime);
/** What is disabled comes before what fails, and both before what takes events. */
const urgencyOf = ({ disableTime, failingSinceTime }: Webhook) =>
  disableTime !== undefined ? 2 : Number(failingSinceTime !== undefined);

function stateOf({ disableTime, disableReason, failingSinceTime }: Webhook) {
  if (disableTime !== undefined)
    return [
      badge(`disabled: ${disableReason}`, "bad"),
      make("br"),
      format.time(disableTime),
      disableReason === "failing" && make("div", { class: "hint" }, "Enable it once a test is taken."),
    ];
  if (failingSinceTime !== undefined)
    return [badge("failing", "warn"), make("br"), `since ${format.time(failingSinceTime)}`];
  return badge("takes events", "good");
}

/** Events that wait, for how long the first of them has, and how often it was tried. */
function waitingFor({ waiting, lag, tries, nextTryTime, disableTime }: Webhook): Child {
  if (lag === undefined) return "none";
  const tried = tries === 1 ? "1 try" : `${tries} tries`;
  return [
    `${format.count(waiting)}, for ${format.duration(lag)}`,
    make("div", { class: "hint" }, tried),
    disableTime === undefined && make("div", { class: "hint" }, `next at ${format.timeOfDay(nextTryTime)}`),
  ];
}

/** What came back of the latest try, where the instance that answered has made one. */
function answerOf({ lastTryTime, lastStatus, lastDetail }: Webhook): Child {
  if (lastTryTime === undefined) return format.dash;
  const said = lastStatus === 0 ? ["no answer", lastDetail] : [`HTTP ${lastStatus}`, ""];
  return [
    said[0],
    said[1] !== "" && make("div", { class: "hint" }, said[1]),
    make("div", { class: "hint" }, format.time(lastTryTime)),
  ];
}

function actionsOn(webhook: Webhook, context: PageContext, again: () => void): HTMLElement {
  const { id, disableTime, failingSinceTime, waiting } = webhook;
  const test: HTMLButtonElement = button("Test", () => void attempt(context, test, () => tryOne(context, id, again)));
  const enable = (words: string) => {
    const pressed: HTMLButtonElement = button(
      words,
      () =>
        void attempt(context, pressed, async () => {
          await context.client.enableWebhook({ id }, calling(context.left));
          again();
        }),
    );
    return pressed;
  };
  const toggle =
    disableTime === undefined
      ? button("Disable", () =>
          ask(context, {
            title: "Disable this endpoint?",
            text: "It is told of nothing more, and what is due for it while it is disabled is dropped.",
            doIt: "Disable it",
            isDanger: true,
            act: async () => {
              await context.client.disableWebhook({ id }, calling(context.left));
              again();
            },
          }),
        )
      : enable("Enable");
  return make(
    "div",
    { class: "tools many" },
    test,
    toggle,
    disableTime === undefined && failingSinceTime !== undefined && waiting > 0n && enable("Send now"),
    button("Rotate", () => rotate(context, id, again)),
    button("Remove", () => remove(webhook, context, again), "danger"),
  );
}

async function tryOne(context: PageContext, id: string, again: () => void): Promise<void> {
  const { ok, status, detail, duration } = await context.client.testWebhook({ id }, calling(context.left));
  again();
  show(
    ok ? "It took the test event" : "It did not take the test event",
    facts([
      ["Answer", status === 0 ? "none" : `HTTP ${status}`],
      ["Took", format.duration(duration)],
      ["Why", detail === "" ? format.dash : detail],
    ]),
  );
}

function create(context: PageContext, again: () => void): void {
  ask(context, {
    title: "New endpoint",
    text: "Events are posted to it, signed.",
    doIt: "Make it",
    fields: [
      { name: "url", label: "URL", type: "url", isRequired: true },
      ...(context.session.tenant === "" ? [{ name: "tenant", label: "Tenant", hint: "Empty for default." }] : []),
      { name: "types", label: "Types", hint: "Such as verification.verified; empty for all." },
    ],
    act: async ({ url = "", tenant = "", types = "" }) => {
      const asked = { url, tenant, types: types.split(/[\s,]+/).filter((each) => each !== "") };
      const { secret } = await context.client.createWebhook(asked, calling(context.left));
      again();
      showOnce("The endpoint's secret", toldOnce, secret);
    },
  });
}

function rotate(context: PageContext, id: string, again: () => void): void {
  ask(context, {
    title: "A new secret",
    text: "The earlier secrets sign beside it for a while, so that no event is lost while the receiver changes.",
    doIt: "Make it",
    fields: [
      { name: "hours", label: "Hours that the earlier ones sign", type: "number", value: "24", isRequired: true },
    ],
    act: async ({ hours = "24" }) => {
      const keep = durationFromMs(Number(hours) * hourMs);
      const { secret } = await context.client.rotateWebhook({ id, keep }, calling(context.left));
      again();
      showOnce("The endpoint's new secret", toldOnce, secret);
    },
  });
}

function remove({ id, url }: Webhook, context: PageContext, again: () => void): void {
  ask(context, {
    title: "Remove this endpoint?",
    text: `${url} is told of nothing more, and what waits for it is gone.`,
    doIt: "Remove it",
    isDanger: true,
    act: async () => {
      await context.client.removeWebhook({ id }, calling(context.left));
      again();
    },
  });
}
