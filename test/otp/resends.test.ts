/**
 * What a caller is told of resends comes true: whoever follows what was promised is granted all of it, and what is not
 * promised is refused.
 */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decideResend } from "../../src/otp/decisions.ts";
import type { Policy } from "../../src/otp/policy.ts";
import { resendsLeft, type Verification } from "../../src/otp/verification.ts";
import { endedAs, freshPhone, policy, secondMs, verificationOf } from "../support/data/examples.ts";
import { testEpochMs } from "../support/service/system.ts";

/** All that a configuration takes: lifetimes of 180 to 600 s, and one to five gaps of 1 s to 10 min. */
const policies = fc.record({
  ttlMs: fc.integer({ min: 180, max: 600 }).map((seconds) => seconds * secondMs),
  resendGapsMs: fc.array(
    fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 600 })).map((seconds) => seconds * secondMs),
    { minLength: 1, maxLength: 5 },
  ),
});
/** Waits before each look, to the millisecond. */
const waits = fc.array(fc.integer({ min: 0, max: 200 * secondMs }), { minLength: 1, maxLength: 6 });

function opened(of: Policy): Verification {
  const nextResendMs = testEpochMs + (of.resendGapsMs[0] ?? 0);
  return verificationOf({ nextResendMs, expireMs: testEpochMs + of.ttlMs });
}

/** Asks for a resend: the verification as it leaves it, or the reason why not. */
function resend(verification: Verification, of: Policy, now: number): Verification | string {
  const { writes, result } = decideResend({ now, verification, phone: freshPhone }, undefined, of);
  return result.kind === "refused" ? result.refusal.reason : (writes.verification ?? result.kind);
}

/** How long a caller is told to wait. */
const exact = (ms: number) => Math.max(0, ms);
const inSeconds = (ms: number) => Math.max(0, Math.ceil(ms / secondMs)) * secondMs;

/** Looks after each wait, resends where it is due, and tells `check` what it saw. */
function live(of: Policy, gaps: readonly number[], check: (seen: Verification, now: number) => void): void {
  let verification = opened(of);
  let now = testEpochMs;
  for (const gap of gaps) {
    now += gap;
    if (now >= verification.expireMs) return;
    check(verification, now);
    const resent = resend(verification, of, now);
    if (typeof resent !== "string") verification = resent;
  }
}

describe.each([
  ["to the millisecond", exact],
  ["in whole seconds", inSeconds],
])("whoever waits as told, %s,", (_, waitFor) => {
  test("has every resend that was promised, and not one more", () => {
    fc.assert(
      fc.property(policies, waits, (chosen, gaps) => {
        const of = { ...policy, ...chosen };
        live(of, gaps, (seen, at) => {
          let [verification, now] = [seen, at];
          let { count, nextMs } = resendsLeft(verification, of, now);
          while (count > 0) {
            now += waitFor((nextMs ?? Number.NaN) - now);
            const resent = resend(verification, of, now);
            expect(resent).toBeTypeOf("object");
            verification = resent as Verification;
            const left = resendsLeft(verification, of, now);
            expect(left.count).toBeGreaterThanOrEqual(count - 1);
            ({ count, nextMs } = left);
          }
          expect(nextMs).toBeNull();
          expect(resend(verification, of, now)).toBe("RESENDS_EXHAUSTED");
        });
      }),
      { seed: 1, numRuns: 2_000 },
    );
  });
});

test("nothing is granted that was not promised, and a wait is told only before a resend that can come", () => {
  fc.assert(
    fc.property(policies, waits, (chosen, gaps) => {
      const of = { ...policy, ...chosen };
      live(of, gaps, (seen, now) => {
        const { count, nextMs } = resendsLeft(seen, of, now);
        const resent = resend(seen, of, now);
        const answer = typeof resent === "string" ? resent : "resent";
        const expected = count === 0 ? "RESENDS_EXHAUSTED" : (nextMs ?? now) > now ? "RESEND_TOO_SOON" : "resent";
        expect(answer).toBe(expected);
      });
    }),
    { seed: 1, numRuns: 2_000 },
  );
});

describe("resends that are left", () => {
  const short = { ...policy, ttlMs: 180 * secondMs, resendGapsMs: [5 * secondMs, 150 * secondMs] };
  const at = (ms: number, verification = opened(short)) => resendsLeft(verification, short, testEpochMs + ms);

  test("are those of the gaps, less those used, and never below none", () => {
    const counts = [0, 1, 2, 3].map((resends) => resendsLeft(verificationOf({ resends }), policy, testEpochMs).count);
    expect(counts).toEqual([2, 1, 0, 0]);
  });

  test("leave out those that the lifetime has no time for", () => {
    expect(at(0)).toEqual({ count: 1, nextMs: testEpochMs + 5 * secondMs });
    const resent = resend(opened(short), short, testEpochMs + 5 * secondMs) as Verification;
    expect(at(5 * secondMs, resent)).toEqual({ count: 0, nextMs: null });
    expect(resend(resent, short, testEpochMs + 5 * secondMs)).toBe("RESENDS_EXHAUSTED");
  });

  test("come to an end 60 s before the end of the lifetime", () => {
    expect([120_000, 120_001, 161_000].map((ms) => at(ms).count)).toEqual([1, 0, 0]);
  });

  test("of what has ended are none", () => {
    expect(at(180_000)).toEqual({ count: 0, nextMs: null });
    expect(resendsLeft(endedAs("CANCELED"), policy, testEpochMs)).toEqual({ count: 0, nextMs: null });
  });
});
