/**
 * The store's contract, second part: the outbox. A message is in one worker's hands at a time, and is handed out only
 * while it may still be sent.
 */
import { describe, expect, test } from "vitest";
import { decideSettle, type Settled } from "../../src/otp/decisions/settlement.ts";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import type { Job, Store } from "../../src/store/store.ts";
import { channels } from "../../src/otp/channel.ts";
import { ann, ben, type Acts } from "./acts.ts";
import type { WithStore } from "./contract.ts";

const leaseMs = 30_000;
/** A message is not sent from this moment of its verification's life on. */
const deadlineMs = 540_000;

const accepted: SendOutcome = { kind: "accepted", providerMessageId: "m1" };
const ambiguous: SendOutcome = { kind: "ambiguous", detail: "no answer in time" };

function fail(): never {
  throw new Error("odd");
}

function settleAs(store: Store, acts: Acts, job: Job, outcome: SendOutcome): Promise<Settled | undefined> {
  return store.settleMessage(job.message, acts.phoneOf, (view) =>
    decideSettle(view, { outcome, provider: "test", providers: 1, claimed: job.message }, acts.policy),
  );
}

export function outboxCases(withStore: WithStore): void {
  describe("a message", () => {
    test(
      "is in the hands of the process that made it until its lease ends, then anyone's",
      withStore(async ({ store, acts, system }) => {
        const { verification, message } = await acts.send(ann);
        expect(await store.nextDue()).toBe(system.now() + leaseMs);
        system.advance(leaseMs - 1);
        expect(await acts.claim()).toEqual([]);
        system.advance(1);
        expect(await acts.claim()).toEqual([
          {
            message: { ...message, calls: 2, maybeSent: true, dueMs: system.now() + leaseMs },
            verification,
            now: system.now(),
          },
        ]);
        expect(await acts.claim()).toEqual([]);
        expect(await store.nextDue()).toBe(system.now() + leaseMs);
      }),
    );

    test(
      "is claimed though the claim of another one fails, which is told once nothing else is to be claimed",
      withStore(async ({ store, acts, system }) => {
        const [odd, ...others] = await Promise.all([ann, ben, ben].map((phone) => acts.send(phone)));
        system.advance(leaseMs);
        const claim = () =>
          acts.claim(10, {
            ...store,
            claimMessages: (max, phoneOf, decideLate, billOf) =>
              store.claimMessages(max, phoneOf, decideLate, (verification, message) =>
                verification.id === odd?.verification.id ? fail() : billOf(verification, message),
              ),
          });
        const ids = (await claim()).map(({ message }) => message.verificationId);
        expect(ids.toSorted()).toEqual(others.map(({ verification }) => verification.id).toSorted());
        // PostgreSQL passes over what an act that has failed has locked until it is taken back.
        await expect.poll(() => claim().catch(String)).toMatch("odd");
        await expect.poll(() => acts.claim()).toHaveLength(1);
      }),
    );

    test(
      "is handed to one worker alone, however many ask at once",
      withStore(async ({ store, acts, system, beside }) => {
        const sent = await Promise.all(Array.from({ length: 60 }, (_, i) => acts.send(i % 2 === 0 ? ann : ben)));
        system.advance(leaseMs);
        const other = await beside();
        const batches = await Promise.all(
          Array.from({ length: 30 }, (_, i) => acts.claim(7, i % 2 === 0 ? store : other)),
        );
        const ids = batches.flat().map(({ message }) => message.verificationId);
        expect(ids.toSorted()).toEqual(sent.map(({ verification }) => verification.id).toSorted());
        expect(Math.max(...batches.map((batch) => batch.length))).toBe(7);
      }),
    );

    test(
      "travels by the channel that its verification was asked for by, and so does a resend",
      withStore(async ({ store, acts, system }) => {
        for (const channel of channels) {
          const { verification, message } = await acts.send(ann, { channel });
          expect([verification.channel, message.channel]).toEqual([channel, channel]);
          system.advance(leaseMs);
          expect(await acts.claim()).toMatchObject([{ message: { channel }, verification: { channel } }]);
          const resent = await acts.resend(await acts.read(verification));
          expect(resent).toMatchObject({ message: { channel, copy: 1 }, verification: { channel } });
          expect((await store.readMessages(verification.id)).map((each) => each.channel)).toEqual([channel, channel]);
          expect(await acts.cancel(verification)).toBe("canceled");
          system.advance(leaseMs);
          expect(await acts.claim()).toEqual([]);
        }
      }),
    );

    test(
      "that has been due for longest is handed out first",
      withStore(async ({ acts, system }) => {
        const sent: string[] = [];
        for (const phone of [ann, ben, ann, ben]) {
          sent.push((await acts.send(phone)).verification.id);
          system.advance(10);
        }
        system.advance(leaseMs);
        const order = [...(await acts.claim(3)), ...(await acts.claim(3))];
        expect(order.map(({ message }) => message.verificationId)).toEqual(sent);
      }),
    );

    test(
      "past its deadline ends as EXPIRED, and counts as maybe sent when a call was cut short",
      withStore(async ({ store, acts, system }) => {
        const cutShort = await acts.send(ann);
        const unsent = await acts.send(ben);
        await store.releaseMessages([unsent]);
        system.advance(deadlineMs);
        expect(await acts.claim()).toEqual([]);
        expect(await store.nextDue()).toBeUndefined();
        expect((await acts.read(cutShort.verification)).delivery).toBe("EXPIRED");
        const read = (job: Job) =>
          store.settleMessage(job.message, acts.phoneOf, (view) => ({ writes: {}, result: view.message }));
        expect(await read(cutShort)).toMatchObject({ delivery: "EXPIRED", maybeSent: true, dueMs: null });
        expect(await read(unsent)).toMatchObject({ delivery: "EXPIRED", maybeSent: false, dueMs: null });
      }),
    );

    test(
      "too late and proven unsent gives its SMS back to the phone, and fails a verification that has no other",
      withStore(async ({ store, acts, system }) => {
        const job = await acts.send(ann);
        await store.releaseMessages([job]);
        system.advance(deadlineMs);
        await acts.send(ann);
        expect((await acts.phone(ann)).tats).toEqual([system.now() + 1_000, system.now() + 60_000]);
        expect(await acts.claim()).toEqual([]);
        expect((await acts.phone(ann)).tats).toEqual([system.now(), system.now()]);
        expect(await acts.read(job.verification)).toMatchObject({ state: "FAILED", delivery: "EXPIRED", salt: null });
      }),
    );

    test(
      "is in the outbox's depth until it is handed over, and in its lag once it is due",
      withStore(async ({ store, acts, system }) => {
        expect(await store.readOutbox()).toEqual({ depth: 0, lagMs: 0 });
        const [first, second] = [await acts.send(ann), await acts.send(ben)];
        expect(await store.readOutbox()).toEqual({ depth: 2, lagMs: 0 });
        system.advance(leaseMs + 7_000);
        expect(await store.readOutbox()).toEqual({ depth: 2, lagMs: 7_000 });
        await settleAs(store, acts, first, accepted);
        expect(await store.readOutbox()).toEqual({ depth: 1, lagMs: 7_000 });
        // Called for the last time in vain, it only waits for the provider's report until its deadline.
        await settleAs(store, acts, second, ambiguous);
        system.advance(500);
        const [again] = await acts.claim();
        await settleAs(store, acts, again as Job, ambiguous);
        expect(await store.readOutbox()).toEqual({ depth: 0, lagMs: 0 });
      }),
    );

    test(
      "one millisecond before its deadline is still handed out",
      withStore(async ({ acts, system }) => {
        await acts.send(ann);
        system.advance(deadlineMs - 1);
        expect(await acts.claim()).toHaveLength(1);
      }),
    );

    test.each(["VERIFIED", "LOCKED", "CANCELED"] as const)(
      "of a verification that is %s is never handed out",
      (state) =>
        withStore(async ({ store, acts, system }) => {
          const { verification } = await acts.send(ann);
          const untilEnd = {
            VERIFIED: () => acts.guess(verification, acts.rightCode(verification)),
            LOCKED: async () => {
              for (let i = 0; i < 5; i++) await acts.guess(verification, acts.wrongCode(verification));
            },
            CANCELED: () => acts.cancel(verification),
          };
          await untilEnd[state]();
          system.advance(leaseMs);
          expect(await acts.claim()).toEqual([]);
          expect(await store.nextDue()).toBeUndefined();
          expect(await acts.read(verification)).toMatchObject({ state, delivery: "EXPIRED", salt: null });
        })(),
    );

    test(
      "given up does not speak for a later one of the same verification",
      withStore(async ({ store, acts, system }) => {
        const first = await acts.send(ann);
        system.advance(leaseMs);
        const second = await acts.resend(first.verification);
        await settleAs(store, acts, second, accepted);
        await acts.cancel(first.verification);
        expect(await acts.claim()).toEqual([]);
        expect((await acts.read(first.verification)).delivery).toBe("ACCEPTED");
      }),
    );
  });

  describe("a release", () => {
    test(
      "gives a message back as it was before the claim, due at once",
      withStore(async ({ store, acts, system }) => {
        const job = await acts.send(ann);
        await store.releaseMessages([job]);
        expect(await store.nextDue()).toBe(system.now());
        const [again] = await acts.claim();
        expect(again?.message).toEqual(job.message);
      }),
    );

    test(
      "by a worker whose lease has ended takes nothing from the one that has the message now",
      withStore(async ({ store, acts, system }) => {
        const late = await acts.send(ann);
        system.advance(leaseMs);
        const [current] = await acts.claim();
        await store.releaseMessages([late]);
        expect(await acts.claim()).toEqual([]);
        expect(await store.nextDue()).toBe(current?.message.dueMs);
      }),
    );

    test(
      "neither sends an accepted message again nor brings a deleted one back",
      withStore(async ({ store, acts, system }) => {
        const job = await acts.send(ann);
        await settleAs(store, acts, job, accepted);
        await store.releaseMessages([job]);
        expect(await store.nextDue()).toBeUndefined();
        expect((await acts.read(job.verification)).delivery).toBe("ACCEPTED");
        system.advance(600_000);
        await store.sweep(10, 0);
        await store.sweep(10, 0);
        await store.releaseMessages([job]);
        expect(await store.nextDue()).toBeUndefined();
        expect(await acts.claim()).toEqual([]);
      }),
    );
  });

  describe("a settlement", () => {
    test(
      "is seen with the message, its verification and its phone as they are now",
      withStore(async ({ store, acts, system }) => {
        const job = await acts.send(ann);
        await acts.guess(job.verification, acts.wrongCode(job.verification));
        await acts.send(ann);
        system.advance(100);
        const view = await store.settleMessage(job.message, acts.phoneOf, (found) => ({ writes: {}, result: found }));
        expect(view?.now).toBe(system.now());
        expect(view?.message).toEqual(job.message);
        expect(view?.verification.attempts).toBe(1);
        expect(view?.phone.openAttempts).toBe(9);
        expect(view?.phone.tats[0]).toBe(system.now() - 100 + 2_000);
      }),
    );

    test(
      "writes the message, the verification and the limits together",
      withStore(async ({ store, acts, system }) => {
        const job = await acts.send(ann);
        const refusal: SendOutcome = { kind: "refused", cause: "recipient", detail: "no such number" };
        const settled = await settleAs(store, acts, job, refusal);
        expect(settled?.message).toMatchObject({ delivery: "REJECTED", dueMs: null, detail: "no such number" });
        expect(await store.nextDue()).toBeUndefined();
        expect(await acts.read(job.verification)).toMatchObject({ state: "FAILED", delivery: "REJECTED", salt: null });
        expect((await acts.phone(ann)).tats).toEqual([system.now(), system.now()]);
      }),
    );

    test(
      "of an accepted message keeps the provider's name for it",
      withStore(async ({ store, acts }) => {
        const job = await acts.send(ann);
        await settleAs(store, acts, job, accepted);
        const message = await store.settleMessage(job.message, acts.phoneOf, (view) => ({
          writes: {},
          result: view.message,
        }));
        expect(message).toMatchObject({ delivery: "ACCEPTED", dueMs: null, provider: "test", providerMessageId: "m1" });
      }),
    );

    test(
      "of a message that is gone decides nothing",
      withStore(async ({ store, acts, system }) => {
        const job = await acts.send(ann);
        await acts.cancel(job.verification);
        await store.sweep(10, 0);
        let decided = false;
        const settled = await store.settleMessage(job.message, acts.phoneOf, () => {
          decided = true;
          return { writes: {}, result: "settled" };
        });
        expect([settled, decided]).toEqual([undefined, false]);
        expect(system.now()).toBe(job.now);
      }),
    );
  });

  test(
    "with nothing owed nothing is due",
    withStore(async ({ store, acts }) => {
      expect(await store.nextDue()).toBeUndefined();
      expect(await acts.claim()).toEqual([]);
    }),
  );
}
