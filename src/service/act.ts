/**
 * What the acts of the service share: their dependencies, and how a repeated call is recognised and answered.
 */
import {
  idempotencyClaim,
  type IdempotencyClaim,
  type MutatingRpc,
  type StoredAnswer,
} from "../otp/verification/idempotency.ts";
import type { KeyRing } from "../otp/keys/key-ring.ts";
import type { Channel } from "../otp/channel.ts";
import { resendsLeft } from "../otp/verification/policy.ts";
import { ok, type Refusal, type Result } from "../otp/reason.ts";
import type { PriceOf, SpendWarnings } from "../otp/decisions/spending.ts";
import type { TenantOf } from "../otp/operators/tenant.ts";
import type { Replay } from "../otp/decisions/standing.ts";
import type { Verification } from "../otp/verification/verification.ts";
import type { PhoneOf, Store, UpdateScope } from "../store/store.ts";
import type { System } from "../system.ts";
import type { Answer, Caller, Sent } from "./calls.ts";
import { sentAt, type HandOver } from "./hand-over.ts";

export interface ActTools {
  readonly store: Store;
  readonly system: System;
  readonly keys: KeyRing;
  readonly tenantOf: TenantOf;
  readonly phoneOf: PhoneOf;
  readonly handOver: HandOver;
  /** The channels that a provider is configured for. */
  readonly channelsOn: readonly Channel[];
  /** Those that are not on for want of a daily cap alone. */
  readonly channelsUncapped?: readonly Channel[];
  /** Tells what a message may cost; absent without prices. */
  readonly priceOf?: PriceOf | undefined;
  /** Called with the outcome of each send and resend that reached a share of a cap: once a tenant and day for each share. */
  readonly onSpendWarnings: (tenant: string, warnings: SpendWarnings) => void;
}

/** The claim of a call, if it has an Idempotency-Key. `fields` are the request's, in a fixed order. */
export function claimOf(
  { keys }: Pick<ActTools, "keys">,
  { tenant, keyId, idempotencyKey: key }: Caller,
  rpc: MutatingRpc,
  fields: readonly string[],
): IdempotencyClaim | undefined {
  return key === undefined ? undefined : idempotencyClaim(keys, { tenant, keyId, rpc, key }, fields);
}

/** Where the store finds the verification of a call. */
export function scopeOf(
  { phoneOf }: Pick<ActTools, "phoneOf">,
  { tenant }: Caller,
  id: string,
  claim: IdempotencyClaim | undefined,
): UpdateScope {
  return { tenant, id, slot: claim?.slot, phoneOf };
}

/** The refusal that a repeated call was answered with first, if it was refused. */
export function storedRefusal(decided: {
  readonly kind: string;
  readonly answer?: StoredAnswer | null;
}): Refusal | undefined {
  return decided.kind === "replay" ? decided.answer?.refusal : undefined;
}

/** What there is to tell of a verification now. */
export async function sentNow({ store, tenantOf, phoneOf }: ActTools, verification: Verification): Promise<Sent> {
  const { policy } = tenantOf(verification.tenant);
  const now = store.now();
  const ref = phoneOf(verification);
  // In the sandbox one number may have all requests, and reading it would take as long as there are of them.
  const isLimited = ref.buckets > 0 && resendsLeft(verification, policy, now).count > 0;
  const tatsMs = isLimited ? (await store.readPhone(ref)).tats : [];
  return sentAt(verification, policy, now, tatsMs);
}

/** The first answer of a repeated send or resend. */
export async function replaySent(tools: ActTools, replayed: Replay): Promise<Answer<Sent>> {
  const refusal = storedRefusal(replayed);
  if (refusal !== undefined) return replay({ ok: false, refusal });
  const { verification, answer: first } = replayed;
  // The first call crashed before it could record its answer: the verification as it is now is the answer.
  if (first?.sent === undefined) return replay(ok(await sentNow(tools, verification)));
  const { id, digits, expireMs } = verification;
  return replay(ok({ id, digits, expireMs, at: first.at, ...first.sent }));
}

/** An answer of this call's own. */
export function answer<T>(result: Result<T>): Answer<T> {
  return { result, replayed: false };
}

/** An answer that an earlier call was given. */
export function replay<T>(result: Result<T>): Answer<T> {
  return { result, replayed: true };
}
