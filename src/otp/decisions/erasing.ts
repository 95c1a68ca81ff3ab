/**
 * The end of a verification whose phone is to be erased: a pending one is canceled, so that its outcome counts and
 * nothing of it is sent any more.
 */
import type { UpdateView } from "./standing.ts";
import { end, expire, stateAt } from "../verification/verification.ts";
import { nothing, type Decided } from "./writes.ts";

/** Decides whether it had to be canceled. One whose time is over expires instead. Pure, and safe to repeat. */
export function decideErase({ verification, now }: UpdateView): Decided<{ readonly wasPending: boolean }> {
  if (verification?.state !== "PENDING") return nothing({ wasPending: false });
  const wasPending = stateAt(verification, now) === "PENDING";
  return {
    writes: { verification: wasPending ? end(verification, "CANCELED", now) : expire(verification) },
    result: { wasPending },
  };
}
