/**
 * The pass of a bot check: that a call passed it, kept until the call is accepted. A browser's token is good for one check, so
 * a call that is retried unchanged could not pass again.
 *
 * A pass is a record under the call's Idempotency-Key. It is good for ten minutes, on every instance, for the same
 * tenant, API key, Idempotency-Key and request alone. It is good for one accepted send, since that send's own record
 * takes its place.
 */
import type { Instant } from "../../system.ts";
import { newRecord, type IdempotencyClaim, type IdempotencyRecord } from "../verification/idempotency.ts";
import { precedentFor, type SendView } from "./standing.ts";
import { nothing, type Decided } from "./writes.ts";

export const passKeptMs = 600_000;

/** The id that no verification has: a pass refers to none. */
const noVerification = "A".repeat(22);

/** Until when a record lets this very request pass; undefined where it does not. Pure. */
export function passOf(
  claim: IdempotencyClaim,
  record: IdempotencyRecord | undefined,
  now: Instant,
): Instant | undefined {
  if (record?.answer?.isPass !== true || record.expireMs <= now) return undefined;
  const mine = claim.fingerprints.find(({ kid }) => kid === record.kid);
  return mine !== undefined && Buffer.compare(mine.mac, record.fingerprint) === 0 ? record.expireMs : undefined;
}

/** Keeps a pass, unless another call with the same Idempotency-Key was accepted meanwhile. Pure. */
export function decidePass(view: SendView, claim: IdempotencyClaim): Decided<void> {
  if (precedentFor(view, claim, view.recorded) !== undefined) return nothing(undefined);
  return { writes: { record: newPass(claim, view.now + passKeptMs, view.now) }, result: undefined };
}

/** Gives a pass back for a send that came to nothing: it is in the place of that send's own record again. Pure. */
export function decidePassBack(
  view: SendView,
  claim: IdempotencyClaim,
  verificationId: string,
  untilMs: Instant,
): Decided<void> {
  if (view.record?.verificationId !== verificationId) return nothing(undefined);
  return { writes: { record: newPass(claim, untilMs, view.now) }, result: undefined };
}

function newPass(claim: IdempotencyClaim, untilMs: Instant, now: Instant): IdempotencyRecord {
  return { ...newRecord(claim, noVerification, { at: now, isPass: true }, now), expireMs: untilMs };
}
