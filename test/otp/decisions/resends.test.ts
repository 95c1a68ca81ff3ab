/**
 * What a caller is told of resends comes true: whoever follows what was promised is granted all of it, unless somebody
 * else sends to the number meanwhile, and what is not promised is refused.
 */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decideResend } from "../../../src/otp/decisions/resending.ts";
import { resendsLeft, type Policy } from "../../../src/otp/verification/policy.ts";
import { spendAll, type Limit } from "../../../src/otp/limits/rate-limit.ts";
import type { Reason } from "../../../src/otp/reason.ts";
import type { Verification } from "../../../src/otp/verification/verification.ts";
import {
  endedAs,
  exhaustedPhone,
  freshPhone,
  policy,
  sameChannel,
  secondMs,
  verificationOf,
} from "../../support/data/examples.ts";
import { testEpochMs } from "../../support/service/system.ts";

/** All that a configuration takes: lifetimes of 180 to 600 s, one to five gaps of 1 s to 10 min, one to four limits. */
const timings = {
  ttlMs: fc.integer({ min: 180, max: 600 }).map((seconds) => seconds * secondMs),
  resendGapsMs: fc.array(
    fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 600 })).map((seconds) => seconds * secondMs),
    { minLength: 1, maxLength: 5 },
  ),
};
const limit = fc.record({
  burst: fc.integer({ min: 1, max: 6 }),
  intervalMs: fc.oneof(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 1, max: 86_400 })).map((s) => s * secondMs),
});
const policies = fc.record({ ...timings, phoneLimits: fc.array(limit, { minLength: 1, maxLength: 4 }) });
/** For each limit, how far ahead its bucket is to the millisecond, from full to more than empty (a limit made narrower). */
const fillings = fc.array(fc.double({ min: 0, max: 1.5, noNaN: true }), { minLength: 4, maxLength: 4 });
/** What happens before each look: a wait, to the millisecond, and maybe another send to the same number. */
const steps = fc.array(fc.record({ waitMs: fc.integer({ min: 0, max: 200 * secondMs }), isSentTo: fc.boolean() }), {
  minLength: 1,
  maxLength: 6,
});
type Step = { readonly waitMs: number; readonly isSentTo: boolean };

interface Case {
  readonly verification: Verification;
  readonly tats: readonly number[];
}

function opened(of: Policy): Verification {
  const nextResendMs = testEpochMs + (of.resendGapsMs[0] ?? 0);
  return verificationOf({ nextResendMs, expireMs: testEpochMs + of.ttlMs });
}

/** Asks for a resend: what it leaves, and the reason why not, if it is refused. */
function ask({ verification, tats }: Case, of: Policy, now: number): Case & { readonly refused?: Reason } {
  const view = { now, verification, phone: { ...freshPhone, tats } };
  const { writes, result } = decideResend(view, sameChannel, { claim: undefined, policy: of });
  const left = { verification: writes.verification ?? verification, tats: writes.tats ?? tats };
  return result.kind === "refused" ? { ...left, refused: result.refusal.reason } : left;
}

/** How long a caller is told to wait. */
const exact = (ms: number) => Math.max(0, ms);
const inSeconds = (ms: number) => Math.max(0, Math.ceil(ms / secondMs)) * secondMs;

/** Looks after each step, resends where that is granted, and tells `check` what it saw. */
function live(of: Policy, filled: readonly number[], all: readonly Step[], check: (seen: Case, now: number) => void) {
  const tatOf = (l: Limit, place: number) => testEpochMs + Math.round((filled[place] ?? 0) * l.burst * l.intervalMs);
  let seen: Case = { verification: opened(of), tats: of.phoneLimits.map(tatOf) };
  let now = testEpochMs;
  for (const { waitMs, isSentTo } of all) {
    now += waitMs;
    if (now >= seen.verification.expireMs) return;
    const spent = spendAll(of.phoneLimits, seen.tats, now);
    if (isSentTo) seen = { ...seen, tats: spent.tatsMs ?? seen.tats };
    check(seen, now);
    seen = ask(seen, of, now);
  }
}

describe.each([
  ["to the millisecond", exact],
  ["in whole seconds", inSeconds],
])("whoever waits as told, %s,", (_, waitFor) => {
  test("has every resend that was promised, and not one more", () => {
    fc.assert(
      fc.property(policies, fillings, steps, (chosen, filled, all) => {
        const of = { ...policy, ...chosen };
        live(of, filled, all, (first, at) => {
          let [seen, now] = [first, at];
          let { count, nextMs } = resendsLeft(seen.verification, of, now, seen.tats);
          while (count > 0) {
            now += waitFor((nextMs ?? Number.NaN) - now);
            const asked = ask(seen, of, now);
            expect(asked.refused).toBeUndefined();
            seen = asked;
            const left = resendsLeft(seen.verification, of, now, seen.tats);
            expect(left.count).toBeGreaterThanOrEqual(count - 1);
            ({ count, nextMs } = left);
          }
          expect(nextMs).toBeNull();
          expect(["RESENDS_EXHAUSTED", "RESEND_TOO_SOON", "PHONE_RATE_LIMITED"]).toContain(ask(seen, of, now).refused);
        });
      }),
      { seed: 1, numRuns: 2_000 },
    );
  });
});

test("nothing is granted that was not promised, and a wait is told only before a resend that can come", () => {
  fc.assert(
    fc.property(policies, fillings, steps, (chosen, filled, all) => {
      const of = { ...policy, ...chosen };
      live(of, filled, all, (seen, now) => {
        const { count, nextMs } = resendsLeft(seen.verification, of, now, seen.tats);
        const isPromisedNow = count > 0 && (nextMs ?? Number.NaN) <= now;
        expect(ask(seen, of, now).refused === undefined).toBe(isPromisedNow);
      });
    }),
    { seed: 1, numRuns: 2_000 },
  );
});

test("RESENDS_EXHAUSTED is for the gaps and the lifetime: a number that must wait for its limits is told so", () => {
  const { view, retryAfterMs } = exhaustedPhone(testEpochMs + 30 * secondMs);
  const seen = { verification: verificationOf(), tats: view.tats };
  expect(retryAfterMs).toBeGreaterThan(policy.ttlMs);
  expect(resendsLeft(seen.verification, policy, testEpochMs, seen.tats)).toEqual({ count: 0, nextMs: null });
  expect(ask(seen, policy, testEpochMs + 30 * secondMs).refused).toBe("PHONE_RATE_LIMITED");
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
    const resent = ask({ verification: opened(short), tats: [] }, short, testEpochMs + 5 * secondMs);
    expect(resent.refused).toBeUndefined();
    expect(at(5 * secondMs, resent.verification)).toEqual({ count: 0, nextMs: null });
    expect(ask(resent, short, testEpochMs + 5 * secondMs).refused).toBe("RESENDS_EXHAUSTED");
  });

  test("wait for the phone's limits, and leave out those that these have no room for", () => {
    const of = { ...policy, phoneLimits: [{ burst: 2, intervalMs: 100 * secondMs }] };
    const left = (tatMs: number) => resendsLeft(verificationOf(), of, testEpochMs, [testEpochMs + tatMs]);
    expect(left(100_000)).toEqual({ count: 2, nextMs: testEpochMs + 30_000 });
    expect(left(180_001)).toEqual({ count: 2, nextMs: testEpochMs + 80_001 });
    expect(left(540_000)).toEqual({ count: 2, nextMs: testEpochMs + 440_000 });
    expect(left(540_001)).toEqual({ count: 1, nextMs: testEpochMs + 440_001 });
    expect(left(640_000)).toEqual({ count: 1, nextMs: testEpochMs + 540_000 });
    expect(left(640_001)).toEqual({ count: 0, nextMs: null });
  });

  test("come to an end 60 s before the end of the lifetime", () => {
    expect([120_000, 120_001, 161_000].map((ms) => at(ms).count)).toEqual([1, 0, 0]);
  });

  test("of what has ended are none", () => {
    expect(at(180_000)).toEqual({ count: 0, nextMs: null });
    expect(resendsLeft(endedAs("CANCELED"), policy, testEpochMs)).toEqual({ count: 0, nextMs: null });
  });
});
