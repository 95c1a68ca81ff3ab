/**
 * From a message that is owed to the answer of its call: the message is handed over, its provider gets a little time,
 * and the answer is recorded under the call's Idempotency-Key.
 */
import { decidePassBack } from "../otp/decisions/bot-pass.ts";
import type { IdempotencyClaim } from "../otp/verification/idempotency.ts";
import { isDone, isProvenUnsent, type Message } from "../otp/message/message.ts";
import { resendsLeft, type Policy } from "../otp/verification/policy.ts";
import { ok, refuse, type Refusal } from "../otp/reason.ts";
import type { Settled } from "../otp/decisions/settlement.ts";
import type { TenantOf } from "../otp/operators/tenant.ts";
import { latestCopy, stateAt, type Verification } from "../otp/verification/verification.ts";
import type { Job, Store } from "../store/store.ts";
import { inTime, type Instant, type System } from "../system.ts";
import type { Answer, Sent } from "./calls.ts";

/** A claimed message. */
export interface OwedJob extends Job {
  /** The TATs of its phone's buckets, this message spent. */
  readonly tatsMs: readonly Instant[];
  /** Until when its send's pass of the bot check is good. */
  readonly passUntilMs?: Instant | undefined;
}

export interface HandOverOptions {
  readonly store: Store;
  readonly system: Pick<System, "after">;
  readonly tenantOf: TenantOf;
  /** Called with each message that is owed and committed. */
  readonly onOwed?: ((job: Job) => void) | undefined;
  /** Hands a claimed message over; resolves with what became of it, or undefined when that takes longer than `waitMs`. */
  readonly deliver: (job: Job, waitMs: number) => Promise<Settled | undefined>;
  /** How long a send waits for a provider's answer, 0 or more. */
  readonly sendWaitMs: number;
}

/** The call that a message is handed over for. */
export interface OwingCall {
  /** Its id in logs. */
  readonly callId: string | undefined;
  readonly claim: IdempotencyClaim | undefined;
  /** True for a send whose retry the bot check asks once more. */
  readonly isAskedAnew?: boolean;
}

/** Hands a message over, and makes its call's answer. */
export type HandOver = (job: OwedJob, call: OwingCall) => Promise<Answer<Sent>>;

/** How a verification stands, and its message where that tells something. */
type Looked = Pick<Settled, "verification"> & { readonly message: Message | undefined };

/** How long the look after the wait may take. */
const lookMs = 500;
/** The wait that DELIVERY_FAILED asks for. */
const deliveryRetryMs = 5_000;

const withNewToken = "No provider could take the message. Try again with a new challenge_token.";

export function createHandOver({ store, system, tenantOf, onOwed, deliver, sendWaitMs }: HandOverOptions): HandOver {
  /** DELIVERY_FAILED says "retry unchanged": the retry is a first call again, with the pass that this one had. */
  function recordUndelivered({ verification, passUntilMs }: OwedJob, claim: IdempotencyClaim, refusal: Refusal) {
    const { tenant, id } = verification;
    if (refusal.reason !== "DELIVERY_FAILED") return store.noteAnswer(claim.slot, id, { at: store.now(), refusal });
    if (passUntilMs === undefined) return store.noteAnswer(claim.slot, id, null);
    const scope = { tenant, slot: claim.slot, phone: undefined };
    return store.openVerification(scope, (view) => decidePassBack(view, claim, id, passUntilMs));
  }

  /**
   * How a verification stands whose message was not heard of, as after a second try by another instance; and its message, if that is
   * still the latest and a provider has spoken. Undefined where nobody can tell: the message is owed all the same.
   */
  async function look({ verification: { tenant, id }, message: { copy } }: Job): Promise<Looked | undefined> {
    try {
      const messages = await store.readMessages(id);
      const verification = await store.readVerification(tenant, id);
      if (verification === undefined) return undefined;
      const message = messages.at(-1);
      const isLatest = message?.copy === copy && latestCopy(verification) <= copy;
      // One that was given up before it left says nothing of providers.
      const isTold = message !== undefined && isDone(message) && message.delivery !== "EXPIRED";
      return { verification, message: isTold && (isLatest || verification.state === "FAILED") ? message : undefined };
    } catch {
      return undefined;
    }
  }

  return async (job, { callId, claim, isAskedAnew = false }) => {
    const { verification } = job;
    onOwed?.(job);
    const heard = await deliver({ ...job, callId }, sendWaitMs);
    const settled = heard ?? (sendWaitMs > 0 ? await inTime(system, lookMs, look(job)) : undefined);
    // By another channel the code may be on its way yet.
    const isNextOwed = (settled?.verification.fallback?.dueMs ?? null) !== null;
    if (settled?.message !== undefined && isProvenUnsent(settled.message) && !isNextOwed) {
      const { refusal } = settled.message.recipientRefused
        ? refuse("PHONE_UNREACHABLE", { field: "phone" })
        : refuse("DELIVERY_FAILED", {
            retryAfterMs: deliveryRetryMs,
            ...(isAskedAnew ? { message: withNewToken } : {}),
          });
      if (claim !== undefined) await recordUndelivered(job, claim, refusal);
      return { result: { ok: false, refusal }, replayed: false };
    }
    const { policy } = tenantOf(verification.tenant);
    const sent = sentAt(settled?.verification ?? verification, policy, store.now(), job.tatsMs);
    const { at, state, delivery, nextResendMs, resendsRemaining } = sent;
    const kept = { at, sent: { state, delivery, nextResendMs, resendsRemaining } };
    if (claim !== undefined) await store.noteAnswer(claim.slot, verification.id, kept);
    return { result: ok(sent), replayed: false };
  };
}

/** A verification as a send or a resend answers it, with its phone's buckets as they are then. Pure. */
export function sentAt(v: Verification, policy: Policy, at: Instant, tatsMs: readonly Instant[]): Sent {
  const { count, nextMs } = resendsLeft(v, policy, at, tatsMs);
  return {
    id: v.id,
    state: stateAt(v, at),
    delivery: v.delivery,
    digits: v.digits,
    expireMs: v.expireMs,
    nextResendMs: nextMs,
    resendsRemaining: count,
    at,
  };
}
