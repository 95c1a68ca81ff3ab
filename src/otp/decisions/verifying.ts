/**
 * The decision about a verify: whether the code that was typed is the right one, and how many attempts are left. What
 * any decision is, sending.ts says.
 */
import { codesMatch, deriveCode, parseCode, whyNoCode } from "../message/code.ts";
import { recordOf, type IdempotencyClaim } from "../verification/idempotency.ts";
import type { KeyRing } from "../keys/key-ring.ts";
import { end, messagesSpent, withNote, type Verification } from "../verification/verification.ts";
import { openPhone } from "../phone-number.ts";
import * as policies from "../verification/policy.ts";
import type { Policy } from "../verification/policy.ts";
import type { Refused } from "./spending.ts";
import { giveBackAll } from "../limits/rate-limit.ts";
import { isSandbox, sandboxCode, sandboxOutcome } from "../message/sandbox.ts";
import type { Secret } from "../keys/secret.ts";
import { decidedBy, refused, standingOf, type Replay, type UpdateView } from "./standing.ts";
import { nothing, type Decided, type Writes } from "./writes.ts";
import { terminalReason } from "../state.ts";

export interface VerifyFacts {
  readonly code: Secret;
  readonly purpose: string;
  readonly bind: string;
}

/** What a verify is decided by, beside what is asked. */
export interface VerifyTerms {
  readonly claim: IdempotencyClaim | undefined;
  readonly keys: KeyRing;
  readonly policy: Policy;
}

export type VerifyResult = { readonly kind: "verified"; readonly verification: Verification } | Replay | Refused;

/**
 * Decides a verify. In order: idempotency, REQUEST_NOT_FOUND, the terminal state's reason, expiry, CODE_MALFORMED,
 * purpose, comparison. The attempt is counted in the same write that holds the outcome; the code is compared in
 * constant time. Five attempts at six digits are one chance in 200,000.
 */
export function decideVerify(
  view: UpdateView,
  facts: VerifyFacts,
  { claim, keys, policy }: VerifyTerms,
): Decided<VerifyResult> {
  const standing = standingOf(view, claim);
  if (standing.kind !== "pending") return decidedBy(standing);
  const { verification, phone, now } = standing;
  const staged = stagedEnd(verification, keys);
  if (staged !== undefined) {
    return { writes: { verification: end(verification, staged, now) }, result: refused(terminalReason(staged)) };
  }
  const typed = parseCode(facts.code, verification.digits);
  if (typed === undefined) {
    const message = whyNoCode(facts.code, verification.digits);
    return nothing(refused("CODE_MALFORMED", { field: "code", message }));
  }
  if (facts.purpose !== verification.purpose) return nothing(refused("PURPOSE_MISMATCH", { field: "purpose" }));
  if (facts.bind !== verification.bind) return nothing(refused("PURPOSE_MISMATCH", { field: "bind" }));

  const attempts = verification.attempts + 1;
  const counted = (outcome: "right" | "wrong") =>
    withNote({ ...verification, attempts }, { kind: "guess", outcome }, now);
  const right = isSandbox(verification.tenant) ? sandboxCode(verification.digits) : deriveCode(keys, verification);
  if (right !== undefined && codesMatch(right, typed)) {
    const verified = end(counted("right"), "VERIFIED", now);
    const [refunds, history] = policies.withRefunds(
      policies.forgive(phone.history, verification.attempts),
      now,
      messagesSpent(verification),
    );
    return {
      writes: {
        verification: verified,
        history,
        tats: giveBackAll(policies.limitsFor(policy, phone.tats), phone.tats, now, refunds),
        ...guessOf(verification.tenant, { isRight: true }),
        ...(claim && recordOf(claim, verified.id, { at: now }, now)),
      },
      result: { kind: "verified", verification: verified },
    };
  }
  const attemptsRemaining = verification.attemptsMax - attempts;
  const wrong = refused("CODE_MISMATCH", { field: "code", attemptsRemaining });
  return {
    writes: {
      verification: attemptsRemaining > 0 ? counted("wrong") : end(counted("wrong"), "LOCKED", now),
      history: policies.withWrongCode(phone.history, now),
      ...guessOf(verification.tenant, { isRight: false }),
      ...recordOf(claim, verification.id, { at: now, refusal: wrong.refusal }, now),
    },
    result: wrong,
  };
}

/** What a compared code adds to its tenant's count. Test runs mistype all day, and nothing can be won there. */
function guessOf(tenant: string, { isRight }: { readonly isRight: boolean }): Pick<Writes, "guess"> {
  return isSandbox(tenant) ? {} : { guess: { tenant, isRight } };
}

/** The end that a sandbox number has in store for its verification. */
function stagedEnd({ tenant, kid, id, phoneBox }: Verification, keys: KeyRing): "EXPIRED" | "LOCKED" | undefined {
  if (!isSandbox(tenant)) return undefined;
  const outcome = sandboxOutcome(openPhone(keys, kid, id, phoneBox));
  return outcome === "expired" ? "EXPIRED" : outcome === "locked" ? "LOCKED" : undefined;
}
