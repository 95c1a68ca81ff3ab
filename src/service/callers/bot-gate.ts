/**
 * Where the bot check stands in a send: after everything that refuses the send without a check, and before anything is
 * spent. A token is good for one check. So a repeat is answered without one, and of two calls at once under one
 * Idempotency-Key only one is checked. A pass is stored under that key before the send goes on (otp/decisions/bot-pass.ts): a
 * retry is not checked, whatever became of the send.
 */
import { decidePass } from "../../otp/decisions/bot-pass.ts";
import { decideAdmission, type SendFacts, type SendResult } from "../../otp/decisions/sending.ts";
import { listedNumber } from "../../otp/verification/destination.ts";
import {
  newRecord,
  precedentOf,
  type IdempotencyClaim,
  type IdempotencyRecord,
} from "../../otp/verification/idempotency.ts";
import type { Policy } from "../../otp/verification/policy.ts";
import type { Refusal, Result } from "../../otp/reason.ts";
import type { Secret } from "../../otp/keys/secret.ts";
import type { Store } from "../../store/store.ts";
import type { BotCheck } from "./bot-check.ts";

/** A page's send before the bot check. Anybody may hold its key, and only such a send is checked. */
export interface GatedSend {
  readonly tenant: string;
  readonly address?: string | undefined;
  readonly token: Secret;
  readonly facts: Result<SendFacts>;
  readonly claim: IdempotencyClaim | undefined;
  readonly policy: Policy;
  /** The refusal of its address's limit, if that refuses: such a send is not checked. */
  readonly limited?: Refusal | undefined;
}

/** Runs `open` for a send that passes. Answers instead of it for one that does not, and for a repeat. */
export type BotGate = (gated: GatedSend, open: () => Promise<SendResult>) => Promise<SendResult>;

export function createBotGate(store: Store, check: BotCheck): BotGate {
  /** First calls that are being checked, by their slot: nothing is stored of them yet. */
  const checking = new Map<string, IdempotencyRecord>();

  const pass: BotGate = async ({ tenant, facts, claim, policy, token, address, limited }, open) => {
    const number = facts.ok ? listedNumber(tenant, facts.value.phone.e164) : undefined;
    const scope = { tenant, slot: claim?.slot, phone: undefined, number };
    const admitted = await store.openVerification(scope, (view) => decideAdmission(view, facts, claim, policy));
    if (admitted.kind !== "admitted") return admitted;
    if (limited !== undefined) return { kind: "refused", refusal: limited };
    if (admitted.passUntilMs !== undefined) return open();
    const refusal = await check(token, address);
    if (refusal !== undefined) return { kind: "refused", refusal };
    if (claim !== undefined) await store.openVerification(scope, (view) => decidePass(view, claim));
    return open();
  };

  return async (gated, open) => {
    const { claim } = gated;
    if (claim === undefined) return pass(gated, open);
    const name = Buffer.from(claim.slot.digest).toString("base64url");
    const now = store.now();
    const precedent = precedentOf(claim, checking.get(name), now);
    if (precedent.kind === "refused") return precedent;
    checking.set(name, newRecord(claim, "", null, now));
    try {
      // Until it is opened: from then on the store knows of it.
      return await pass(gated, open);
    } finally {
      checking.delete(name);
    }
  };
}
