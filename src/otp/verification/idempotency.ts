/**
 * Idempotency keys: a call that is repeated with the same `Idempotency-Key` gets the same answer and spends nothing.
 *
 * No response is kept for the 24 hours, but a reference: which verification, and the few particulars from which the
 * answer is built again. The request is remembered as a keyed fingerprint: an unkeyed hash of a verify's body would be
 * a hash of the code, reversible in a second. The caller's key is remembered in the same way, since it may be `send-`
 * and a number.
 */
import type { Instant } from "../../system.ts";
import { digest, hmac, type KeyRing } from "../keys/key-ring.ts";
import type { Delivery } from "../message/message.ts";
import { refuse, type Reason, type Refusal } from "../reason.ts";
import type { State } from "../state.ts";

export const idempotencyKeptMs = 86_400_000;

/** A first call that has noted no answer by then is taken for crashed. Repeats are answered from what it wrote. */
export const idempotencyBusyMs = 20_000;

/** The RPCs that take an Idempotency-Key. */
export type MutatingRpc = "SendOtp" | "VerifyOtp" | "ResendOtp" | "CancelOtp";

/** Where what is stored under an Idempotency-Key is. */
export interface Slot {
  /**
   * 16 bytes, from tenant, API key, RPC and the caller's key, without a master key: the same for every instance, so
   * locks go by it. It is stored nowhere; earlier versions did so.
   */
  readonly digest: Uint8Array;
  /**
   * The names under which a record may be stored: the digest's HMAC under every configured master key (20 bytes), the
   * current one first, and at last the digest itself.
   */
  readonly names: readonly Uint8Array[];
}

export type SlotOf = (digest: Uint8Array) => Slot;

/** What a repeated call is recognised by. */
export interface IdempotencyClaim {
  readonly slot: Slot;
  /** The fingerprint of the request under every configured master key, the current one first. */
  readonly fingerprints: readonly { readonly kid: number; readonly mac: Uint8Array }[];
}

/** What is stored of a first call. */
export interface IdempotencyRecord {
  /** One of its slot's names. */
  readonly slot: Uint8Array;
  readonly kid: number;
  readonly fingerprint: Uint8Array;
  readonly verificationId: string;
  /** The answer's particulars, or null while the first call is still running. */
  readonly answer: StoredAnswer | null;
  readonly busyUntilMs: Instant;
  readonly expireMs: Instant;
}

/** What a send or a resend told that changes afterwards. */
export interface SentThen {
  readonly state: State;
  readonly delivery: Delivery;
  /** Null when no resend was left. */
  readonly nextResendMs: Instant | null;
  readonly resendsRemaining: number;
}

/** The part of an answer that the verification's row cannot tell later. Holds neither code nor phone. */
export interface StoredAnswer {
  readonly at: Instant;
  readonly refusal?: Refusal;
  readonly sent?: SentThen;
  /** True for none at all: the call has only passed the bot check (bot-pass.ts). */
  readonly isPass?: true;
}

const digestBytes = 16;
const nameBytes = 20;

export function slotsUnder(keys: KeyRing): SlotOf {
  return (bare) => ({
    digest: bare,
    names: [...keys.all.map((key) => hmac(key.idempotencySlot, bare).subarray(0, nameBytes)), bare],
  });
}

/** True of a name that is a digest itself: whoever has it can try numbers. Pure. */
export function isBare(name: Uint8Array): boolean {
  return name.length === digestBytes;
}

/** The record that counts of those under a slot's names, which are in the names' order. Pure. */
export function latestOf(records: readonly IdempotencyRecord[]): IdempotencyRecord | undefined {
  return records.reduce<IdempotencyRecord | undefined>(
    (latest, record) => (latest === undefined || record.expireMs > latest.expireMs ? record : latest),
    undefined,
  );
}

/**
 * The record for a slot's keyed name, which replaces those that were found, at least one of them under the bare digest.
 * Undefined while a call is under way: the instance that has it may know the digest alone. Pure.
 */
export function keyed(slot: Slot, found: readonly IdempotencyRecord[], now: Instant): IdempotencyRecord | undefined {
  const latest = latestOf(found);
  if (latest === undefined || (latest.answer === null && now < latest.busyUntilMs)) return undefined;
  return { ...latest, slot: currentNameOf(slot) };
}

/** The name that is written. Pure. */
function currentNameOf({ names: [name] }: Slot): Uint8Array {
  if (name === undefined) throw new Error("a slot has a name under the current key");
  return name;
}

/** Recognises a call. `fields` are the request's fields in a fixed order. Pure. */
export function idempotencyClaim(
  keys: KeyRing,
  scope: { readonly tenant: string; readonly keyId: string; readonly rpc: MutatingRpc; readonly key: string },
  fields: readonly string[],
): IdempotencyClaim {
  return {
    slot: slotsUnder(keys)(digest(scope.tenant, scope.keyId, scope.rpc, scope.key).subarray(0, digestBytes)),
    fingerprints: keys.all.map((key) => ({ kid: key.kid, mac: hmac(key.fingerprint, ...fields).subarray(0, 16) })),
  };
}

/** What an earlier call with the same key means for this one. */
export type Precedent =
  /** None: go on. */
  | { readonly kind: "none" }
  /** Answer this again. */
  | { readonly kind: "replay"; readonly record: IdempotencyRecord }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** Judges a call by what is stored under its key. Pure. */
export function precedentOf(claim: IdempotencyClaim, record: IdempotencyRecord | undefined, now: Instant): Precedent {
  if (record === undefined || record.expireMs <= now || record.answer?.isPass === true) return { kind: "none" };
  const mine = claim.fingerprints.find(({ kid }) => kid === record.kid);
  if (mine === undefined || Buffer.compare(mine.mac, record.fingerprint) !== 0) {
    return { kind: "refused", ...pick("IDEMPOTENCY_KEY_REUSED") };
  }
  if (record.answer === null && now < record.busyUntilMs) {
    return { kind: "refused", ...pick("IDEMPOTENCY_IN_PROGRESS", 1000) };
  }
  return { kind: "replay", record };
}

function pick(reason: Reason, retryAfterMs?: number): { refusal: Refusal } {
  return { refusal: refuse(reason, retryAfterMs === undefined ? {} : { retryAfterMs }).refusal };
}

/** The record of a first call; `answer` null while it is still running. Pure. */
export function newRecord(
  claim: IdempotencyClaim,
  verificationId: string,
  answer: StoredAnswer | null,
  now: Instant,
): IdempotencyRecord {
  const [fingerprint] = claim.fingerprints;
  if (fingerprint === undefined) throw new Error("a claim has a fingerprint under the current key");
  return {
    slot: currentNameOf(claim.slot),
    kid: fingerprint.kid,
    fingerprint: fingerprint.mac,
    verificationId,
    answer,
    busyUntilMs: now + idempotencyBusyMs,
    expireMs: now + idempotencyKeptMs,
  };
}

/** What a decision writes for a call that may have an Idempotency-Key: its record, or nothing. Pure. */
export function recordOf(
  claim: IdempotencyClaim | undefined,
  verificationId: string,
  answer: StoredAnswer | null,
  now: Instant,
): { readonly record?: IdempotencyRecord } {
  return claim === undefined ? {} : { record: newRecord(claim, verificationId, answer, now) };
}
