/**
 * Get: how a verification stands.
 */
import { openPhone } from "../otp/phone-number.ts";
import { ok, refuse } from "../otp/reason.ts";
import { terminalReason } from "../otp/state.ts";
import { messageShown } from "../otp/verification/verification.ts";
import { answer, sentNow, type ActTools } from "./act.ts";
import type { Answer, Caller, Seen } from "./calls.ts";

export async function get(tools: ActTools, caller: Caller, id: string): Promise<Answer<Seen>> {
  const { store, keys } = tools;
  const v = await store.readVerification(caller.tenant, id);
  if (v === undefined) return answer(refuse("REQUEST_NOT_FOUND"));
  const sent = await sentNow(tools, v);
  const { state } = sent;
  const messages = await store.readMessages(v.id);
  return answer(
    ok({
      ...sent,
      phone: openPhone(keys, v.kid, v.id, v.phoneBox),
      reason: state === "PENDING" ? undefined : terminalReason(state),
      channel: v.channel,
      purpose: v.purpose,
      createMs: v.createMs,
      endMs: v.endMs ?? (state === "EXPIRED" ? v.expireMs : null),
      attemptsRemaining: state === "PENDING" ? v.attemptsMax - v.attempts : 0,
      messages,
      latest: messageShown(v, messages),
    }),
  );
}
