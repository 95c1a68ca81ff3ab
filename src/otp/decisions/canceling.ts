/**
 * The decision about a cancel. What any decision is, sending.ts says.
 */
import { recordOf, type IdempotencyClaim } from "../verification/idempotency.ts";
import { end, type Verification } from "../verification/verification.ts";
import type { Refused } from "./spending.ts";
import { decidedBy, standingOf, type Replay, type UpdateView } from "./standing.ts";
import { nothing, type Decided } from "./writes.ts";

export type CancelResult = { readonly kind: "canceled"; readonly verification: Verification } | Replay | Refused;

/** Decides a cancel: a pending verification becomes CANCELED, a canceled one is answered again, any other is refused. */
export function decideCancel(view: UpdateView, claim: IdempotencyClaim | undefined): Decided<CancelResult> {
  const standing = standingOf(view, claim);
  if (standing.kind === "terminal" && standing.verification.state === "CANCELED") {
    return nothing({ kind: "canceled", verification: standing.verification });
  }
  if (standing.kind !== "pending") return decidedBy(standing);
  const canceled = end(standing.verification, "CANCELED", standing.now);
  return {
    writes: { verification: canceled, ...recordOf(claim, canceled.id, { at: standing.now }, standing.now) },
    result: { kind: "canceled", verification: canceled },
  };
}
