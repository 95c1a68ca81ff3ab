/**
 * The RPCs on providers: how each fares, and one fixed text by one of them. They are for admins of no tenant, since providers
 * serve all tenants alike.
 */
import { channelName, channels, defaultChannel, findChannel, type Channel } from "../../otp/channel.ts";
import type { KeyRing } from "../../otp/keys/key-ring.ts";
import { callOutcome } from "../../otp/verification/verification.ts";
import type { SendOutcome } from "../../otp/message/message.ts";
import { maskPhone, parsePhoneNumber, type PhoneNumber } from "../../otp/phone-number.ts";
import { providerName, providerReason } from "../../otp/message/provider-text.ts";
import { ok } from "../../otp/reason.ts";
import { defaultTenant, type TenantOf } from "../../otp/operators/tenant.ts";
import { readProviderShares } from "../../service/operators/provider-shares.ts";
import {
  actorTryLimit,
  tryLimit,
  tryProvider,
  type Tried,
  type TryOptions,
} from "../../service/operators/provider-tries.ts";
import type { RecentCalls } from "../../observe/recent-calls.ts";
import type { Store } from "../../store/store.ts";
import type { System } from "../../system.ts";
import { durationOf, type HandlersOf } from "./handlers.ts";
import { badField, notFound } from "./refusal.ts";

/** A provider of a channel. */
export interface AdminProvider {
  readonly name: string;
  readonly isClosed: () => boolean;
  /** Sends past the breaker: whoever tries a provider asks for its own answer. */
  readonly send: TryOptions["send"];
}

export interface ProviderDependencies {
  readonly store: Store;
  readonly system: System;
  readonly keys: KeyRing;
  readonly tenantOf: TenantOf;
  /** Those of a channel, in the order they are tried. */
  readonly listOf: (channel: Channel) => readonly AdminProvider[];
  /** The channels that messages go by. */
  readonly channelsOn: readonly Channel[];
  readonly recentCalls: RecentCalls;
  /** What a message of one segment costs, in millionths; undefined where that is not known. */
  readonly priceOf: (way: { country: string; channel: Channel; provider: string }) => number | undefined;
  readonly onTried: (provider: string, phone: PhoneNumber, outcome: SendOutcome) => void;
}

export function providerHandlers(options: ProviderDependencies): HandlersOf<"getProviders" | "tryProvider"> {
  const { store, system, keys, tenantOf, listOf, channelsOn, recentCalls, priceOf, onTried } = options;
  return {
    async getProviders() {
      const shares = await readProviderShares(store, (channel) => listOf(channel).map(({ name }) => name));
      const providers = shares.map(({ messages, delivered, cost, ...of }) => {
        const used = of.order === 0 ? undefined : listOf(of.channel)[of.order - 1];
        return {
          ...of,
          messages: BigInt(messages),
          delivered: BigInt(delivered),
          ...(cost === undefined ? {} : { cost: { micros: BigInt(cost.micros), currency: cost.currency } }),
          ...(used === undefined
            ? {}
            : { breakerOpen: !used.isClosed(), ...lastHour(recentCalls, of.name, of.channel) }),
        };
      });
      return ok({ providers });
    },

    async tryProvider({ name, phone: typed, channel: asked }, { author: by }) {
      if (!channels.some((channel) => listOf(channel).some((each) => each.name === name))) return notFound;
      const channel = asked === "" ? defaultChannel : findChannel(channelName(asked), channelsOn);
      const provider = channel && listOf(channel).find((each) => each.name === name);
      if (channel === undefined || provider === undefined) {
        return badField("channel", "must be one that this provider is used for");
      }
      const parsed = parsePhoneNumber(typed);
      if (!parsed.ok) return badField("phone", "is not a number in E.164, such as +31612345678");
      const { value: phone } = parsed;
      const { policy } = tenantOf(defaultTenant);
      const price = () => priceOf({ country: phone.region, channel, provider: name });
      const { send } = provider;
      const tried = await tryProvider({ store, system, keys, policy, by, provider: name, phone, channel, price, send });
      if (tried.kind === "refused") return { ok: false, refusal: { ...tried.refusal, field: "phone" } };
      if (tried.kind === "no room") return noRoom(tried);
      onTried(name, phone, tried.outcome);
      return ok(told(tried, phone));
    },
  };
}

function lastHour(recentCalls: RecentCalls, name: string, channel: Channel) {
  const { calls, failures, takenOver, passedOver, p50Ms, p99Ms } = recentCalls.read(name, channel);
  return {
    calls: BigInt(calls),
    failures: BigInt(failures),
    takenOver: BigInt(takenOver),
    passedOver: BigInt(passedOver),
    ...(p50Ms === undefined ? {} : { latencyP50: durationOf(p50Ms) }),
    ...(p99Ms === undefined ? {} : { latencyP99: durationOf(p99Ms) }),
  };
}

function noRoom({ by, retryAfterMs }: Extract<Tried, { kind: "no room" }>) {
  const message =
    by === "tries"
      ? `There are ${tryLimit.burst} tries a day, of which ${actorTryLimit.burst} are one key's or one user's.`
      : "A daily cap of the tenant default is reached.";
  const refusal = { reason: by === "tries" ? "KEY_RATE_LIMITED" : "SPEND_LIMIT", message, retryAfterMs } as const;
  return { ok: false, refusal } as const;
}

function told({ outcome, durationMs, remaining }: Extract<Tried, { kind: "tried" }>, phone: PhoneNumber) {
  return {
    outcome: callOutcome(outcome),
    detail: outcome.kind === "accepted" ? "" : withoutPhone(providerReason(outcome.detail) ?? "", phone),
    providerMessageId: outcome.kind === "accepted" ? (providerName(outcome.providerMessageId) ?? "") : "",
    duration: durationOf(durationMs),
    triesRemaining: remaining,
  };
}

/** A provider's words, which may quote the number in any of its spellings. */
function withoutPhone(words: string, { e164 }: PhoneNumber): string {
  return words.replace(/\+?\d(?:[ ().-]{0,2}\d){5,}/g, (run) => {
    const digits = run.replace(/\D/g, "").replace(/^0+/, "");
    return e164.endsWith(digits) || digits.endsWith(e164.slice(1)) ? maskPhone(e164) : run;
  });
}
