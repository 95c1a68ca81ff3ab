/**
 * Providers: how each fares, channel by channel in the order they are tried, and a try of one.
 */
import type { Provider, TryProviderResponse } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { calling } from "../api.ts";
import { ask, show } from "../dialog.ts";
import { make, type Child } from "../dom.ts";
import * as format from "../format.ts";
import { may, type Page, type PageContext } from "../page.ts";
import { badge, button, facts, load, section } from "../parts.ts";
import { table } from "../table.ts";

export const providers: Page = {
  name: "providers",
  title: "Providers",
  isForOperators: true,
  show(into, context) {
    const fill = () =>
      void load(
        body,
        context,
        (signal) => context.client.getProviders({}, calling(signal)),
        (answer) => byChannel(answer.providers, context, fill),
      );
    const { part, body } = section("In the order they are tried", button("Refresh", fill));
    into.append(part);
    fill();
  },
};

const channelNames: ReadonlyMap<string, string> = new Map([
  ["sms", "SMS"],
  ["voice", "Voice"],
  ["whatsapp", "WhatsApp"],
]);

function byChannel(all: readonly Provider[], context: PageContext, again: () => void): Child {
  if (all.length === 0) return make("p", { class: "empty" }, "No provider is configured: set OTP_PROVIDERS.");
  const channels = [...new Set(all.map(({ channel }) => channel))];
  return [
    make(
      "p",
      { class: "hint" },
      "Calls, failures and latency are those of the last hour on the instance that answered; messages, share, delivery and cost those of 24 hours on all.",
    ),
    channels.map((channel) => {
      const name = channelNames.get(channel) ?? channel;
      const rows = all.filter((each) => each.channel === channel);
      return [make("h3", {}, name), table(`Providers of ${name}`, rows, columnsFor(context, again), "There is none.")];
    }),
  ];
}

function columnsFor(context: PageContext, again: () => void) {
  return [
    {
      head: "Provider",
      cell: ({ name, order }: Provider) => (order === 0 ? name : `${order}. ${name}`),
      sortBy: placeOf,
    },
    {
      head: "State",
      cell: stateOf,
    },
    {
      head: "Calls",
      kind: "number" as const,
      cell: ({ calls }: Provider) => format.count(calls),
      sortBy: ({ calls }: Provider) => Number(calls),
    },
    {
      head: "Failed",
      kind: "number" as const,
      cell: ({ calls, failures }: Provider) =>
        calls === 0n ? format.dash : `${format.count(failures)} (${format.share(failures, calls)})`,
      sortBy: ({ calls, failures }: Provider) => shareOf(failures, calls),
    },
    {
      head: "Half, 99 of 100 within",
      kind: "number" as const,
      cell: ({ latencyP50, latencyP99 }: Provider) =>
        latencyP50 === undefined ? format.dash : `${format.duration(latencyP50)}, ${format.duration(latencyP99)}`,
      sortBy: ({ latencyP99 }: Provider) => latencyP99 && format.secondsOf(latencyP99),
    },
    {
      head: "Failover",
      cell: ({ takenOver, passedOver }: Provider) =>
        takenOver === 0n && passedOver === 0n
          ? format.dash
          : [`${format.count(takenOver)} taken over`, make("br"), `${format.count(passedOver)} passed by`],
    },
    {
      head: "Messages",
      kind: "number" as const,
      cell: ({ messages, share }: Provider) =>
        messages === 0n ? format.count(0) : `${format.count(messages)} (${format.percent(share)})`,
      sortBy: ({ messages }: Provider) => Number(messages),
    },
    {
      head: "Delivered",
      kind: "number" as const,
      cell: ({ messages, delivered }: Provider) => format.share(delivered, messages),
      sortBy: ({ messages, delivered }: Provider) => shareOf(delivered, messages),
    },
    { head: "Cost", kind: "number" as const, cell: ({ cost }: Provider) => format.money(cost) },
    { head: "Per message", kind: "number" as const, cell: perMessage, sortBy: priceOf },
    {
      head: "Actions",
      cell: (provider: Provider): Child => {
        if (!may(context, "admin.write") || provider.order === 0) return undefined;
        const attempt = button("Try", () => tryOne(provider, context, again));
        attempt.setAttribute("aria-label", `Try ${provider.name}, ${provider.channel}`);
        return attempt;
      },
    },
  ];
}

function stateOf({ breakerOpen, order }: Provider): Child {
  if (order === 0) return badge("not configured now", "plain");
  return breakerOpen ? badge("left alone: it failed too often", "bad") : badge("is called", "good");
}

/** The order tried; what is not configured now comes last. */
const placeOf = ({ order }: Provider) => (order === 0 ? undefined : order);
const shareOf = (part: bigint, of: bigint) => (of === 0n ? undefined : Number(part) / Number(of));

function priceOf({ cost, messages }: Provider): number | undefined {
  return cost === undefined || cost.currency === "" || messages === 0n
    ? undefined
    : Number(cost.micros) / 1e6 / Number(messages);
}

function perMessage(provider: Provider): string {
  const price = priceOf(provider);
  return price === undefined ? format.dash : format.price(price, provider.cost?.currency ?? "");
}

function tryOne({ name, channel }: Provider, context: PageContext, again: () => void): void {
  ask(context, {
    title: `Try ${name}`,
    text: "It sends one fixed text, also while it is left alone. It costs what a message does: there are ten tries a day, five of them yours.",
    doIt: "Send it",
    fields: [
      { name: "phone", label: "Phone", type: "tel", isRequired: true, hint: "In international form: +31612345678." },
    ],
    act: async ({ phone = "" }) => {
      const tried = await context.client.tryProvider({ name, channel, phone }, calling(context.left));
      again();
      tell(name, tried);
    },
  });
}

function tell(name: string, tried: TryProviderResponse): void {
  const { outcome, detail, providerMessageId, duration, triesRemaining } = tried;
  const said = sentences.get(outcome) ?? `It refused the message for its ${format.word(outcome)}: nothing was sent.`;
  show(
    `${name}: ${format.word(outcome)}`,
    make("p", {}, said),
    facts([
      ["It said", detail === "" ? format.dash : detail],
      ["Its id of the message", providerMessageId === "" ? format.dash : make("code", {}, providerMessageId)],
      ["Took", format.duration(duration)],
      ["Tries left now", triesRemaining],
    ]),
  );
}

/** What an outcome means, in the words of `otpd providers try`. */
const sentences: ReadonlyMap<string, string> = new Map([
  ["accepted", "It took the message. Look at the phone."],
  ["delivered", "It took the message, and says that it is delivered."],
  ["undelivered", "It took the message, and says that it could not be delivered."],
  ["throttled", "It asks to wait: nothing was sent."],
  ["unavailable", "It was not reached: nothing was sent."],
  ["ambiguous", "It gave no answer that tells: the message may have been sent, or not."],
]);
