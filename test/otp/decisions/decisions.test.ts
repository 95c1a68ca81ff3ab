/**
 * The order in which refusals win. Each decision has the list of what can be wrong with a call, in that order; case n
 * has fault n and every later one, so it is answered with fault n's reason only if fault n wins over all of those.
 */
import { describe, expect, test } from "vitest";
import { decideSend, type SendFacts } from "../../../src/otp/decisions/sending.ts";
import { decideVerify, type VerifyFacts } from "../../../src/otp/decisions/verifying.ts";
import { decideCancel } from "../../../src/otp/decisions/canceling.ts";
import { decideResend } from "../../../src/otp/decisions/resending.ts";
import type { SendView, UpdateView } from "../../../src/otp/decisions/standing.ts";
import type { IdempotencyClaim } from "../../../src/otp/verification/idempotency.ts";
import { emptyHistory } from "../../../src/otp/verification/policy.ts";
import { ok, refuse, type Refusal, type Result } from "../../../src/otp/reason.ts";
import { Secret } from "../../../src/otp/keys/secret.ts";
import type { Verification } from "../../../src/otp/verification/verification.ts";
import type { Decided } from "../../../src/otp/decisions/writes.ts";
import {
  busyRecord,
  claim,
  dayMs,
  endedAs,
  exhaustedPhone,
  freshPhone,
  keys,
  otherClaim,
  policy,
  record,
  rightCode,
  secondMs,
  sendFacts,
  verificationOf,
  wrongCode,
  sameChannel,
} from "../../support/data/examples.ts";
import { testEpochMs } from "../../support/service/system.ts";

const now = testEpochMs + 5 * secondMs;

/** Something that can be wrong with a call, what the call is answered then, and how to make it so. */
type Fault<Call> = readonly [name: string, answer: string, spoil: (call: Call) => Call];

/** Case n: fault n and every later one. The earlier fault is made last, so where two exclude each other it stands. */
function inOrder<Call>(faults: readonly Fault<Call>[], sound: Call): [name: string, answer: string, call: Call][] {
  return faults.map(([name, answer], n) => [
    name,
    answer,
    faults.slice(n).reduceRight((call, [, , spoil]) => spoil(call), sound),
  ]);
}

/** The reason of a refusal, or what came of the call otherwise. */
function answerOf({ result }: Decided<{ readonly kind: string; readonly refusal?: Refusal }>): string {
  return result.refusal?.reason ?? result.kind;
}

interface Update {
  readonly view: UpdateView;
  readonly claim: IdempotencyClaim | undefined;
}

const sound: Update = { view: { now, verification: verificationOf(), phone: freshPhone }, claim };

/** Makes the verification another one. */
const as =
  <Call extends Update>(change: (verification: Verification) => Verification) =>
  (call: Call): Call => ({
    ...call,
    view: { ...call.view, verification: change(call.view.verification ?? verificationOf()) },
  });

/** What verify, resend and cancel have in common, in its order. Each terminal state is a list of its own. */
function commonFaults<Call extends Update>(ended: Verification): Fault<Call>[] {
  const reasons = {
    VERIFIED: "OTP_ALREADY_VERIFIED",
    EXPIRED: "OTP_EXPIRED",
    LOCKED: "OTP_LOCKED",
    CANCELED: "OTP_CANCELED",
    FAILED: "OTP_FAILED",
    PENDING: "",
  };
  return [
    [
      "its key was used for another request",
      "IDEMPOTENCY_KEY_REUSED",
      (call) => ({ ...call, claim: otherClaim, view: { ...call.view, record: busyRecord } }),
    ],
    [
      "the first call with its key is running",
      "IDEMPOTENCY_IN_PROGRESS",
      (call) => ({ ...call, view: { ...call.view, record: busyRecord } }),
    ],
    [
      "there is no such request",
      "REQUEST_NOT_FOUND",
      (call) => ({ ...call, view: { ...call.view, verification: undefined, phone: undefined } }),
    ],
    ["its first call was answered", "replay", (call) => ({ ...call, view: { ...call.view, record } })],
    [`it is ${ended.state}`, reasons[ended.state], as((v) => ({ ...v, state: ended.state, salt: null, endMs: now }))],
    ["its time is over", "OTP_EXPIRED", as((v) => ({ ...v, expireMs: now }))],
  ];
}

const ends = (["VERIFIED", "EXPIRED", "LOCKED", "CANCELED", "FAILED"] as const).map((state) => endedAs(state));

describe("verify is refused, and what wins is", () => {
  interface Verify extends Update {
    readonly facts: VerifyFacts;
  }
  const faults: readonly Fault<Verify>[] = [
    [
      "the code is no code",
      "CODE_MALFORMED",
      (call) => ({ ...call, facts: { ...call.facts, code: new Secret("12345") } }),
    ],
    ["the purpose is another", "PURPOSE_MISMATCH", (call) => ({ ...call, facts: { ...call.facts, purpose: "pay" } })],
    ["the binding is another", "PURPOSE_MISMATCH", (call) => ({ ...call, facts: { ...call.facts, bind: "[]" } })],
    [
      "the code is wrong",
      "CODE_MISMATCH",
      (call) => ({ ...call, facts: { ...call.facts, code: wrongCode(verificationOf()) } }),
    ],
    ["nothing", "verified", (call) => call],
  ];
  const right: Verify = { ...sound, facts: { code: rightCode(verificationOf()), purpose: "login", bind: "" } };

  describe.each(ends)("($state)", (ended) => {
    test.each(inOrder([...commonFaults<Verify>(ended), ...faults], right))("%s: %s", (_, answer, call) => {
      expect(answerOf(decideVerify(call.view, call.facts, { claim: call.claim, keys, policy }))).toBe(answer);
    });
  });

  test("a mismatched purpose names its field before the binding's", () => {
    const both = { ...right.facts, purpose: "pay", bind: "[]" };
    const bindOnly = { ...right.facts, bind: "[]" };
    const fieldOf = (facts: VerifyFacts) => decideVerify(right.view, facts, { claim: undefined, keys, policy }).result;
    expect(fieldOf(both)).toMatchObject({ refusal: { field: "purpose" } });
    expect(fieldOf(bindOnly)).toMatchObject({ refusal: { field: "bind" } });
  });
});

describe("resend is refused, and what wins is", () => {
  const faults: readonly Fault<Update>[] = [
    ["there is no resend left", "RESENDS_EXHAUSTED", as((v) => ({ ...v, resends: 2 }))],
    ["there are under 60 s left", "RESENDS_EXHAUSTED", as((v) => ({ ...v, expireMs: now + 60 * secondMs - 1 }))],
    [
      "there will be under 60 s left when it is due",
      "RESENDS_EXHAUSTED",
      as((v) => ({ ...v, nextResendMs: now + secondMs, expireMs: now + 61 * secondMs - 1 })),
    ],
    ["it is too soon", "RESEND_TOO_SOON", as((v) => ({ ...v, nextResendMs: now + 1 }))],
    [
      "the phone gets too many",
      "PHONE_RATE_LIMITED",
      (call) => ({ ...call, view: { ...call.view, phone: exhaustedPhone(now).view } }),
    ],
    ["nothing", "resent", (call) => call],
  ];
  const ready = as((v) => ({ ...v, nextResendMs: now }))(sound);

  describe.each(ends)("($state)", (ended) => {
    test.each(inOrder([...commonFaults<Update>(ended), ...faults], ready))("%s: %s", (_, answer, call) => {
      expect(answerOf(decideResend(call.view, sameChannel, { claim: call.claim, policy }))).toBe(answer);
    });
  });
});

describe("cancel is refused, and what wins is", () => {
  const nothing: Fault<Update> = ["nothing", "canceled", (call) => call];

  describe.each(ends.filter(({ state }) => state !== "CANCELED"))("($state)", (ended) => {
    test.each(inOrder([...commonFaults<Update>(ended), nothing], sound))("%s: %s", (_, answer, call) => {
      expect(answerOf(decideCancel(call.view, call.claim))).toBe(answer);
    });
  });

  test("a canceled one is canceled again, whatever its time", () => {
    for (const at of [now, testEpochMs + policy.ttlMs, testEpochMs + dayMs]) {
      const canceled = endedAs("CANCELED");
      const { writes, result } = decideCancel({ now: at, verification: canceled, phone: freshPhone }, undefined);
      expect(result).toEqual({ kind: "canceled", verification: canceled });
      expect(writes).toEqual({});
    }
  });
});

describe("send is refused, and what wins is", () => {
  interface Send {
    readonly view: SendView;
    readonly facts: Result<SendFacts>;
    readonly claim: IdempotencyClaim | undefined;
    readonly strict: boolean;
  }
  const faults: readonly Fault<Send>[] = [
    [
      "its key was used for another request",
      "IDEMPOTENCY_KEY_REUSED",
      (call) => ({ ...call, claim: otherClaim, view: { ...call.view, record: busyRecord } }),
    ],
    [
      "the first call with its key is running",
      "IDEMPOTENCY_IN_PROGRESS",
      (call) => ({ ...call, view: { ...call.view, record: busyRecord } }),
    ],
    [
      "its first call was answered",
      "replay",
      (call) => ({ ...call, view: { ...call.view, record, recorded: verificationOf() } }),
    ],
    [
      "the door refused it",
      "COUNTRY_NOT_ALLOWED",
      (call) => ({ ...call, facts: refuse("COUNTRY_NOT_ALLOWED", { field: "phone" }) }),
    ],
    ["the phone was guessed at too often", "DESTINATION_BLOCKED", (call) => ({ ...call, strict: true })],
    [
      "the phone gets too many",
      "PHONE_RATE_LIMITED",
      (call) => ({ ...call, view: { ...call.view, phone: { ...guessedAt, tats: exhaustedPhone(now).view.tats } } }),
    ],
    ["nothing", "opened", (call) => call],
  ];
  const guessedAt = {
    ...freshPhone,
    history: { ...emptyHistory, wrongCodes: [[Math.floor(now / dayMs), 100] as const] },
  };
  const right: Send = { view: { now, phone: guessedAt }, facts: ok(sendFacts), claim, strict: false };

  test.each(inOrder(faults, right))("%s: %s", (_, answer, call) => {
    const guessPolicy = call.strict ? "strict" : "lengthen";
    expect(answerOf(decideSend(call.view, call.facts, { claim: call.claim, policy: { ...policy, guessPolicy } }))).toBe(
      answer,
    );
  });
});

describe("a refusal that spends nothing writes nothing", () => {
  const writesOf = (view: UpdateView, facts: Partial<VerifyFacts> = {}) =>
    decideVerify(view, { code: new Secret(""), purpose: "login", bind: "", ...facts }, { claim, keys, policy }).writes;

  test.each<[string, object]>([
    ["CODE_MALFORMED", writesOf(sound.view)],
    ["PURPOSE_MISMATCH", writesOf(sound.view, { code: rightCode(verificationOf()), purpose: "pay" })],
    ["REQUEST_NOT_FOUND", writesOf({ now })],
    ...ends.map((ended): [string, object] => [ended.state, writesOf({ ...sound.view, verification: ended })]),
    ["RESEND_TOO_SOON", decideResend(sound.view, sameChannel, { claim, policy }).writes],
    [
      "RESENDS_EXHAUSTED",
      decideResend({ ...sound.view, verification: verificationOf({ resends: 2 }) }, sameChannel, { claim, policy })
        .writes,
    ],
    [
      "PHONE_RATE_LIMITED",
      decideSend({ now, phone: exhaustedPhone(now).view }, ok(sendFacts), { claim, policy }).writes,
    ],
    ["the door's", decideSend({ now }, refuse("PHONE_INVALID"), { claim, policy }).writes],
  ])("%s", (_, writes) => {
    expect(writes).toEqual({});
  });
});
