/**
 * What a send, a resend and a cancel do: to the verification, the outbox and the phone's limits.
 */
import { describe, expect, test } from "vitest";
import { deriveCode } from "../../../src/otp/message/code.ts";
import { decideSend } from "../../../src/otp/decisions/sending.ts";
import { decideCancel } from "../../../src/otp/decisions/canceling.ts";
import { decideResend } from "../../../src/otp/decisions/resending.ts";
import type { UpdateView } from "../../../src/otp/decisions/standing.ts";
import { leaseMs } from "../../../src/otp/message/message.ts";
import { emptyHistory } from "../../../src/otp/verification/policy.ts";
import { ok } from "../../../src/otp/reason.ts";
import type { Verification } from "../../../src/otp/verification/verification.ts";
import type { PhoneView } from "../../../src/otp/decisions/writes.ts";
import {
  claim,
  dayMs,
  exhaustedPhone,
  freshPhone,
  hourMs,
  keys,
  logOf,
  minuteMs,
  policy,
  record,
  rightCode,
  secondMs,
  sendFacts,
  verificationOf,
  sameChannel,
} from "../../support/data/examples.ts";
import { testEpochMs as now } from "../../support/service/system.ts";

function send(phone: PhoneView = freshPhone, with_ = policy, at = now) {
  const decided = decideSend({ now: at, phone }, ok(sendFacts), { claim: undefined, policy: with_ });
  const { verification, message, tats } = decided.writes;
  return { ...decided, verification, message, tats };
}

describe("a send", () => {
  test("opens a pending verification with the policy's terms", () => {
    const { result, verification, message, tats: tatsMs } = send();
    expect(result).toEqual({ kind: "opened", verification, message, now, tatsMs });
    expect(verification).toEqual(verificationOf({ delivery: "SENDING", log: logOf([0, "send", "sms"]) }));
  });

  test("puts one message in the outbox, in hand, with a deadline 60 s before the code's end", () => {
    expect(send().message).toMatchObject({
      verificationId: sendFacts.id,
      copy: 0,
      delivery: "SENDING",
      calls: 1,
      dueMs: now + leaseMs,
      deadlineMs: now + policy.ttlMs - 60 * secondMs,
    });
  });

  test("takes one message from every bucket of the phone", () => {
    expect(send().tats).toEqual([now + 10 * minuteMs, now + 4 * hourMs]);
  });

  test("takes the terms of another policy", () => {
    const other = { ...policy, ttlMs: 180 * secondMs, attemptsMax: 3, codeLength: 8, resendGapsMs: [45 * secondMs] };
    expect(send(freshPhone, other).verification).toMatchObject({
      digits: 8,
      attemptsMax: 3,
      expireMs: now + 180 * secondMs,
      nextResendMs: now + 45 * secondMs,
    });
  });

  test.each([
    [19, 0, 6],
    [20, 0, 8],
    [0, 20, 8],
  ])("after %i wrong codes and with %i attempts open has a code of %i digits", (wrong, openAttempts, digits) => {
    const history = { ...emptyHistory, wrongCodes: [[Math.floor(now / dayMs), wrong] as const] };
    const { verification } = send({ ...freshPhone, history, openAttempts });
    expect(verification?.digits).toBe(digits);
    expect(deriveCode(keys, verification as Verification)?.reveal()).toHaveLength(digits);
  });

  test("past the phone's limits is told the longest wait, which then is enough", () => {
    const { view, retryAfterMs } = exhaustedPhone(now);
    expect(send(view).result).toEqual({
      kind: "refused",
      refusal: { reason: "PHONE_RATE_LIMITED", field: "phone", retryAfterMs },
    });
    expect(send(view, policy, now + retryAfterMs - 1).result.kind).toBe("refused");
    expect(send(view, policy, now + retryAfterMs).result.kind).toBe("opened");
  });

  test("gets through again, although a bucket was found far ahead, after the burst's refill at most", () => {
    let phone: PhoneView = { ...freshPhone, tats: [now + 30 * dayMs, now + 30 * dayMs] };
    const first = send(phone);
    expect(first.result).toMatchObject({ refusal: { reason: "PHONE_RATE_LIMITED", retryAfterMs: 4 * hourMs } });
    expect(Object.keys(first.writes)).toEqual(["tats"]);
    phone = { ...phone, tats: first.tats ?? [] };
    expect(send(phone, policy, now + 4 * hourMs).result.kind).toBe("opened");
  });

  test("twelve times in 24 hours is all that a phone gets which never verifies", () => {
    let [phone, sent] = [freshPhone, 0];
    for (let at = now; at <= now + dayMs; at += minuteMs) {
      const { tats, result } = send(phone, policy, at);
      if (tats !== undefined) phone = { ...phone, tats };
      sent += result.kind === "opened" ? 1 : 0;
    }
    expect(sent).toBe(12);
  });

  test("is noted under its Idempotency-Key as running, and its repeat is answered with the same verification", () => {
    const { writes } = decideSend({ now, phone: freshPhone }, ok(sendFacts), { claim, policy });
    expect(writes.record).toMatchObject({ verificationId: sendFacts.id, answer: null });
    const view = { now: now + hourMs, record, recorded: verificationOf(), phone: freshPhone };
    expect(decideSend(view, ok({ ...sendFacts, id: "AAAAAAAAAAAAAAAAAAAAAA" }), { claim, policy })).toEqual({
      writes: {},
      result: { kind: "replay", verification: verificationOf(), answer: record.answer, kid: record.kid },
    });
  });

  test("counts as a first one when what its key refers to is gone", () => {
    const view = { now, record, recorded: undefined, phone: freshPhone };
    expect(decideSend(view, ok(sendFacts), { claim, policy }).result.kind).toBe("opened");
  });
});

function resend(changes: Partial<Verification> = {}, view: Partial<UpdateView> = {}) {
  const verification = verificationOf(changes);
  return decideResend({ now: verification.nextResendMs, verification, phone: freshPhone, ...view }, sameChannel, {
    claim: undefined,
    policy,
  });
}

describe("a resend", () => {
  test("repeats the same code for the same request", () => {
    const { writes } = resend();
    expect(rightCode(writes.verification as Verification)).toEqual(rightCode(verificationOf()));
    expect(writes.verification).toMatchObject({ id: sendFacts.id, salt: sendFacts.salt, kid: sendFacts.kid });
    expect(rightCode(writes.verification as Verification).reveal()).toBe(rightCode(verificationOf()).reveal());
  });

  test("changes nothing else: neither the lifetime nor the attempts", () => {
    const at = now + 30 * secondMs;
    expect(resend({ attempts: 3 }).writes.verification).toEqual(
      verificationOf({
        attempts: 3,
        resends: 1,
        delivery: "SENDING",
        nextResendMs: at + 60 * secondMs,
        log: logOf([30 * secondMs, "resend", "sms", null, 1]),
      }),
    );
  });

  test("puts the next copy in the outbox, with the deadline that the first had", () => {
    const { message } = resend().writes;
    expect(message).toMatchObject({ copy: 1, delivery: "SENDING", calls: 1, deadlineMs: now + 540 * secondMs });
    expect(resend({ resends: 1 }).writes.message).toMatchObject({ copy: 2 });
  });

  test("takes one message from every bucket of the phone", () => {
    const at = now + 30 * secondMs;
    expect(resend().writes.tats).toEqual([at + 10 * minuteMs, at + 4 * hourMs]);
  });

  test("comes after 30 s, then after 60 s more, then never", () => {
    let verification = verificationOf();
    const waits: unknown[] = [];
    let at = now;
    for (let i = 0; i < 3; i++) {
      const early = resend({}, { now: at, verification }).result;
      waits.push(early.kind === "refused" ? (early.refusal.retryAfterMs ?? early.refusal.reason) : early.kind);
      at = verification.nextResendMs;
      verification = resend({}, { now: at, verification }).writes.verification ?? verification;
    }
    expect(waits).toEqual([30_000, 60_000, "RESENDS_EXHAUSTED"]);
    expect(verification.resends).toBe(2);
  });

  test("a millisecond too soon is told to wait, and has to", () => {
    const { nextResendMs } = verificationOf();
    expect(resend({}, { now: nextResendMs - 1 }).result).toEqual({
      kind: "refused",
      refusal: { reason: "RESEND_TOO_SOON", retryAfterMs: 1 },
    });
    expect(resend({}, { now: nextResendMs }).result.kind).toBe("resent");
  });

  test.each([
    [60_001, "resent"],
    [60_000, "resent"],
    [59_999, "RESENDS_EXHAUSTED"],
    [1, "RESENDS_EXHAUSTED"],
    [0, "OTP_EXPIRED"],
  ])("with %i ms of life left: %s", (leftMs, answer) => {
    const { result } = resend({}, { now: verificationOf().expireMs - leftMs });
    expect(result.kind === "refused" ? result.refusal.reason : result.kind).toBe(answer);
  });

  test("with under 60 s left ends nothing: the code still verifies", () => {
    expect(resend({}, { now: verificationOf().expireMs - 59_999 }).writes).toEqual({});
  });

  test("past the phone's limits is refused and not counted", () => {
    const at = now + 30 * secondMs;
    const { view, retryAfterMs } = exhaustedPhone(at);
    const { writes, result } = resend({}, { now: at, phone: view });
    expect(result).toMatchObject({ refusal: { reason: "PHONE_RATE_LIMITED", retryAfterMs } });
    expect(writes).toEqual({});
  });
});

describe("a cancel", () => {
  test("ends the verification, erases its salt and gives nothing back", () => {
    const verification = verificationOf({ attempts: 2, resends: 1 });
    const { writes, result } = decideCancel({ now: now + 5, verification, phone: freshPhone }, undefined);
    const log = logOf([5, "end", "CANCELED", null, 1]);
    const canceled = verificationOf({ attempts: 2, resends: 1, state: "CANCELED", salt: null, endMs: now + 5, log });
    expect(writes).toEqual({ verification: canceled });
    expect(result).toEqual({ kind: "canceled", verification: canceled });
  });

  test("after the end of the lifetime finds it expired, as of that end", () => {
    const verification = verificationOf();
    const { writes, result } = decideCancel({ now: verification.expireMs + 5, verification, phone: freshPhone }, claim);
    expect(result).toMatchObject({ refusal: { reason: "OTP_EXPIRED" } });
    expect(writes).toEqual({
      verification: {
        ...verification,
        state: "EXPIRED",
        salt: null,
        endMs: verification.expireMs,
        log: logOf([policy.ttlMs, "end", "EXPIRED"]),
      },
    });
  });
});
