/**
 * Resend: the same code is owed once more.
 */
import { dailyMaxOf } from "../otp/daily-cap.ts";
import { decideResend } from "../otp/decisions.ts";
import { listedNumber } from "../otp/destination.ts";
import { openPhone } from "../otp/phone-number.ts";
import type { UpdateScope } from "../store/store.ts";
import { answer, claimOf, policyOf, replaySent, scopeOf, type ActTools } from "./act.ts";
import type { Answer, Caller, Sent } from "./calls.ts";
import { keptIfSpent } from "./quotas.ts";

export async function resend(tools: ActTools, caller: Caller, id: string): Promise<Answer<Sent>> {
  const { store, keys } = tools;
  const { tenant, permit } = caller;
  const claim = claimOf(tools, caller, "ResendOtp", [id]);
  const policy = policyOf(tools, tenant);
  const scope: UpdateScope = {
    ...scopeOf(tools, caller, id, claim),
    withPrefix: true,
    numberOf: (v) => listedNumber(v.tenant, openPhone(keys, v.kid, v.id, v.phoneBox)),
    dailyMax: dailyMaxOf(tenant, policy),
  };
  const deciding = store.updateVerification(scope, (view) => decideResend(view, claim, policy, permit?.refusal));
  const decided = await (permit === undefined ? deciding : keptIfSpent(permit, deciding));
  if (decided.kind === "replay") return replaySent(tools, decided);
  if (decided.share !== undefined) tools.onDailyShare(tenant, decided.share);
  if (decided.kind === "refused") return answer({ ok: false, refusal: decided.refusal });
  return tools.handOver(decided, { claim });
}
