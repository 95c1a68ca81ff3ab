/**
 * The worker: who is called, how often, when, with what text, and what the verification and the phone's budget come to.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import { decideReport } from "../../src/otp/decisions/settlement.ts";
import { StoreUnavailable } from "../../src/store/store.ts";
import { ann, ben } from "../store/acts.ts";
import { createCarriage, type Carriage } from "./worker-setup.ts";

const refusal: SendOutcome = { kind: "refused", cause: "recipient", detail: "no such number" };
const noCredit: SendOutcome = { kind: "refused", cause: "balance", detail: "no credit" };
const unavailable: SendOutcome = { kind: "unavailable", detail: "connection refused" };
const ambiguous: SendOutcome = { kind: "ambiguous", detail: "HTTP 500" };
const waitMs = 10_000;

let c: Carriage;
afterEach(() => c.end());

const sent = (network = c.networks[0]) => network.received.map(({ text }) => text);

describe("with one provider", () => {
  beforeEach(async () => {
    c = await createCarriage(1);
    c.worker.start();
    await c.settled();
  });

  test("a message is handed over once, with its code, its brand and the minutes that are left", async () => {
    const job = await c.acts.send(ann);
    const settled = await c.worker.deliver(job, waitMs);
    const code = c.acts.rightCode(job.verification);
    expect(c.networks[0].received).toMatchObject([
      {
        to: ann,
        region: "NL",
        text: `${code} is your Acme verification code. It expires in 10 minutes. Never share it.\n\n@shop.example #${code}`,
        validitySeconds: 600,
      },
    ]);
    expect(settled).toMatchObject({ message: { delivery: "ACCEPTED", dueMs: null, provider: "one", calls: 1 } });
    expect(await c.acts.read(job.verification)).toMatchObject({ state: "PENDING", delivery: "ACCEPTED" });
    await c.pass(60_000);
    expect([c.calls, c.faults]).toEqual([["one accepted"], []]);
  });

  test("of a channel that no provider here serves it reaches none, and never left", async () => {
    const settled = await c.worker.deliver(await c.acts.send(ann, { channel: "voice" }), waitMs);
    expect(settled).toMatchObject({
      message: { delivery: "REJECTED", dueMs: null, provider: "none", maybeSent: false },
      verification: { state: "FAILED" },
    });
    expect([sent(), c.faults]).toEqual([[], []]);
  });

  test("nobody has to wait for it", async () => {
    const [call] = [c.leaveOpen(c.networks[0], 1)];
    const job = await c.acts.send(ann);
    expect(await c.worker.deliver(job, 0)).toBeUndefined();
    const waited = c.worker.deliver(await c.acts.send(ben), 1_000);
    await c.settled();
    expect(await waited).toMatchObject({ message: { delivery: "ACCEPTED" } });
    call[0]?.answer({ kind: "accepted" });
    await c.settled();
    expect(await c.message(job.verification)).toMatchObject({ delivery: "ACCEPTED" });
  });

  test("whoever waits is told nothing once the wait is over, and the message goes on", async () => {
    const open = c.leaveOpen(c.networks[0], 1);
    const job = await c.acts.send(ann);
    const heard = c.worker.deliver(job, 2_000);
    await c.pass(2_000);
    expect(await heard).toBeUndefined();
    open[0]?.answer({ kind: "accepted" });
    await c.settled();
    expect(await c.message(job.verification)).toMatchObject({ delivery: "ACCEPTED" });
  });

  test("an unreachable provider is called again after half a second, and then no more", async () => {
    c.networks[0].script.push(unavailable, unavailable);
    const job = await c.acts.send(ann);
    const heard = c.worker.deliver(job, waitMs);
    await c.pass(499);
    expect(c.calls).toEqual(["one unavailable"]);
    expect(await c.message(job.verification)).toMatchObject({ delivery: "QUEUED", failures: 1 });
    await c.pass(1);
    expect(await heard).toMatchObject({ verification: { state: "FAILED", delivery: "REJECTED", salt: null } });
    await c.pass(600_000);
    expect(c.calls).toEqual(["one unavailable", "one unavailable"]);
  });

  test("a call that waits is named in each try, and none once it has its answer", async () => {
    const wait = { kind: "throttled", retryAfterMs: 7_000, detail: "HTTP 429" } as const;
    c.networks[0].script.push(wait, wait);
    const job = await c.acts.send(ann);
    const heard = c.worker.deliver({ ...job, callId: "the send" }, 8_000);
    await c.pass(60_000);
    expect(await heard).toBeUndefined();
    expect(c.calls).toEqual(["one throttled", "one throttled", "one accepted"]);
    expect(c.callIds).toEqual(["the send", "the send", undefined]);
  });

  test("the second call takes the same code", async () => {
    c.networks[0].script.push(unavailable);
    await c.worker.deliver(await c.acts.send(ann), 0);
    await c.pass(500);
    expect(sent()).toHaveLength(2);
    expect(sent()[0]).toBe(sent()[1]);
  });

  test("a provider that asks to wait is called when it said", async () => {
    c.networks[0].script.push({ kind: "throttled", retryAfterMs: 7_000, detail: "HTTP 429" });
    await c.worker.deliver(await c.acts.send(ann), 0);
    await c.pass(6_999);
    expect(c.calls).toEqual(["one throttled"]);
    await c.pass(1);
    expect(c.calls).toEqual(["one throttled", "one accepted"]);
  });

  test("a provider that asks to wait again and again is waited for while there is time", async () => {
    const wait = { kind: "throttled", retryAfterMs: 30_000, detail: "HTTP 429" } as const;
    c.networks[0].script.push(wait, wait, wait);
    const job = await c.acts.send(ann);
    await c.worker.deliver(job, 0);
    await c.pass(90_000);
    expect(c.calls).toEqual(["one throttled", "one throttled", "one throttled", "one accepted"]);
    expect(await c.acts.read(job.verification)).toMatchObject({ state: "PENDING", delivery: "ACCEPTED" });
  });

  test("a refusal is final: the verification has FAILED and the phone has its budget back", async () => {
    c.networks[0].script.push(refusal);
    const before = await c.acts.phone(ann);
    const job = await c.acts.send(ann);
    expect((await c.acts.phone(ann)).tats).not.toEqual(before.tats);
    const settled = await c.worker.deliver(job, waitMs);
    expect(settled).toMatchObject({
      message: { delivery: "REJECTED", recipientRefused: true, detail: "no such number" },
      verification: { state: "FAILED", salt: null, endMs: c.system.now() },
    });
    expect((await c.acts.phone(ann)).tats).toEqual([c.system.now(), c.system.now()]);
    await c.pass(60_000);
    expect(c.calls).toEqual(["one refused"]);
  });

  test.each([
    ["twice ambiguous", [ambiguous, ambiguous]],
    ["ambiguous, then unreachable", [ambiguous, unavailable]],
    ["ambiguous, then refused", [ambiguous, refusal]],
    ["unreachable, then ambiguous", [unavailable, ambiguous]],
  ])("what was %s is never told as unsent, nor called a third time", async (_, script) => {
    c.networks[0].script.push(...script);
    const job = await c.acts.send(ann);
    const spent = (await c.acts.phone(ann)).tats;
    const heard = c.worker.deliver(job, waitMs);
    await c.pass(500);
    expect(await heard).toMatchObject({ message: { delivery: "SENDING", maybeSent: true } });
    expect(await c.acts.read(job.verification)).toMatchObject({ state: "PENDING", delivery: "SENDING" });
    expect((await c.acts.phone(ann)).tats).toEqual(spent);
    await c.pass(539_000);
    expect(c.calls).toHaveLength(2);
    expect(await c.acts.guess(job.verification, c.acts.rightCode(job.verification))).toBe("verified");
  });

  test.each([
    ["rejects", () => Promise.reject(new Error(`cannot send to ${ann}`))],
    [
      "throws at once",
      () => {
        throw new TypeError("not a function");
      },
    ],
  ])("a provider that %s counts as ambiguous", async (_, send) => {
    const broken = { name: "broken", send };
    const worker = await c.another([broken]);
    const job = await c.acts.send(ann);
    const settled = worker.deliver(job, waitMs);
    await c.settled();
    expect(c.calls).toEqual(["broken ambiguous"]);
    expect(await c.message(job.verification)).toMatchObject({ failures: 1, maybeSent: true, delivery: "QUEUED" });
    await c.pass(500);
    expect(await settled).toMatchObject({ message: { delivery: "SENDING", failures: 2 } });
    expect([c.calls, c.faults]).toEqual([["broken ambiguous", "broken ambiguous"], []]);
    expect(JSON.stringify(await c.message(job.verification))).not.toContain(ann);
  });

  test("a provider that hangs is given up after five seconds, told so, and called once more", async () => {
    const open = c.leaveOpen(c.networks[0], 1);
    const job = await c.acts.send(ann);
    await c.worker.deliver(job, 0);
    await c.pass(4_999);
    expect([c.calls, open[0]?.signal.aborted]).toEqual([[], false]);
    await c.pass(1);
    expect([c.calls, open[0]?.signal.aborted]).toEqual([["one ambiguous"], true]);
    await c.pass(500);
    expect(c.calls).toEqual(["one ambiguous", "one accepted"]);
    const code = c.acts.rightCode(job.verification);
    expect(sent().map((text) => text.slice(0, 6))).toEqual([code, code]);
    // Its answer comes after all, and changes nothing.
    open[0]?.answer(refusal);
    await c.settled();
    expect(await c.message(job.verification)).toMatchObject({ delivery: "ACCEPTED", calls: 2 });
  });

  test.each([
    ["accepted", "ACCEPTED"],
    ["delivered", "DELIVERED"],
    ["undelivered", "UNDELIVERED"],
  ] as const)("a provider that reported it %s while its answer was lost is believed", async (_, delivery) => {
    const open = c.leaveOpen(c.networks[0], 1);
    const job = await c.acts.send(ann);
    const heard = c.worker.deliver(job, waitMs);
    await c.settled();
    const facts = { provider: "one", providersOf: () => ["one"], providerMessageId: "m1", delivery, detail: undefined };
    await c.store.settleMessage(job.message, c.acts.phoneOf, (view) => decideReport(view, facts));
    open[0]?.answer(ambiguous);
    await c.pass(120_000);
    expect(c.calls).toEqual(["one ambiguous"]);
    expect(await heard).toMatchObject({ message: { delivery, dueMs: null } });
    expect(await c.acts.read(job.verification)).toMatchObject({ state: "PENDING", delivery });
  });

  test("a retry that would come with under a minute left is not made", async () => {
    const job = await c.acts.send(ann);
    await c.store.releaseMessages([job]);
    c.system.advance(539_600);
    c.networks[0].script.push(unavailable);
    await c.pass(1_000);
    expect(c.calls).toEqual(["one unavailable"]);
    expect(await c.acts.read(job.verification)).toMatchObject({ state: "FAILED", delivery: "REJECTED" });
  });

  test("a text tells the minutes that are left when it is sent", async () => {
    const job = await c.acts.send(ann);
    await c.store.releaseMessages([job]);
    c.system.advance(210_000);
    await c.pass(1_000);
    const [sms] = c.networks[0].received;
    expect(sms?.text).toContain("It expires in 6 minutes.");
    expect(sms?.validitySeconds).toBe(390);
  });

  test("an outcome that the store cannot take is noted as soon as it can, without another call", async () => {
    c.failNext("settleMessage", 3, new StoreUnavailable("disk full"));
    const job = await c.acts.send(ann);
    const heard = c.worker.deliver(job, waitMs);
    await c.pass(349);
    expect(await c.message(job.verification)).toMatchObject({ delivery: "SENDING" });
    await c.pass(1);
    expect(await heard).toMatchObject({ message: { delivery: "ACCEPTED" } });
    expect(c.calls).toEqual(["one accepted"]);
  });

  test("a store that is away for a while is asked again, and what was due is sent", async () => {
    const job = await c.acts.send(ann);
    await c.store.releaseMessages([job]);
    c.failNext("nextDue", 3, new StoreUnavailable("disk full"));
    await c.pass(10_000);
    expect(c.faults).toHaveLength(3);
    expect(c.calls).toEqual(["one accepted"]);
  });

  test("one timer is all that runs when nothing is owed, however much was", async () => {
    c.networks[0].script.push(unavailable, ambiguous, refusal);
    const jobs = await Promise.all(Array.from({ length: 40 }, () => c.acts.send(ann)));
    const heard = jobs.map((job) => c.worker.deliver(job, waitMs));
    await c.pass(1_000);
    await Promise.all(heard);
    expect(c.timers()).toBe(1);
    await c.worker.stop(0);
    expect(c.timers()).toBe(0);
  });
});

describe("with two providers", () => {
  beforeEach(async () => {
    c = await createCarriage(2);
    c.worker.start();
    await c.settled();
  });

  const throttled = { kind: "throttled", retryAfterMs: 60_000, detail: "HTTP 429" } as const;
  test.each([
    { outcome: noCredit, counted: { calls: 2, failures: 1 } },
    { outcome: unavailable, counted: { calls: 2, failures: 1 } },
    { outcome: throttled, counted: { calls: 1, failures: 0 } },
  ])("after $outcome.kind the second has the message at once, with the same code", async ({ outcome, counted }) => {
    c.networks[0].script.push(outcome);
    const job = await c.acts.send(ann);
    const heard = c.worker.deliver(job, waitMs);
    await c.pass(0);
    expect(await heard).toMatchObject({ message: { delivery: "ACCEPTED", provider: "two", ...counted } });
    expect(sent(c.networks[1])).toEqual(sent(c.networks[0]));
  });

  test("two that refuse are two calls, and the recipient is to blame only if both say so", async () => {
    c.networks[0].script.push(refusal, refusal);
    c.networks[1].script.push(refusal, noCredit);
    const both = c.worker.deliver(await c.acts.send(ann), waitMs);
    await c.pass(1);
    const one = c.worker.deliver(await c.acts.send(ben), waitMs);
    await c.pass(60_000);
    expect(await both).toMatchObject({ message: { recipientRefused: true }, verification: { state: "FAILED" } });
    expect(await one).toMatchObject({ message: { recipientRefused: false }, verification: { state: "FAILED" } });
    expect(c.calls).toEqual(["one refused", "two refused", "one refused", "two refused"]);
  });
});

describe("with copies", () => {
  beforeEach(async () => {
    c = await createCarriage(1);
    c.worker.start();
    await c.settled();
  });

  test("a resend carries the code of the first message", async () => {
    const job = await c.acts.send(ann);
    await c.worker.deliver(job, waitMs);
    await c.pass(30_000);
    await c.worker.deliver(await c.acts.resend(job.verification), waitMs);
    const code = c.acts.rightCode(job.verification);
    expect(sent().map((text) => text.slice(0, 6))).toEqual([code, code]);
    expect(c.networks[0].received.map(({ reference }) => reference)).not.toEqual([
      c.networks[0].received[0]?.reference,
      c.networks[0].received[0]?.reference,
    ]);
  });

  test("a resend that never left does not count, and has its budget back", async () => {
    const job = await c.acts.send(ann);
    await c.worker.deliver(job, waitMs);
    await c.pass(30_000);
    const before = (await c.acts.phone(ann)).tats[1];
    c.networks[0].script.push(refusal);
    const resent = await c.acts.resend(job.verification);
    await c.worker.deliver(resent, waitMs);
    expect(await c.acts.read(job.verification)).toMatchObject({
      state: "PENDING",
      resends: 0,
      nextResendMs: c.system.now(),
    });
    expect((await c.acts.phone(ann)).tats[1]).toBe(before);
    expect(await c.acts.guess(job.verification, c.acts.rightCode(job.verification))).toBe("verified");
  });

  test("a first message that never left fails nothing once a resend has arrived", async () => {
    c.networks[0].script.push({ kind: "throttled", retryAfterMs: 60_000, detail: "HTTP 429" });
    const job = await c.acts.send(ann);
    await c.worker.deliver(job, 0);
    await c.pass(30_000);
    await c.worker.deliver(await c.acts.resend(job.verification), waitMs);
    c.networks[0].script.push(refusal);
    await c.pass(30_000);
    expect(c.calls).toEqual(["one throttled", "one accepted", "one refused"]);
    expect(await c.acts.read(job.verification)).toMatchObject({ state: "PENDING", resends: 1, delivery: "ACCEPTED" });
    expect(await c.acts.guess(job.verification, c.acts.rightCode(job.verification))).toBe("verified");
  });
});
