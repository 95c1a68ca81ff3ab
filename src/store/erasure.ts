/**
 * The part of the store port that erases verifications before their time.
 */
import type { Verification } from "../otp/verification/verification.ts";

export interface Erased {
  readonly verifications: number;
  /** Events that waited for an endpoint. */
  readonly events: number;
}

export interface Erasure {
  /**
   * Deletes verifications that have ended, up to 100, with their messages, the events that wait about them and the answers
   * under Idempotency-Keys. Their phones' limits and wrong codes stay under their indexes. Those that are pending are left
   * alone. Other processes know nothing of them from their next act on. Safe to repeat.
   */
  erase(verifications: readonly Verification[]): Promise<Erased>;
}
