/**
 * The worker when things end early: other workers die, verifications end, places run out, it is itself stopped. What is
 * owed is sent once, and what is not owed any more is not sent.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import { StoreUnavailable, type Job } from "../../src/store/store.ts";
import { ann, ben } from "../store/acts.ts";
import { createCarriage, placesMax, type Carriage } from "./worker-setup.ts";

const accepted: SendOutcome = { kind: "accepted" };
const refusal: SendOutcome = { kind: "refused", cause: "recipient", detail: "no such number" };
const leaseMs = 30_000;

let c: Carriage;
beforeEach(async () => {
  c = await createCarriage(1);
});
afterEach(() => c.end());

/** Takes every place of the worker by calls that stay open. */
async function fillPlaces() {
  const open = c.leaveOpen(c.networks[0], placesMax);
  const jobs = await Promise.all(Array.from({ length: placesMax }, () => c.acts.send(ben)));
  for (const job of jobs) await c.worker.deliver(job, 0);
  await c.settled();
  expect(open).toHaveLength(placesMax);
  return open;
}

const sentTo = (phone: string) => c.networks[0].received.filter(({ to }) => to === phone);

describe("a message whose worker died", () => {
  test("is sent by another once its lease is over, with the same code", async () => {
    const job = await c.acts.send(ann);
    const successor = await c.another([c.networks[1]]);
    successor.start();
    await c.pass(leaseMs - 1);
    expect(c.networks[1].received).toEqual([]);
    await c.pass(1_000);
    expect(c.networks[1].codeFor(ann)).toBe(c.acts.rightCode(job.verification));
    expect(await c.message(job.verification)).toMatchObject({ delivery: "ACCEPTED", calls: 2, maybeSent: true });
    await c.pass(60_000);
    expect(c.networks[1].received).toHaveLength(1);
  });

  test("is not proven unsent when the next one's provider refuses it", async () => {
    const job = await c.acts.send(ann);
    c.networks[0].script.push(refusal);
    c.worker.start();
    await c.pass(leaseMs + 1_000);
    expect(c.calls).toEqual(["one refused"]);
    expect(await c.acts.read(job.verification)).toMatchObject({ state: "PENDING" });
    expect(await c.acts.guess(job.verification, c.acts.rightCode(job.verification))).toBe("verified");
  });

  test("is not sent with under a minute left", async () => {
    const job = await c.acts.send(ann);
    c.system.advance(540_000);
    c.worker.start();
    await c.pass(2_000);
    expect(c.calls).toEqual([]);
    expect(await c.acts.read(job.verification)).toMatchObject({ state: "PENDING", delivery: "EXPIRED" });
  });

  test("by its late answer takes nothing back from the one that sent it since", async () => {
    const open = c.leaveOpen(c.networks[0], 1);
    const job = await c.acts.send(ann);
    await c.worker.deliver(job, 0);
    await c.settled();
    // Its clock stood still, as that of a stopped virtual machine: no timer of its own has passed.
    c.system.advance(leaseMs);
    const other = await c.another([c.networks[1]]);
    const [claimed] = await c.acts.claim(1);
    await other.deliver(claimed as Job, 1_000);
    const before = [await c.message(job.verification), await c.acts.phone(ann)];
    open[0]?.answer(refusal);
    await c.settled();
    expect([await c.message(job.verification), await c.acts.phone(ann)]).toEqual(before);
    expect(await c.acts.read(job.verification)).toMatchObject({ state: "PENDING", delivery: "ACCEPTED" });
  });
});

test("a look that claims messages and then no fallbacks sends those", async () => {
  const job = await c.acts.send(ann);
  await c.store.releaseMessages([job]);
  c.failNext("claimFallbacks", 1, new StoreUnavailable("disk full"));
  c.worker.start();
  await c.pass(1);
  expect(sentTo(ann)).toHaveLength(1);
  expect(c.faults).toMatchObject([{ name: "StoreUnavailable" }]);
});

test("a message that cannot be claimed keeps no fallback from its time", async () => {
  const job = await c.acts.send(ann, { fallback: { channels: ["voice"], afterMs: 30_000 } });
  await c.worker.deliver(job, 0);
  await c.settled();
  c.system.advance(30_000);
  c.failNext("claimMessages", 1, new Error("odd"));
  c.worker.start();
  await c.pass(1);
  expect(c.calls).toEqual(["one accepted", "none refused"]);
  expect(c.faults).toMatchObject([{ message: "odd" }]);
});

describe.each(["VERIFIED", "LOCKED", "CANCELED", "EXPIRED"] as const)("a verification that is %s", (state) => {
  const untilEnd = {
    VERIFIED: ({ verification }: Job) => c.acts.guess(verification, c.acts.rightCode(verification)),
    LOCKED: async ({ verification }: Job) => {
      const wrong = c.acts.wrongCode(verification);
      for (let i = 0; i < 5; i++) await c.acts.guess(verification, wrong);
    },
    CANCELED: ({ verification }: Job) => c.acts.cancel(verification),
    EXPIRED: async () => c.system.advance(600_000),
  };

  test("has no message sent that was due", async () => {
    const job = await c.acts.send(ann);
    await c.store.releaseMessages([job]);
    await untilEnd[state](job);
    c.worker.start();
    await c.pass(5_000);
    expect(c.calls).toEqual([]);
    expect(await c.store.nextDue()).toBeUndefined();
  });

  test("has no second call made after one that failed", async () => {
    const open = c.leaveOpen(c.networks[0], 1);
    const job = await c.acts.send(ann);
    c.worker.start();
    await c.worker.deliver(job, 0);
    await c.settled();
    await untilEnd[state](job);
    open[0]?.answer({ kind: "unavailable", detail: "connection refused" });
    await c.settled();
    expect(await c.message(job.verification)).toMatchObject({ dueMs: null });
    await c.pass(5_000);
    expect(c.calls).toEqual(["one unavailable"]);
    expect(await c.store.nextDue()).toBeUndefined();
  });

  test("has no message sent that waited for a place meanwhile", async () => {
    const open = await fillPlaces();
    const job = await c.acts.send(ann);
    await c.worker.deliver(job, 0);
    await untilEnd[state](job);
    for (const call of open) call.answer(accepted);
    await c.settled();
    c.worker.start();
    await c.pass(5_000);
    expect(sentTo(ann)).toEqual([]);
  });
});

describe("when all places are taken", () => {
  test("a message waits for one, goes as soon as there is, and tells the minutes left then", async () => {
    const open = await fillPlaces();
    const heard = c.worker.deliver(await c.acts.send(ann), 3_000);
    await c.settled();
    expect(sentTo(ann)).toEqual([]);
    c.system.advance(20_000);
    open[0]?.answer(accepted);
    expect(await heard).toMatchObject({ message: { delivery: "ACCEPTED" } });
    expect(sentTo(ann)).toMatchObject([{ text: expect.stringContaining("in 9 minutes."), validitySeconds: 580 }]);
  });

  test("a message that waited past its lease goes once, by whoever has it then", async () => {
    const open = await fillPlaces();
    const job = await c.acts.send(ann);
    await c.worker.deliver(job, 0);
    c.system.advance(leaseMs);
    const other = await c.another([c.networks[1]]);
    const claimed = await c.acts.claim(100);
    const mine = claimed.find(({ message }) => message.verificationId === job.verification.id);
    await other.deliver(mine as Job, 1_000);
    for (const call of open) call.answer(accepted);
    await c.settled();
    expect(sentTo(ann)).toEqual([]);
    expect(c.networks[1].received).toHaveLength(1);
    expect(await c.message(job.verification)).toMatchObject({ delivery: "ACCEPTED", calls: 2 });
  });

  test("a message whose lease ends before a call could is claimed anew first, and tells the minutes left then", async () => {
    const open = await fillPlaces();
    const job = await c.acts.send(ann);
    await c.worker.deliver(job, 0);
    c.system.advance(leaseMs - 4_000);
    for (const call of open) call.answer(accepted);
    await c.settled();
    expect(sentTo(ann)).toEqual([]);
    await c.pass(1_000);
    expect(sentTo(ann)).toMatchObject([{ text: expect.stringContaining("in 9 minutes."), validitySeconds: 574 }]);
    expect(await c.message(job.verification)).toMatchObject({ calls: 1, maybeSent: true, delivery: "ACCEPTED" });
  });

  test("a message whose turn comes while the store is away is sent once it is back", async () => {
    const open = await fillPlaces();
    const job = await c.acts.send(ann);
    await c.worker.deliver(job, 0);
    c.failNext("readVerification", 3, new StoreUnavailable("disk full"));
    open[0]?.answer(accepted);
    await c.pass(50 + 100 + 199);
    expect(sentTo(ann)).toEqual([]);
    await c.pass(1);
    expect(sentTo(ann)).toHaveLength(1);
    expect(await c.message(job.verification)).toMatchObject({ delivery: "ACCEPTED", calls: 1 });
  });

  test("every one of a thousand messages is sent, and once", async () => {
    c.worker.start();
    const jobs = await Promise.all(Array.from({ length: 1_500 }, (_, i) => c.acts.send(i % 2 === 0 ? ann : ben)));
    for (const job of jobs) void c.worker.deliver(job, 0);
    await c.pass(10_000);
    const texts = c.networks[0].received.map(({ reference }) => reference);
    expect([texts.length, new Set(texts).size]).toEqual([1_500, 1_500]);
    expect(await c.store.nextDue()).toBeUndefined();
    expect(c.faults).toEqual([]);
  });
});

describe("a stop", () => {
  test("waits for the calls under way and notes what they came to", async () => {
    const open = c.leaveOpen(c.networks[0], 1);
    const job = await c.acts.send(ann);
    const heard = c.worker.deliver(job, 10_000);
    await c.settled();
    let stopped = false;
    const stop = c.worker.stop(60_000).then(() => (stopped = true));
    await c.settled();
    expect(stopped).toBe(false);
    open[0]?.answer(accepted);
    expect(await heard).toMatchObject({ message: { delivery: "ACCEPTED" } });
    await stop;
  });

  test("gives back unsent what waits for a place, for the next worker to send at once", async () => {
    const open = await fillPlaces();
    const job = await c.acts.send(ann);
    const heard = c.worker.deliver(job, 10_000);
    const stop = c.worker.stop(60_000);
    for (const call of open) call.answer(accepted);
    await stop;
    expect(await heard).toBeUndefined();
    expect(await c.message(job.verification)).toMatchObject({ delivery: "QUEUED", calls: 0, dueMs: c.system.now() });
    const successor = await c.another([c.networks[1]]);
    successor.start();
    await c.pass(1_000);
    expect(c.networks[1].codeFor(ann)).toBe(c.acts.rightCode(job.verification));
    expect(sentTo(ann)).toEqual([]);
  });

  test("gives back what a look at the outbox claims while it comes", async () => {
    const job = await c.acts.send(ann);
    await c.store.releaseMessages([job]);
    c.worker.start();
    // The look begins, and is waiting for the store when the stop comes.
    c.beginTimers();
    await c.worker.stop(60_000);
    expect(c.calls).toEqual([]);
    expect(await c.message(job.verification)).toMatchObject({ delivery: "QUEUED", calls: 0, dueMs: c.system.now() });
    expect(c.timers()).toBe(0);
  });

  test("does not wait for ever: a call that hangs is given up, and may have been heard", async () => {
    const open = c.leaveOpen(c.networks[0], 1);
    const job = await c.acts.send(ann);
    const heard = c.worker.deliver(job, 60_000);
    await c.settled();
    const stop = c.worker.stop(3_000);
    await c.pass(2_999);
    expect(open[0]?.signal.aborted).toBe(false);
    await c.pass(1);
    await stop;
    expect(await heard).toBeUndefined();
    expect(open[0]?.signal.aborted).toBe(true);
    expect(c.timers()).toBe(0);
    await c.settled();
    expect(await c.message(job.verification)).toMatchObject({ delivery: "QUEUED", calls: 1, maybeSent: true });
  });

  test("does not wait for a store that is away: the message is left to the end of its lease", async () => {
    c.failNext("settleMessage", 100, new StoreUnavailable("disk full"));
    const job = await c.acts.send(ann);
    await c.worker.deliver(job, 0);
    await c.pass(5_000);
    await c.worker.stop(3_000);
    expect(c.timers()).toBe(0);
    expect(c.faults).toMatchObject([{ name: "StoreUnavailable" }]);
    expect(await c.message(job.verification)).toMatchObject({
      delivery: "SENDING",
      calls: 1,
      dueMs: job.message.dueMs,
    });
  });

  test("takes no more: a message that comes afterwards is given back", async () => {
    await c.worker.stop(0);
    const job = await c.acts.send(ann);
    await c.worker.deliver(job, 0);
    await c.settled();
    expect(c.calls).toEqual([]);
    expect(await c.message(job.verification)).toMatchObject({ delivery: "QUEUED", calls: 0, dueMs: c.system.now() });
  });
});
