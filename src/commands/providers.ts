/**
 * `otpd providers`: what providers have taken, and a try: one fixed text by one of them, whether messages go by it yet
 * or not.
 */
import type { Config } from "../config/config.ts";
import { describedAs, makeProvider, missingVariables, providerNames } from "../delivery/providers/list.ts";
import { commandLine } from "../otp/operators/audit.ts";
import { channelName, channels, defaultChannel, findChannel, type Channel } from "../otp/channel.ts";
import type { SendOutcome } from "../otp/message/message.ts";
import { maskPhone, parsePhoneNumber, type PhoneNumber } from "../otp/phone-number.ts";
import { dearest, moneyText } from "../otp/message/prices.ts";
import { sentenceOf } from "../otp/reason.ts";
import { defaultTenant } from "../otp/operators/tenant.ts";
import { readProviderShares } from "../service/operators/provider-shares.ts";
import { tryLimit, tryProvider, tryText, type Tried } from "../service/operators/provider-tries.ts";
import { createTelemetry } from "../telemetry.ts";
import { flag, Misused, parseArgs, say, sayList, Unusable, version, withStore, type Commands } from "./command.ts";
import { chargesAtHand, configuration, fittingKeys, tenantAsRead } from "./setup.ts";

export const providerCommands: Commands = {
  "providers list": {
    summary: "list providers with what they have taken in 24 hours",
    help: `Usage: otpd providers list [--json]

Lists the providers of each channel in the order they are tried, with what they have taken in the last 24 hours on all instances:
messages, their share of the channel, how many were delivered, and what they cost. One without a place in the order has taken some and
is not configured any more. Breakers, calls and latency are in each instance's memory, which no command sees: the console and
GetProviders tell those of the instance that answers, and /metrics those of each.

  --json  print an array of {"channel","order","provider","messages","share","delivered","cost","currency"}`,
    run: list,
  },
  "providers try": {
    summary: "send one fixed text by a provider, and tell what came of it",
    help: `Usage: otpd providers try NAME PHONE [--channel CHANNEL] [--json]

Sends "${tryText}" to PHONE, once, and says what the
provider's answer means. NAME is a provider of OTP_PROVIDERS, or one of OTP_HTTP_PROVIDERS_FILE that OTP_PROVIDERS need not
name yet. PHONE is in international form, such as +31612345678, and one that the tenant default may send to. A try counts
under its daily cap, there are ${tryLimit.burst} of them a day, and each is logged and in the audit. The exit code is 0 if the message
was taken.

  --channel CHANNEL   how it goes, of ${channels.join(", ")}; the provider's first unless given
  --json              print {"provider","outcome","cause","detail","provider_message_id","retry_after_seconds"}`,
    run: tryOut,
  },
};

async function list(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { json: flag } });
  const { providers } = configuration();
  const charges = chargesAtHand();
  await withStore(async (store) => {
    await charges.learn(store);
    const shares = await readProviderShares(store, (channel) => providers[channel]);
    const rows = shares.map(({ name, cost, ...of }) => ({
      ...of,
      provider: name,
      cost: cost === undefined ? null : moneyText(cost.micros),
      currency: cost?.currency ?? null,
    }));
    sayList(rows, values.json, "No provider is configured: set OTP_PROVIDERS.", {
      CHANNEL: ({ channel }) => channel,
      ORDER: ({ order }) => (order === 0 ? null : `${order}`),
      PROVIDER: ({ provider }) => provider,
      "MESSAGES 24 H": ({ messages }) => `${messages}`,
      SHARE: ({ messages, share }) => (messages === 0 ? null : `${Math.round(share * 100)} %`),
      DELIVERED: ({ messages, delivered }) => (messages === 0 ? null : `${Math.round((100 * delivered) / messages)} %`),
      COST: ({ cost, currency }) => (cost === null ? null : `${cost} ${currency ?? ""}`),
    });
  }, charges);
}

async function tryOut(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    options: { channel: { type: "string" }, json: flag },
    allowPositionals: true,
  });
  const [name, typed, ...more] = positionals;
  if (name === undefined || typed === undefined || more.length > 0) {
    throw new Misused("Give a provider and one phone in international form.");
  }
  const config = configuration();
  checkProvider(config, name);
  const parsed = parsePhoneNumber(typed);
  if (!parsed.ok) throw new Unusable(sentenceOf(parsed.refusal));
  await withStore(async (store, system) => {
    const keys = await fittingKeys(store, config);
    const { policy } = await tenantAsRead(store, defaultTenant, config);
    const channel = channelOf(config, name, values.channel);
    const { value: phone } = parsed;
    const around = { now: () => system.now(), print: say };
    const provider = await makeProvider(name, config.providerSettings, around);
    const tried = await tryProvider({
      store,
      keys,
      policy,
      system,
      channel,
      phone,
      provider: name,
      by: commandLine,
      price: () => config.prices && dearest(config.prices, { country: phone.region, channel }, [name], 1),
      send: (message, signal) => provider.send(message, signal),
    });
    if (tried.kind === "refused") throw new Unusable(sentenceOf(tried.refusal));
    if (tried.kind === "no room") throw new Unusable(whyNot(tried));
    const { outcome } = tried;
    await note(config, name, phone, outcome);
    say(values.json ? JSON.stringify(asJson(name, outcome)) : sentence(name, outcome));
    if (outcome.kind !== "accepted") throw new Unusable(`Nothing is known to have reached ${maskPhone(phone.e164)}.`);
  });
}

/** How a try goes. Ends the command where the provider takes no such messages. */
function channelOf({ providerSettings: { declared } }: Config, name: string, asked: string | undefined): Channel {
  const { channels: taken = [defaultChannel] } = describedAs(name, declared);
  const channel = asked === undefined ? taken[0] : findChannel(channelName(asked), taken);
  if (channel === undefined) throw new Unusable(`${name} takes no such messages: it takes ${taken.join(", ")}.`);
  return channel;
}

/** Ends the command unless there is such a provider with all that it needs. */
function checkProvider({ providerSettings: settings }: Config, name: string): void {
  const known = [...providerNames, ...settings.declared.map((each) => each.name)];
  if (!known.includes(name)) throw new Unusable(`There is no provider ${name}: there are ${known.join(", ")}.`);
  const description = describedAs(name, settings.declared);
  const missing = missingVariables(description, (variable) => settings.values[variable] !== undefined);
  if (missing.length > 0) throw new Unusable(`${name} cannot be tried without ${missing.join(", ")}.`);
}

/** Leaves a line in the log, as a message's call does. */
async function note({ logLevel }: Config, provider: string, phone: PhoneNumber, outcome: SendOutcome): Promise<void> {
  const telemetry = createTelemetry(logLevel, version());
  telemetry.lifecycle("provider tried", { provider, outcome: outcome.kind, phone: maskPhone(phone.e164) });
  await telemetry.flush();
}

function whyNot({ by, retryAfterMs }: Extract<Tried, { kind: "no room" }>): string {
  const minutes = Math.ceil(retryAfterMs / 60_000);
  const what =
    by === "tries" ? `${tryLimit.burst} tries a day are made` : "a daily cap of the tenant default is reached";
  return `Nothing was sent: ${what}. The next may be made in ${minutes} min.`;
}

function sentence(name: string, outcome: SendOutcome): string {
  switch (outcome.kind) {
    case "accepted": {
      const id = outcome.providerMessageId;
      return `${name} took the message${id === undefined ? "" : `, and calls it ${id}`}.`;
    }
    case "refused":
      return `${name} refused the message for its ${outcome.cause} (${outcome.detail}): nothing was sent.`;
    case "throttled": {
      const wait = outcome.retryAfterMs === undefined ? "" : ` ${Math.ceil(outcome.retryAfterMs / 1_000)} s`;
      return `${name} asks to wait${wait} (${outcome.detail}): nothing was sent.`;
    }
    case "unavailable":
      return `${name} was not reached (${outcome.detail}): nothing was sent.`;
    case "ambiguous":
    default:
      return `${name} gave no answer that tells (${outcome.detail}): the message may have been sent, or not.`;
  }
}

function asJson(provider: string, outcome: SendOutcome) {
  return {
    provider,
    outcome: outcome.kind,
    cause: outcome.kind === "refused" ? outcome.cause : null,
    detail: outcome.kind === "accepted" ? null : outcome.detail,
    provider_message_id: outcome.kind === "accepted" ? (outcome.providerMessageId ?? null) : null,
    retry_after_seconds:
      outcome.kind === "throttled" && outcome.retryAfterMs !== undefined
        ? Math.ceil(outcome.retryAfterMs / 1_000)
        : null,
  };
}
