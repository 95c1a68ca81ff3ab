/**
 * Verify: the code that was typed is compared.
 */
import { decideVerify, type VerifyResult } from "../otp/decisions/verifying.ts";
import { openPhone } from "../otp/phone-number.ts";
import { ok } from "../otp/reason.ts";
import { receiptOf } from "../otp/verification/receipt.ts";
import { realTenantOf } from "../otp/message/sandbox.ts";
import { canonicalBind } from "../otp/verification/verification.ts";
import { answer, claimOf, replay, scopeOf, storedRefusal, type ActTools } from "./act.ts";
import type { Answer, Caller, Verified, VerifyCommand } from "./calls.ts";

export interface VerifyTools extends ActTools {
  /** Who vouches in receipts: their `iss`. */
  readonly issuer: string;
  /** Called with the decision of each verify, for metrics; also of one that only repeats an earlier answer. */
  readonly onVerify?: ((decided: VerifyResult, tenant: string) => void) | undefined;
}

export async function verify(tools: VerifyTools, caller: Caller, command: VerifyCommand): Promise<Answer<Verified>> {
  const { store, keys, tenantOf, issuer } = tools;
  const { id, code, purpose } = command;
  const bind = canonicalBind(command.bind);
  const claim = claimOf(tools, caller, "VerifyOtp", [id, code.reveal(), purpose, bind]);
  const { policy } = tenantOf(caller.tenant);
  const decided = await store.updateVerification(scopeOf(tools, caller, id, claim), (view) =>
    decideVerify(view, { code, purpose, bind }, { claim, keys, policy }),
  );
  tools.onVerify?.(decided, caller.tenant);
  if (decided.kind === "refused") return answer({ ok: false, refusal: decided.refusal });
  const stored = storedRefusal(decided);
  if (stored !== undefined) return replay({ ok: false, refusal: stored });
  const { verification: v } = decided;
  const phone = openPhone(keys, v.kid, v.id, v.phoneBox);
  // A repeat gets the first answer's receipt, though another master key may be current by now.
  const signer = (decided.kind === "replay" ? keys.find(decided.kid) : undefined) ?? keys.current;
  const { audience } = tenantOf(realTenantOf(v.tenant));
  const receipt = receiptOf(signer, v, phone, { issuer, audience });
  const verified = { id: v.id, phone, verifyMs: v.endMs ?? v.createMs, receipt };
  return { result: ok(verified), replayed: decided.kind === "replay" };
}
