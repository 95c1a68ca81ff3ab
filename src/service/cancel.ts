/**
 * Cancel: a code is not to work any more.
 */
import { decideCancel } from "../otp/decisions.ts";
import { ok } from "../otp/reason.ts";
import { answer, claimOf, scopeOf, type ActTools } from "./act.ts";
import type { Answer, Caller, Canceled } from "./calls.ts";

export async function cancel(tools: ActTools, caller: Caller, id: string): Promise<Answer<Canceled>> {
  const claim = claimOf(tools, caller, "CancelOtp", [id]);
  const decided = await tools.store.updateVerification(scopeOf(tools, caller, id, claim), (view) =>
    decideCancel(view, claim),
  );
  if (decided.kind === "refused") return answer({ ok: false, refusal: decided.refusal });
  const { verification } = decided;
  const canceled = { id: verification.id, cancelMs: verification.endMs ?? verification.createMs };
  return { result: ok(canceled), replayed: decided.kind === "replay" };
}
