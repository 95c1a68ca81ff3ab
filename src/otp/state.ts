/**
 * Where a verification stands, and the reason that is answered once it has ended.
 */
import type { Reason } from "./reason.ts";

/** PENDING leaves once, for one of the others; those never change. */
export type State = "PENDING" | "VERIFIED" | "EXPIRED" | "LOCKED" | "CANCELED" | "FAILED";

const terminalReasons = {
  VERIFIED: "OTP_ALREADY_VERIFIED",
  EXPIRED: "OTP_EXPIRED",
  LOCKED: "OTP_LOCKED",
  CANCELED: "OTP_CANCELED",
  FAILED: "OTP_FAILED",
} as const satisfies Record<Exclude<State, "PENDING">, Reason>;

export function terminalReason(state: Exclude<State, "PENDING">): Reason {
  return terminalReasons[state];
}
