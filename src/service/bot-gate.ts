/**
 * Where the bot check stands in a send: behind whatever refuses it anyway, and before anything is spent. What a browser
 * brings is good for one question, so a repeat is answered without asking again, and of two calls at once under one
 * Idempotency-Key only one asks. A yes is kept under that key before the send goes on (otp/bot-pass.ts): whatever becomes
 * of the send, its retry is not asked.
 */
import { decidePass } from "../otp/bot-pass.ts";
import { decideAdmission, type SendFacts, type SendResult } from "../otp/decisions.ts";
import { listedNumber } from "../otp/destination.ts";
import { newRecord, precedentOf, type IdempotencyClaim, type IdempotencyRecord } from "../otp/idempotency.ts";
import type { Policy } from "../otp/policy.ts";
import type { Refusal, Result } from "../otp/reason.ts";
import type { Secret } from "../otp/secret.ts";
import type { Store } from "../store/store.ts";
import type { BotCheck } from "./bot-check.ts";

/** A send on its way. */
export interface Visitor {
  readonly tenant: string;
  /** True if anybody may hold its API key. Only then it is asked for proof. */
  readonly isPublishable: boolean;
  readonly address?: string | undefined;
  readonly brought: Secret;
  readonly facts: Result<SendFacts>;
  readonly claim: IdempotencyClaim | undefined;
  readonly policy: Policy;
  /** What the limits of its address have to say, if they refuse: the far end is not asked for those. */
  readonly limited?: Refusal | undefined;
}

/** Runs `open` once a visitor has passed; answers instead of it for one who has not, or who was here before. */
export type BotGate = (visitor: Visitor, open: () => Promise<SendResult>) => Promise<SendResult>;

/** Makes the gate. Without a check everybody passes. */
export function createBotGate(store: Store, check: BotCheck | undefined): BotGate {
  if (check === undefined) return (_, open) => open();
  /** First calls that are being asked about, by their slot: nothing is stored of them yet. */
  const asking = new Map<string, IdempotencyRecord>();

  const ask: BotGate = async ({ tenant, facts, claim, policy, brought, address, limited }, open) => {
    const number = facts.ok ? listedNumber(tenant, facts.value.phone.e164) : undefined;
    const scope = { tenant, slot: claim?.slot, phone: undefined, number };
    const admitted = await store.openVerification(scope, (view) => decideAdmission(view, facts, claim, policy));
    if (admitted.kind !== "admitted") return admitted;
    if (limited !== undefined) return { kind: "refused", refusal: limited };
    if (admitted.passUntilMs !== undefined) return open();
    const refusal = await check(brought, address);
    if (refusal !== undefined) return { kind: "refused", refusal };
    if (claim !== undefined) await store.openVerification(scope, (view) => decidePass(view, claim));
    return open();
  };

  return async (visitor, open) => {
    const { isPublishable, claim } = visitor;
    if (!isPublishable) return open();
    if (claim === undefined) return ask(visitor, open);
    const name = Buffer.from(claim.slot.digest).toString("base64url");
    const now = store.now();
    const precedent = precedentOf(claim, asking.get(name), now);
    if (precedent.kind === "refused") return precedent;
    asking.set(name, newRecord(claim, "", null, now));
    try {
      // To the end of opening: from then on the store knows of it.
      return await ask(visitor, open);
    } finally {
      asking.delete(name);
    }
  };
}
