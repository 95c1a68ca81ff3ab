/**
 * Send: a code is owed to a phone.
 */
import { channelName, channelRefused, channelsFor, findChannel, type Channel } from "../otp/channel.ts";
import { saltBytes } from "../otp/message/code.ts";
import { decideSend, type SendFacts } from "../otp/decisions/sending.ts";
import { admitNumber, listedNumber } from "../otp/verification/destination.ts";
import { channelsAfter, fallbackMsDefault, type FallbackPlan } from "../otp/message/fallback.ts";
import type { KeyRing } from "../otp/keys/key-ring.ts";
import { judgeWebOriginOf } from "../otp/keys/origin.ts";
import { limitKeysOf, type LimitKey } from "../otp/limits/named-limit.ts";
import { parsePhoneNumber, phoneIndex, sealPhone, type E164 } from "../otp/phone-number.ts";
import type { Policy } from "../otp/verification/policy.ts";
import { ok, type Result } from "../otp/reason.ts";
import { isSandbox } from "../otp/message/sandbox.ts";
import type { SendView } from "../otp/decisions/standing.ts";
import { capsOf, type Cap } from "../otp/decisions/spending.ts";
import { canonicalBind } from "../otp/verification/verification.ts";
import type { OpenScope, PhoneRef } from "../store/store.ts";
import { randomText } from "../system.ts";
import { answer, claimOf, replaySent, type ActTools } from "./act.ts";
import type { BotGate } from "./callers/bot-gate.ts";
import type { Answer, Caller, FallbackAsked, SendCommand, Sent } from "./calls.ts";
import { bucketsOf, prefixRef } from "./phone-refs.ts";
import { keptIfSpent } from "./callers/call-limits.ts";

export interface SendTools extends ActTools {
  /** For the sends of pages; absent without a bot check. */
  readonly botGate: BotGate | undefined;
  /** The operator's order; absent where there is none. */
  readonly fallbackOrder?: FallbackPlan | undefined;
  /** Called for each send to a real phone that is PHONE_RATE_LIMITED. */
  readonly onLimited?: ((phone: E164, tenant: string) => void) | undefined;
}

const noLimitKeys: Result<readonly LimitKey[]> = { ok: true, value: [] };

export async function send(tools: SendTools, caller: Caller, command: SendCommand): Promise<Answer<Sent>> {
  const { store, tenantOf, keys, priceOf } = tools;
  const { tenant, isPublishable, address, permit, idempotencyKey } = caller;
  const botGate = isPublishable ? tools.botGate : undefined;
  const named = command.limitKeys === undefined ? noLimitKeys : limitKeysOf(keys, tenantOf(tenant), command.limitKeys);
  const facts = named.ok ? factsOf(tools, caller, command) : named;
  const claim = idempotencyKey === undefined ? undefined : claimOf(tools, caller, "SendOtp", fieldsOf(command));
  if (!facts.ok && claim === undefined) {
    permit?.giveBack();
    return answer(facts);
  }
  // Once for the whole send: the buckets that are loaded are those of the limits that are spent.
  const { policy, hasWebhooks } = tenantOf(tenant);
  const limitKeys = named.ok && !isSandbox(tenant) ? named.value : [];
  const scope: OpenScope = {
    tenant,
    slot: claim?.slot,
    phone: facts.ok
      ? {
          ...phoneRefOf(keys, policy, facts.value),
          limits: limitKeys.length === 0 ? undefined : limitKeys,
          hasWebhooks,
        }
      : undefined,
    number: facts.ok ? listedNumber(tenant, facts.value.phone.e164) : undefined,
    caps: facts.ok ? capsFor(facts.value, policy) : undefined,
  };
  const limited = permit?.refusal;
  const terms = { claim, policy, limited, isBeyond: permit?.isBeyond, limitKeys, priceOf };
  const decide = (view: SendView) => decideSend(view, facts, terms);
  const gated = { tenant, address, facts, claim, policy, token: command.challengeToken, limited };
  const deciding =
    botGate === undefined
      ? store.openVerification(scope, decide)
      : botGate(gated, () => store.openVerification(scope, decide));
  const decided = await (permit === undefined ? deciding : keptIfSpent(permit, deciding));
  if (decided.kind === "replay") return replaySent(tools, decided);
  if (decided.reached !== undefined) tools.onSpendWarnings(tenant, decided);
  if (decided.kind === "refused") {
    const { refusal } = decided;
    if (refusal.reason === "PHONE_RATE_LIMITED" && facts.ok && !isSandbox(tenant)) {
      tools.onLimited?.(facts.value.phone.e164, tenant);
    }
    return answer({ ok: false, refusal });
  }
  const isAskedAnew = botGate !== undefined && claim === undefined;
  return tools.handOver(decided, { callId: caller.callId, claim, isAskedAnew });
}

/** The caps that its message may be counted under. Where its channel does not suit the number, the next one is the first. */
function capsFor({ tenant, phone: { region }, channel, fallback }: SendFacts, policy: Policy): readonly Cap[] {
  const mayCall = channel === "voice" || fallback.channels.includes("voice");
  return capsOf(tenant, { region, channel: mayCall ? "voice" : channel }, policy);
}

/** Checks the form of a send: origin, channel, phone. Then draws and derives all that takes randomness or a key. */
function factsOf(
  { tenantOf, channelsOn, channelsUncapped = [], fallbackOrder, system, keys }: SendTools,
  caller: Caller,
  command: SendCommand,
): Result<SendFacts> {
  const { tenant, keyId } = caller;
  const { templates, origins } = tenantOf(tenant);
  const named = command.webOrigin === undefined ? undefined : judgeWebOriginOf(origins, command.webOrigin);
  if (named?.ok === false) return named;
  const offered = channelsFor(channelsOn, caller.channels);
  const uncapped = channelsFor(channelsUncapped, caller.channels);
  const name = channelName(command.channel);
  const channel = findChannel(name, offered);
  if (channel === undefined) return { ok: false, refusal: channelRefused(offered, { names: [name], uncapped }) };
  const fallback = planOf(command.fallback, channel, { offered, uncapped }, fallbackOrder);
  if (!fallback.ok) return fallback;
  const phone = admitNumber(tenant, parsePhoneNumber(command.phone));
  if (!phone.ok) return phone;
  const { e164, region } = phone.value;
  const id = randomText(system, 16);
  const { purpose, webOrigin, appHash, knownUser } = command;
  return ok({
    id,
    tenant,
    keyId,
    kid: keys.current.kid,
    salt: system.randomBytes(saltBytes),
    phone: phone.value,
    phoneIndex: phoneIndex(keys.current, tenant, e164),
    phoneBox: sealPhone(keys.current, id, e164),
    locale: templates.localeFor(command.locale, region),
    channel,
    purpose,
    bind: canonicalBind(command.bind),
    webOrigin,
    appHash,
    knownUser,
    fallback: fallback.value,
  });
}

/** Where a send goes on: by the channels that it names, else by those that come after its own in the operator's order. */
function planOf(
  { channels: named, afterMs }: FallbackAsked = { channels: undefined, afterMs: undefined },
  channel: Channel,
  { offered, uncapped }: { readonly offered: readonly Channel[]; readonly uncapped: readonly Channel[] },
  order: FallbackPlan | undefined,
): Result<FallbackPlan> {
  const wait = afterMs ?? order?.afterMs ?? fallbackMsDefault;
  if (named === undefined) {
    const others = order === undefined ? [] : channelsAfter(channel, order);
    return ok({ channels: others.filter((each) => offered.includes(each)), afterMs: wait });
  }
  const found = named.map((name) => findChannel(name, offered));
  const channels = found.filter((each) => each !== undefined);
  if (channels.length < found.length) {
    return { ok: false, refusal: channelRefused(offered, { field: "fallback_channels", names: named, uncapped }) };
  }
  return ok({ channels, afterMs: wait });
}

/** Where the phone of a new verification is kept: under every master key, the current one first. */
function phoneRefOf(keys: KeyRing, policy: Policy, facts: SendFacts): PhoneRef {
  const { tenant, phone, knownUser } = facts;
  const [, ...older] = keys.all;
  return {
    indexes: [facts.phoneIndex, ...older.map((key) => phoneIndex(key, tenant, phone.e164))],
    kid: keys.current.kid,
    knownUser,
    buckets: bucketsOf(tenant, policy),
    // A known user has passed a first factor: the pumping guard neither refuses nor counts such a send. Counted, anybody
    // with an account could verify a prefix clean.
    prefix: knownUser ? undefined : prefixRef(policy, tenant, () => phone.e164),
  };
}

/** What a repeat of the call has to have in common with it. */
function fieldsOf(command: SendCommand): string[] {
  const { phone, locale, purpose, bind, knownUser, webOrigin = "", appHash = "", limitKeys = {} } = command;
  const channel = channelName(command.channel);
  const fields = [phone, channel, locale, purpose, canonicalBind(bind), String(knownUser), webOrigin, appHash];
  // Fields that came later are there with their names, and only where they are given: a first call may be an older server's.
  const named = canonicalBind(limitKeys);
  if (named !== "") fields.push("limit_keys", named);
  const { channels, afterMs } = command.fallback ?? {};
  if (channels !== undefined) fields.push("fallback_channels", channels.join(","));
  if (afterMs !== undefined) fields.push("fallback_after", String(afterMs));
  return fields;
}
