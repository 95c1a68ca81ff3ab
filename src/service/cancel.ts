/**
 * Cancel: a code is to work no more.
 */
import type { Noted } from "../otp/operators/audit.ts";
import { decideCancel, type CancelResult } from "../otp/decisions/canceling.ts";
import { ok } from "../otp/reason.ts";
import type { Verification } from "../otp/verification/verification.ts";
import { audited } from "../otp/decisions/writes.ts";
import { answer, claimOf, scopeOf, type ActTools } from "./act.ts";
import type { Answer, Caller, Canceled } from "./calls.ts";

/** Cancels as an operator does: the entry of the audit is committed with the end, and there is none where it had ended. */
export function cancelNoted(
  { store, phoneOf }: Pick<ActTools, "store" | "phoneOf">,
  { tenant, id }: Pick<Verification, "tenant" | "id">,
  noted: Noted,
): Promise<CancelResult> {
  return store.updateVerification({ tenant, id, slot: undefined, phoneOf }, (view) => {
    const decided = decideCancel(view, undefined);
    return audited(decided, decided.writes.verification && noted, view.now);
  });
}

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
