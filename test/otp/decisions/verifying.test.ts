/**
 * What a guess does: to the verification, to the phone's past and to its limits.
 */
import { describe, expect, test } from "vitest";
import { decideVerify, type VerifyFacts } from "../../../src/otp/decisions/verifying.ts";
import type { UpdateView } from "../../../src/otp/decisions/standing.ts";
import { createKeyRing } from "../../../src/otp/keys/key-ring.ts";
import { emptyHistory, refundsPerDayMax } from "../../../src/otp/verification/policy.ts";
import { spendAll } from "../../../src/otp/limits/rate-limit.ts";
import { Secret } from "../../../src/otp/keys/secret.ts";
import type { Verification } from "../../../src/otp/verification/verification.ts";
import type { PhoneView } from "../../../src/otp/decisions/writes.ts";
import {
  claim,
  dayMs,
  endedAs,
  freshPhone,
  hourMs,
  keys,
  logOf,
  type LogText,
  masterKeyB,
  policy,
  rightCode,
  secondMs,
  verificationOf,
  wrongCode,
} from "../../support/data/examples.ts";
import { testEpochMs } from "../../support/service/system.ts";

const now = testEpochMs + 5 * secondMs;
const today = Math.floor(now / dayMs);
const right = rightCode(verificationOf());
const wrong = wrongCode(verificationOf());

function verify(code: Secret, changes: Partial<UpdateView> = {}, facts: Partial<VerifyFacts> = {}) {
  const view = { now, verification: verificationOf(), phone: freshPhone, ...changes };
  return decideVerify(view, { code, purpose: "login", bind: "", ...facts }, { claim: undefined, keys, policy });
}

/** A phone that was sent so many messages at the test epoch. */
function phoneAfter(sends: number): PhoneView {
  let tats: readonly number[] = freshPhone.tats;
  for (let i = 0; i < sends; i++) tats = spendAll(policy.phoneLimits, tats, testEpochMs).tatsMs ?? tats;
  return { ...freshPhone, tats };
}

describe("a lifetime", () => {
  const { expireMs } = verificationOf();

  test("still verifies a millisecond before its end", () => {
    expect(verify(right, { now: expireMs - 1 }).result.kind).toBe("verified");
  });

  test.each([0, 1, dayMs])("does not %i ms after it, and the salt goes with the first call that finds so", (lateMs) => {
    const { writes, result } = verify(right, { now: expireMs + lateMs });
    expect(result).toMatchObject({ kind: "refused", refusal: { reason: "OTP_EXPIRED" } });
    const log = logOf([policy.ttlMs, "end", "EXPIRED"]);
    expect(writes).toEqual({ verification: verificationOf({ state: "EXPIRED", salt: null, endMs: expireMs, log }) });
  });
});

describe("attempts", () => {
  test("are counted down to the lock: the fifth wrong code answers 0 remaining and locks", () => {
    let verification = verificationOf();
    const seen: unknown[] = [];
    for (let i = 0; i < 6; i++) {
      const { writes, result } = verify(wrong, { verification });
      seen.push([result, writes.verification?.state]);
      verification = writes.verification ?? verification;
    }
    const mismatch = (attemptsRemaining: number) => ({
      kind: "refused",
      refusal: { reason: "CODE_MISMATCH", field: "code", attemptsRemaining },
    });
    expect(seen).toEqual([
      [mismatch(4), "PENDING"],
      [mismatch(3), "PENDING"],
      [mismatch(2), "PENDING"],
      [mismatch(1), "PENDING"],
      [mismatch(0), "LOCKED"],
      [{ kind: "refused", refusal: { reason: "OTP_LOCKED" } }, undefined],
    ]);
    const guessed = Array.from({ length: 5 }, (): LogText => [5 * secondMs, "guess", "wrong"]);
    const log = logOf(...guessed, [5 * secondMs, "end", "LOCKED"]);
    expect(verification).toEqual(verificationOf({ state: "LOCKED", attempts: 5, salt: null, endMs: now, log }));
  });

  test("are counted in the same write that holds the outcome", () => {
    expect(verify(wrong).writes.verification).toEqual(
      verificationOf({ attempts: 1, log: logOf([5 * secondMs, "guess", "wrong"]) }),
    );
    expect(verify(right).writes.verification).toMatchObject({ attempts: 1, state: "VERIFIED" });
  });

  test("the fifth may be the right one", () => {
    const { result, writes } = verify(right, { verification: verificationOf({ attempts: 4 }) });
    expect(result.kind).toBe("verified");
    expect(writes.verification).toMatchObject({ attempts: 5, state: "VERIFIED" });
  });

  test.each([1, 10])(
    "of %i at most are as many as the verification was opened with, whatever the policy is now",
    (attemptsMax) => {
      const { result, writes } = verify(wrong, {
        verification: verificationOf({ attemptsMax, attempts: attemptsMax - 1 }),
      });
      expect(result).toMatchObject({ refusal: { attemptsRemaining: 0 } });
      expect(writes.verification?.state).toBe("LOCKED");
    },
  );

  test("are not spent by what is no code", () => {
    for (const typed of ["", "12345", "1234567", "１２３４５６", "12345x", "123456\0"]) {
      const { result, writes } = verify(new Secret(typed), { verification: verificationOf({ attempts: 4 }) });
      expect(result).toMatchObject({ kind: "refused", refusal: { reason: "CODE_MALFORMED", field: "code" } });
      expect(writes).toEqual({});
    }
  });

  test("are spent once by a code typed with spaces and hyphens", () => {
    const typed = new Secret(right.reveal().replace(/(...)/, "$1- "));
    expect(verify(typed).result.kind).toBe("verified");
  });
});

describe("nothing verifies", () => {
  const guesses = (verification: Verification) =>
    [right, wrong, new Secret("000000"), new Secret("null"), new Secret("")].map(
      (code) => verify(code, { verification }).result.kind,
    );

  test.each(["VERIFIED", "EXPIRED", "LOCKED", "CANCELED", "FAILED"] as const)(
    "that is %s, even with its salt",
    (state) => {
      const { salt } = verificationOf();
      expect(new Set(guesses(endedAs(state)))).toEqual(new Set(["refused"]));
      expect(new Set(guesses(endedAs(state, { salt })))).toEqual(new Set(["refused"]));
    },
  );

  test("without its salt, even pending; the attempt counts", () => {
    const verification = verificationOf({ salt: null });
    expect(new Set(guesses(verification))).toEqual(new Set(["refused"]));
    expect(verify(right, { verification }).writes.verification).toMatchObject({ attempts: 1, state: "PENDING" });
  });

  test("without its master key", () => {
    const other = createKeyRing([masterKeyB]);
    const view = { now, verification: verificationOf(), phone: freshPhone };
    const { result } = decideVerify(
      view,
      { code: right, purpose: "login", bind: "" },
      { claim: undefined, keys: other, policy },
    );
    expect(result).toMatchObject({ refusal: { reason: "CODE_MISMATCH" } });
  });

  test("with the code of another request for the same phone", () => {
    const other = verificationOf({ id: "AAAAAAAAAAAAAAAAAAAAAA" });
    expect(verify(right, { verification: other }).result.kind).toBe("refused");
    expect(verify(rightCode(other), { verification: other }).result.kind).toBe("verified");
  });
});

describe("a success", () => {
  test("ends the verification and erases its salt", () => {
    const { writes, result } = verify(right, { verification: verificationOf({ attempts: 2 }) });
    const log = logOf([5 * secondMs, "guess", "right"], [5 * secondMs, "end", "VERIFIED"]);
    const verified = verificationOf({ state: "VERIFIED", attempts: 3, salt: null, endMs: now, log });
    expect(result).toEqual({ kind: "verified", verification: verified });
    expect(writes.verification).toEqual(verified);
  });

  test.each([0, 1, 2])("with %i resends gives all its messages back, and no others", (resends) => {
    const { writes } = verify(right, { verification: verificationOf({ resends }), phone: phoneAfter(4) });
    expect(writes.tats).toEqual(phoneAfter(4 - 1 - resends).tats.map((tat) => Math.max(now, tat)));
    expect(writes.history?.refunds).toEqual(Array<number>(1 + resends).fill(now));
  });

  test("gives back what is left of ten in 24 hours, and then nothing", () => {
    const verification = verificationOf({ resends: 2 });
    const given = (before: number, at: number) => {
      const history = { ...emptyHistory, refunds: Array<number>(before).fill(at) };
      const { writes } = verify(right, { verification, phone: { ...phoneAfter(5), history } });
      return [writes.history?.refunds.length, writes.tats?.[1]];
    };
    const after = (sends: number) => phoneAfter(sends).tats[1];
    expect(given(7, now - hourMs)).toEqual([10, after(2)]);
    expect(given(9, now - hourMs)).toEqual([10, after(4)]);
    expect(given(refundsPerDayMax, now - hourMs)).toEqual([10, after(5)]);
    expect(given(refundsPerDayMax, now - dayMs)).toEqual([3, after(2)]);
  });

  test("forgives the wrong codes of its own request, and leaves the others", () => {
    const history = { ...emptyHistory, wrongCodes: [[today - 3, 8] as const, [today, 6] as const] };
    const verification = verificationOf({ attempts: 4 });
    const { writes } = verify(right, { verification, phone: { ...freshPhone, history } });
    expect(writes.history?.wrongCodes).toEqual([
      [today - 3, 8],
      [today, 2],
    ]);
  });
});

describe("a wrong code", () => {
  test("is remembered of the phone, and gives nothing back", () => {
    const { writes } = verify(wrong, { phone: phoneAfter(2) });
    expect(writes.history).toEqual({ wrongCodes: [[today, 1]], refunds: [] });
    expect(writes.tats).toBeUndefined();
  });

  test("answers the same whichever of its digits are right", () => {
    const digits = right.reveal();
    const answers = Array.from({ length: 6 }, (_, i) => {
      const typed = digits.slice(0, i) + String((Number(digits[i]) + 1) % 10) + digits.slice(i + 1);
      return verify(new Secret(typed)).result;
    });
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
  });
});

describe("with an Idempotency-Key", () => {
  const decide = (code: Secret, verification = verificationOf()) =>
    decideVerify(
      { now, verification, phone: freshPhone },
      { code, purpose: "login", bind: "" },
      { claim, keys, policy },
    );

  test("a success is kept for a repeat, and a refusal that spent an attempt too", () => {
    expect(decide(right).writes.record).toMatchObject({ answer: { at: now } });
    expect(decide(right).writes.record?.answer).not.toHaveProperty("refusal");
    expect(decide(wrong).writes.record).toMatchObject({
      answer: { at: now, refusal: { reason: "CODE_MISMATCH", attemptsRemaining: 4 } },
    });
  });

  test("a refusal that spent nothing is not kept", () => {
    expect(decide(new Secret("12345")).writes.record).toBeUndefined();
    expect(decide(right, endedAs("LOCKED")).writes.record).toBeUndefined();
    expect(decide(right, verificationOf({ expireMs: now })).writes.record).toBeUndefined();
  });

  test("a repeat of the call that verified is answered from what was kept, and spends nothing", () => {
    const first = decide(right);
    const record = first.writes.record;
    const verification = first.writes.verification;
    const again = decideVerify(
      { now: now + hourMs, record, verification, phone: freshPhone },
      { code: right, purpose: "login", bind: "" },
      { claim, keys, policy },
    );
    expect(again).toEqual({
      writes: {},
      result: { kind: "replay", verification, answer: { at: now }, kid: keys.current.kid },
    });
  });

  test("what is kept holds neither the code nor the phone", () => {
    const kept = JSON.stringify([decide(right).writes.record, decide(wrong).writes.record]);
    for (const secret of [right.reveal(), wrong.reveal(), "612345678"]) expect(kept).not.toContain(secret);
  });
});
