/**
 * Resend: the same code is owed once more.
 */
import { channelName, channels, channelsFor, findChannel } from "../otp/channel.ts";
import { listedNumber } from "../otp/verification/destination.ts";
import { openPhone, readNumber, type E164 } from "../otp/phone-number.ts";
import { decideResend } from "../otp/decisions/resending.ts";
import { capsOf } from "../otp/decisions/spending.ts";
import type { Verification } from "../otp/verification/verification.ts";
import type { UpdateScope } from "../store/store.ts";
import { answer, claimOf, replaySent, scopeOf, type ActTools } from "./act.ts";
import type { Answer, Caller, ResendCommand, Sent } from "./calls.ts";
import { keptIfSpent } from "./callers/call-limits.ts";

export async function resend(tools: ActTools, caller: Caller, { id, channel }: ResendCommand): Promise<Answer<Sent>> {
  const { store, keys, tenantOf, channelsOn, channelsUncapped = [], priceOf } = tools;
  const { tenant, permit } = caller;
  const asked = channel === "" ? undefined : channelName(channel);
  // Without a channel it is the request of those who know of none.
  const claim = claimOf(tools, caller, "ResendOtp", asked === undefined ? [id] : [id, asked]);
  const { policy } = tenantOf(tenant);
  const phoneOf = (v: Verification): E164 => openPhone(keys, v.kid, v.id, v.phoneBox);
  const scope: UpdateScope = {
    ...scopeOf(tools, caller, id, claim),
    withPrefix: true,
    numberOf: (v) => listedNumber(v.tenant, phoneOf(v)),
    capsOf: ({ region, channel: own }) =>
      capsOf(tenant, { region, channel: findChannel(asked ?? own, channels) ?? own }, policy),
  };
  const facts = {
    channel: asked,
    offered: channelsFor(channelsOn, caller.channels),
    uncapped: channelsFor(channelsUncapped, caller.channels),
    numberOf: (v: Verification) => readNumber(phoneOf(v)),
  };
  const terms = { claim, policy, limited: permit?.refusal, isBeyond: permit?.isBeyond, priceOf };
  const deciding = store.updateVerification(scope, (view) => decideResend(view, facts, terms));
  const decided = await (permit === undefined ? deciding : keptIfSpent(permit, deciding));
  if (decided.kind === "replay") return replaySent(tools, decided);
  tools.onSpendWarnings(tenant, decided);
  if (decided.kind === "refused") return answer({ ok: false, refusal: decided.refusal });
  return tools.handOver(decided, { callId: caller.callId, claim });
}
