import { describe, expect, test } from "vitest";
import { claim, isProvenUnsent, leaseMs, type Message, type SendOutcome } from "../../../src/otp/message/message.ts";
import { spendAll } from "../../../src/otp/limits/rate-limit.ts";
import {
  decideGiveUp,
  decideReport,
  decideSettle,
  type ReportFacts,
  type SettleView,
} from "../../../src/otp/decisions/settlement.ts";
import type { Verification } from "../../../src/otp/verification/verification.ts";
import type { PhoneView } from "../../../src/otp/decisions/writes.ts";
import type { State } from "../../../src/otp/state.ts";
import {
  endedAs,
  freshPhone,
  logOf,
  messageOf,
  policy,
  secondMs,
  verificationOf,
} from "../../support/data/examples.ts";
import { testEpochMs as now } from "../../support/service/system.ts";

const accepted: SendOutcome = { kind: "accepted", providerMessageId: "id-1" };
const refused: SendOutcome = { kind: "refused", cause: "recipient", detail: "no such number" };
const unavailable: SendOutcome = { kind: "unavailable", detail: "no route" };
const ambiguous: SendOutcome = { kind: "ambiguous", detail: "timeout" };

/** A phone that was sent so many messages just now. */
function phoneAfter(sends: number): PhoneView {
  let tats: readonly number[] = freshPhone.tats;
  for (let i = 0; i < sends; i++) tats = spendAll(policy.phoneLimits, tats, now).tatsMs ?? tats;
  return { ...freshPhone, tats };
}

const sending = (changes: Partial<Verification> = {}) => verificationOf({ delivery: "SENDING", ...changes });
const copy = (n: number, changes: Partial<Message> = {}) => messageOf({ copy: n, ...changes });

function settled(changes: Partial<SettleView>, outcome: SendOutcome, providers = 1) {
  const view = { now, message: messageOf(), verification: sending(), phone: phoneAfter(1), ...changes };
  // One that is done with is in nobody's hand.
  const claimed = { ...view.message, dueMs: view.message.dueMs ?? now };
  return decideSettle(view, { outcome, provider: "one", providers, claimed }, policy);
}

describe("a first message", () => {
  test("that was accepted leaves the verification pending, as accepted", () => {
    const { writes } = settled({}, accepted);
    expect(writes).toMatchObject({
      message: { delivery: "ACCEPTED", dueMs: null },
      verification: { state: "PENDING", delivery: "ACCEPTED" },
    });
    expect(writes.tats).toBeUndefined();
  });

  test("that is proven unsent fails the verification, erases its salt and gives its budget back", () => {
    const { writes } = settled({ now: now + 5 }, refused);
    expect(writes.verification).toEqual(
      verificationOf({
        state: "FAILED",
        delivery: "REJECTED",
        salt: null,
        endMs: now + 5,
        log: logOf([5, "call", "recipient", "one"], [5, "end", "FAILED"]),
      }),
    );
    expect(writes.tats).toEqual([now + 5, now + 5]);
  });

  test.each([
    ["has another provider to go to", refused, 2, {}],
    ["is tried once more", unavailable, 1, {}],
    ["may have been sent", ambiguous, 1, {}],
    ["may have been sent by an earlier call", refused, 1, { maybeSent: true, calls: 2, failures: 1 }],
  ])("that %s fails nothing and gives nothing back", (_, outcome, providers, changes) => {
    const { writes } = settled({ message: messageOf(changes) }, outcome, providers);
    expect(writes.verification).toMatchObject({ state: "PENDING", salt: expect.anything() });
    expect(writes.tats).toBeUndefined();
  });
});

describe("a resend", () => {
  const nextResendMs = now + 60 * secondMs;

  test("that is proven unsent does not count, and may be asked for again at once", () => {
    const view = {
      now: now + 5,
      message: copy(1),
      verification: sending({ resends: 1, nextResendMs }),
      phone: phoneAfter(2),
    };
    const { writes } = settled(view, refused);
    expect(writes.verification).toMatchObject({ state: "PENDING", resends: 0, nextResendMs: now + 5 });
    expect(writes.tats).toEqual(phoneAfter(1).tats);
  });

  test("out there keeps the verification from failing when the first message turns out unsent", () => {
    const verification = verificationOf({ resends: 1, nextResendMs });
    const { writes } = settled({ message: copy(0), verification, phone: phoneAfter(2) }, refused);
    expect(writes.verification).toEqual({ ...verification, log: logOf([0, "call", "recipient", "one"]) });
    expect(writes.message).toMatchObject({ delivery: "REJECTED" });
  });

  test("under way does not take its delivery from an earlier message", () => {
    const verification = sending({ resends: 1, nextResendMs });
    expect(settled({ message: copy(0), verification }, accepted).writes.verification).toEqual({
      ...verification,
      log: logOf([0, "call", "accepted", "one"]),
    });
  });
});

describe("budget comes back once", () => {
  const spentTwice = phoneAfter(2);

  test("when the verification that a resend belonged to was verified meanwhile: the success gave it back", () => {
    const verification = endedAs("VERIFIED", { resends: 1 });
    const { writes } = settled({ message: copy(1), verification, phone: spentTwice }, refused);
    expect(writes.message).toMatchObject({ delivery: "REJECTED" });
    expect(writes.tats).toBeUndefined();
  });

  test("when an earlier message is unsent: the success will give it back", () => {
    const verification = verificationOf({ resends: 1 });
    expect(settled({ message: copy(0), verification, phone: spentTwice }, refused).writes.tats).toBeUndefined();
  });

  test.each<Exclude<State, "PENDING" | "VERIFIED">>(["EXPIRED", "LOCKED", "CANCELED", "FAILED"])(
    "and at once when the verification is %s: no success will",
    (state) => {
      const { writes } = settled({ verification: endedAs(state), phone: spentTwice }, refused);
      expect(writes.tats).toEqual(phoneAfter(1).tats);
    },
  );
});

describe("after a terminal state nothing is sent", () => {
  test.each<[string, Verification, number]>([
    ["VERIFIED", endedAs("VERIFIED"), now],
    ["LOCKED", endedAs("LOCKED"), now],
    ["CANCELED", endedAs("CANCELED"), now],
    ["EXPIRED", endedAs("EXPIRED"), now],
    ["EXPIRED, though no sweep has noted it", sending(), sending().expireMs],
  ])("%s: what would be tried again is not, and the state stays", (_, verification, at) => {
    const message = messageOf({ deadlineMs: at + 60 * secondMs });
    for (const outcome of [unavailable, ambiguous]) {
      const { writes } = settled({ now: at, message, verification }, outcome, 2);
      expect(writes.message).toMatchObject({ delivery: "EXPIRED", dueMs: null });
      expect(writes.verification).toMatchObject({ state: verification.state, salt: verification.salt });
    }
  });

  test("an acceptance is noted all the same", () => {
    const verification = endedAs("VERIFIED", { delivery: "SENDING" });
    expect(settled({ verification }, accepted).writes).toMatchObject({
      message: { delivery: "ACCEPTED" },
      verification: { state: "VERIFIED", delivery: "ACCEPTED" },
    });
  });
});

describe("a message given up, too late to send", () => {
  /** Put back into the outbox before any call of it began. */
  const unsent = (n = 0) => copy(n, { delivery: "QUEUED", calls: 0, dueMs: now });
  const givenUp = (message: Message, verification: Verification, at = now + 5) =>
    decideGiveUp({ now: at, message, verification, phone: phoneAfter(2) }, policy).writes;

  test("and proven unsent fails a verification that has no other, and gives its budget back", () => {
    const { message, verification, tats } = givenUp(unsent(), sending());
    expect(message).toMatchObject({ delivery: "EXPIRED", dueMs: null });
    expect(verification).toMatchObject({ state: "FAILED", delivery: "EXPIRED", salt: null, endMs: now + 5 });
    expect(tats).toEqual(phoneAfter(1).tats);
  });

  test("as a resend, and proven unsent, does not count", () => {
    const { verification, tats } = givenUp(unsent(1), sending({ resends: 1 }));
    expect(verification).toMatchObject({ state: "PENDING", resends: 0, delivery: "EXPIRED" });
    expect(tats).toEqual(phoneAfter(1).tats);
  });

  test.each<[string, Verification, number]>([
    ["EXPIRED", endedAs("EXPIRED"), now],
    ["LOCKED", endedAs("LOCKED"), now],
    ["CANCELED", endedAs("CANCELED"), now],
    ["EXPIRED, though no sweep has noted it", sending(), sending().expireMs],
  ])("after its verification is %s gives its budget back, and the state stays", (_, ended, at) => {
    const { verification, tats } = givenUp(unsent(), ended, at);
    expect(verification).toMatchObject({ state: ended.state, delivery: "EXPIRED", endMs: ended.endMs });
    expect(tats?.map((tat) => tat >= at)).toEqual([true, true]);
  });

  test("gives nothing back a second time when a success has done so or will", () => {
    expect(givenUp(unsent(), endedAs("VERIFIED")).tats).toBeUndefined();
    expect(givenUp(unsent(0), sending({ resends: 1 })).tats).toBeUndefined();
  });

  test.each([
    ["by an ambiguous call", { maybeSent: true }],
    ["by a call that a crash cut short", { calls: 1 }],
  ])("but perhaps sent %s changes nothing but its delivery", (_, changes) => {
    const { message, verification, tats } = givenUp({ ...unsent(), ...changes }, sending());
    expect(message).toMatchObject({ delivery: "EXPIRED", maybeSent: true });
    expect(verification).toEqual(sending({ delivery: "EXPIRED", log: logOf([5, "call", "given-up"]) }));
    expect(tats).toBeUndefined();
  });
});

describe("an answer that is noted again, or late", () => {
  test.each([
    ["a refusal", refused],
    ["a failure", unavailable],
    ["a timeout", ambiguous],
  ])("%s changes nothing about a message that has ended", (_, outcome) => {
    const first = settled({}, refused).result;
    expect(isProvenUnsent(first.message)).toBe(true);
    const again = settled({ message: first.message, verification: first.verification }, outcome);
    expect(again).toEqual({ writes: {}, result: first });
    const taken = settled({}, accepted).result;
    expect(settled({ message: taken.message, verification: taken.verification }, outcome).writes).toEqual({});
  });

  test("a failure noted twice counts once: the message still goes to the next provider", () => {
    const first = settled({}, unavailable, 2).result;
    expect(first.message).toMatchObject({ delivery: "QUEUED", providerIndex: 1, failures: 1 });
    expect(settled({ ...first }, unavailable, 2)).toEqual({ writes: {}, result: first });
  });

  test("an acceptance is news even then", () => {
    const message = messageOf({ delivery: "SENDING", maybeSent: true, calls: 2, failures: 1, dueMs: now + leaseMs });
    expect(settled({ message: { ...message, dueMs: null } }, accepted).writes.message).toMatchObject({
      delivery: "ACCEPTED",
      providerMessageId: "id-1",
    });
  });
});

describe("a report", () => {
  const facts = (changes: Partial<ReportFacts>): ReportFacts => ({
    provider: "one",
    providersOf: () => ["one", "two"],
    providerMessageId: "id-1",
    delivery: "UNDELIVERED",
    detail: undefined,
    ...changes,
  });
  const reported = (message: Message, changes: Partial<ReportFacts>) =>
    decideReport({ now, message, verification: sending(), phone: phoneAfter(1) }, facts(changes)).result.message;
  const taken = settled({}, accepted, 2).result.message;
  const atSecond = claim(reported(taken, {}), now);

  test("of the provider that a message went on to counts before its answer, under a name of its own", () => {
    const early = reported(atSecond, { provider: "two", providerMessageId: "id-2", delivery: "ACCEPTED" });
    expect(early).toMatchObject({ delivery: "ACCEPTED", provider: "two", providerMessageId: "id-2" });
  });

  test("counts after an answer that was lost, under whatever name", () => {
    const lost = settled({ message: atSecond }, ambiguous, 2).result.message;
    const late = decideReport(
      { now, message: lost, verification: sending(), phone: phoneAfter(1) },
      facts({ provider: "one", providersOf: () => ["zero", "one"], providerMessageId: "id-2" }),
    ).result.message;
    expect(late).toMatchObject({ delivery: "UNDELIVERED", dueMs: null, providerMessageId: "id-2" });
  });

  test("of a provider that has left the order is believed of what it took, and all others come after it", () => {
    const left = { providersOf: () => ["two", "three"] };
    expect(reported(taken, left)).toMatchObject({ delivery: "QUEUED", providerIndex: 0, provider: "one" });
    expect(reported(taken, { ...left, delivery: "DELIVERED" })).toMatchObject({ delivery: "DELIVERED" });
    expect(reported(taken, { ...left, providersOf: () => [] })).toMatchObject({ delivery: "UNDELIVERED", dueMs: null });
    // What is in another one's hand by now is not its own any more.
    expect(reported(claim(reported(taken, left), now), left)).toMatchObject({ delivery: "SENDING" });
  });

  test("about another message of the same provider does not", () => {
    expect(reported(taken, { providerMessageId: "id-9" })).toBe(taken);
  });

  test("of undelivered, when its failover is refused, is what remains known: nothing fails, nothing comes back", () => {
    const { writes } = settled({ message: atSecond }, refused, 2);
    expect(writes.message).toMatchObject({ delivery: "UNDELIVERED", dueMs: null });
    expect(writes.verification).toMatchObject({ state: "PENDING", delivery: "UNDELIVERED", salt: expect.anything() });
    expect(writes.tats).toBeUndefined();
  });

  test("of undelivered is kept of a provider that gave no id, too, while the next one has it wait", () => {
    const nameless = decideSettle(
      { now, message: messageOf(), verification: sending(), phone: phoneAfter(1) },
      { outcome: { kind: "accepted" }, provider: "one", providers: 2, claimed: messageOf() },
      policy,
    ).result;
    const undelivered = facts({ providerMessageId: undefined });
    const returned = decideReport({ now, ...nameless, phone: phoneAfter(1) }, undelivered).result;
    const view = { now, message: claim(returned.message, now), verification: returned.verification };
    const asked: SendOutcome = { kind: "throttled", detail: "slow" };
    const call = { outcome: asked, provider: "two", providers: 2, claimed: view.message };
    const waiting = decideSettle({ ...view, phone: phoneAfter(1) }, call, policy).result;
    expect(waiting.message).toMatchObject({
      delivery: "QUEUED",
      provider: "one",
      providerIndex: 1,
      dueMs: now + 1_000,
    });
    expect(decideGiveUp({ now, ...waiting, phone: phoneAfter(1) }, policy).result).toMatchObject({
      message: { delivery: "UNDELIVERED", provider: "one", dueMs: null },
      verification: { delivery: "UNDELIVERED" },
    });
  });

  test("of undelivered that came before a lost answer is known as well as one that came after it", () => {
    const early = reported(messageOf(), {});
    const gone = settled({ message: early }, ambiguous, 2).result.message;
    expect(gone).toMatchObject({ delivery: "QUEUED", providerIndex: 1 });
    expect(settled({ message: claim(gone, now) }, refused, 2).writes.message).toMatchObject({
      delivery: "UNDELIVERED",
    });
  });
});

test("in the sandbox, where a phone has no buckets, nothing is given back", () => {
  expect(settled({ phone: { ...freshPhone, tats: [] } }, refused).writes.tats).toEqual([]);
});
