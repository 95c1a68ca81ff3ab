/**
 * The simulation: the real rules, service, worker, upkeep and SQLite store under a seeded scheduler, a machine without
 * time of its own, a store with faults and providers with moods. After every step the invariants are checked; at the end
 * faults stop, and everything must come to its end.
 *
 * | | what holds | checked in |
 * |---|---|---|
 * | I1 | at most `attemptsMax` guesses are compared, each counted once and told another rest; LOCKED exactly when all are spent; wrong codes are remembered until their own request succeeds; codes lengthen from 20 and 100 on | invariants, steps |
 * | I2 | a verification succeeds once | invariants |
 * | I3 | nothing is compared at or after the expiry; no lifetime ever changes | invariants, callers |
 * | I4 | a success needs that verification's own code, and the right code of a pending one is a success | callers, steps |
 * | I5 | PENDING leaves once; a terminal state never changes and answers its reason; FAILED only when nothing can have left | invariants, steps |
 * | I6 | terminal: no salt; past its time: none within 60 s | invariants |
 * | I7 | what was committed is in the database, its message in the outbox, and that ends by its deadline | invariants |
 * | I8 | every message carries its verification's one code; never two calls at once under one lease, nor by two channels of a fallback; an accepted message is not sent again; at most two answered calls a message, beside those that a provider has put off | invariants |
 * | I9 | no provider call with under 60 s of life, none after a terminal state | invariants |
 * | I10 | in any window W at most `burst + floor(W / interval)` SMS per phone and lane, and what was given back; at most ten a day are | budget |
 * | I11 | a denied call changes nothing | steps |
 * | I12 | one Idempotency-Key has one effect and one answer | callers, steps |
 * | I13 | no code in an answer, no code or number in a text at rest | callers, invariants |
 * | I14 | another tenant's id does not exist and cannot be touched | steps |
 * | I16 | a send counts once at its prefix, and its outcome once, whatever its end; what the guard refuses is not sent, but for known users | prefixes |
 * | I15 | every refusal for now says how long to wait, and waiting that long is enough | callers, simulate |
 * | I17 | no more SMS of a tenant in a UTC day than its cap, and one warning for each share; none to a blocked number, while what is out still verifies | bill, steps |
 *
 * A clock that was set back may lose up to 20 s in a crash (the age of the database's note of it), and the time that the
 * service was down. I10 is measured in the time that really passed: such a loss can only make a bucket refill later, or
 * bring it back to empty.
 *
 * A failing seed prints itself. To see it again, with everything that happened:
 *
 *   OTPD_SEED=17 OTPD_TRACE=1 npx vitest run --config test/vitest.config.ts test/simulation/simulation.test.ts
 */
import { describe, expect, test } from "vitest";
import { shortLength, simulate, type Report } from "./simulate.ts";
import { extent, sampled } from "../support/extent.ts";

const seeds = extent(30, 120);
const only = process.env["OTPD_SEED"];

describe("the simulation", () => {
  test.runIf(only !== undefined)(`holds its invariants on seed ${only}`, async () => {
    await expect(simulate(Number(only))).resolves.toMatchObject({ traceHash: expect.any(String) as string });
  });

  describe.runIf(only === undefined)("of every seed", () => {
    test(`holds every invariant on ${seeds} seeds, and gets everywhere`, { timeout: 600_000 }, async () => {
      const reports: Report[] = [];
      for (let seed = 1; seed <= seeds; seed++) reports.push(await simulate(seed));
      const answerCounts = new Map<string, number>();
      for (const report of reports) {
        for (const [what, count] of report.answerCounts) answerCounts.set(what, (answerCounts.get(what) ?? 0) + count);
      }
      // A service that refuses everything would break no invariant.
      expect(expected.filter((what) => (answerCounts.get(what) ?? 0) <= seeds / 6)).toEqual([]);
      const sum = (of: (report: Report) => number) => reports.reduce((total, report) => total + of(report), 0);
      expect(sum(({ crashes }) => crashes)).toBeGreaterThan(seeds);
      expect(sum(({ jumps }) => jumps)).toBeGreaterThan(seeds / 2);
      expect(sum(({ smsCount }) => smsCount)).toBeGreaterThan(10 * seeds);
      expect(sum(({ fallbacks }) => fallbacks)).toBeGreaterThan(seeds);
    });

    test("is the same event by event when a seed is run again", async () => {
      for (const seed of sampled([1, 2, 3, 40], 3)) {
        const [first, again] = [await simulate(seed), await simulate(seed)];
        expect(again.traceHash).toBe(first.traceHash);
      }
      expect((await simulate(1)).traceHash).not.toBe((await simulate(2, shortLength)).traceHash);
    });
  });
});

/** What callers must have been told, over all seeds, for the simulation to be worth its name. */
const expected = [
  "send ok",
  "verify ok",
  "resend ok",
  "cancel ok",
  "get ok",
  "replayed",
  "CODE_MISMATCH",
  "CODE_MALFORMED",
  "PURPOSE_MISMATCH",
  "OTP_EXPIRED",
  "OTP_LOCKED",
  "OTP_ALREADY_VERIFIED",
  "OTP_CANCELED",
  "OTP_FAILED",
  "RESENDS_EXHAUSTED",
  "RESEND_TOO_SOON",
  "REQUEST_NOT_FOUND",
  "PHONE_RATE_LIMITED",
  "PHONE_UNREACHABLE",
  "PHONE_INVALID",
  "DESTINATION_BLOCKED",
  "SPEND_LIMIT",
  "DELIVERY_FAILED",
  "STORE_UNAVAILABLE",
  "IDEMPOTENCY_KEY_REUSED",
  "IDEMPOTENCY_IN_PROGRESS",
];
