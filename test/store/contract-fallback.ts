/**
 * The store's contract: fallbacks. What is due is found by its time, decided once however many ask, and kept like all else.
 */
import { describe, expect, test } from "vitest";
import { channels } from "../../src/otp/channel.ts";
import { decideFallback } from "../../src/otp/decisions/falling-back.ts";
import { decideSettle } from "../../src/otp/decisions/settlement.ts";
import { capsOf } from "../../src/otp/decisions/spending.ts";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import type { Job, Store } from "../../src/store/store.ts";
import { ann, ben, createActs, ringOf, testPolicy, type Acts } from "./acts.ts";
import type { StoreFixture, WithStore } from "./contract.ts";

const afterMs = 20_000;
const fallback = { channels: ["voice", "whatsapp"], afterMs } as const;

export function claimFallbacks(store: Store, { phoneOf, policy }: Acts, max = 100) {
  return store.claimFallbacks(max, {
    phoneOf,
    numberOf: () => undefined,
    capsOf: ({ tenant, region }) => capsOf(tenant, { region, channel: "voice" }, policy),
    decide: (view) => decideFallback(view, { policy, channelsOn: channels }),
  });
}

export function fallbackCases(withStore: WithStore): void {
  describe("a fallback", () => {
    test(
      "is due at its time, owes a message and is kept with what is left of its plan",
      withStore(async ({ store, acts, system, reopen }) => {
        const { verification, message } = await acts.send(ann, { fallback });
        const settled = { ...message, delivery: "ACCEPTED", maybeSent: true, dueMs: null } as const;
        await store.settleMessage(message, acts.phoneOf, () => ({ writes: { message: settled }, result: undefined }));
        const openedMs = system.now();
        expect(await store.nextDue()).toBe(openedMs + afterMs);
        system.advance(afterMs - 1);
        expect(await claimFallbacks(store, acts)).toEqual([]);
        system.advance(1);
        const [job, ...others] = await claimFallbacks(store, acts);
        expect(others).toEqual([]);
        expect(job?.message).toMatchObject({ verificationId: verification.id, copy: 1, channel: "voice" });
        expect(await claimFallbacks(store, acts)).toEqual([]);
        const again = await reopen();
        const kept = await again.readVerification("default", verification.id);
        expect(kept).toEqual(job?.verification);
        expect(kept?.fallback).toEqual({
          channels: ["whatsapp"],
          afterMs,
          dueMs: openedMs + 2 * afterMs,
          owed: 1,
          unsent: [],
        });
        expect(await again.readMessages(verification.id)).toEqual([settled, job?.message]);
      }),
    );

    test(
      "is claimed though the claim of another one fails, which is told once nothing else is to be claimed",
      withStore(async ({ store, acts, system }) => {
        const [odd, other] = await Promise.all([ann, ben].map((phone) => acts.send(phone, { fallback })));
        for (const { message } of [odd, other].filter((job) => job !== undefined)) {
          const settled = { ...message, delivery: "ACCEPTED", maybeSent: true, dueMs: null } as const;
          await store.settleMessage(message, acts.phoneOf, () => ({ writes: { message: settled }, result: undefined }));
        }
        system.advance(afterMs);
        const phoneOf: Acts["phoneOf"] = (verification) => {
          if (verification.id === odd?.verification.id) throw new Error("odd");
          return acts.phoneOf(verification);
        };
        const claimed = await claimFallbacks(store, { ...acts, phoneOf });
        expect(claimed.map(({ verification }) => verification.id)).toEqual([other?.verification.id]);
        // PostgreSQL passes over what an act that has failed has locked until it is taken back.
        await expect.poll(() => claimFallbacks(store, { ...acts, phoneOf }).catch(String)).toMatch("odd");
        await expect.poll(() => claimFallbacks(store, acts)).toHaveLength(1);
      }),
    );

    test(
      "has the place under the cap that its message before held for a call which is not made now",
      withStore(async ({ store, system }) => {
        const capped = createActs(store, system, ringOf(1), { ...testPolicy, dailyMessagesMax: 2 });
        const answer = (job: Job | undefined, outcome: SendOutcome) => {
          if (job === undefined) throw new Error("one message is due");
          const ended = { outcome, provider: "one", providers: 1, claimed: job.message };
          return store.settleMessage(job.message, capped.phoneOf, (view) => decideSettle(view, ended, capped.policy));
        };
        const first = await capped.send(ann, { fallback });
        await answer(first, { kind: "ambiguous", detail: "?" });
        system.advance(1_000);
        const [second] = await capped.claim();
        await answer(second, { kind: "throttled", retryAfterMs: 2 * afterMs, detail: "slow" });
        expect(await capped.trySend(ben)).toBe("SPEND_LIMIT");
        system.advance(afterMs);
        const [next] = await claimFallbacks(store, capped);
        expect(next?.message).toMatchObject({ copy: 1, channel: "voice", countedDay: expect.any(Number) });
        expect(await store.readMessages(first.verification.id)).toMatchObject([{ countedDay: null, dueMs: null }, {}]);
        // One may have left, and one is under way.
        expect(await capped.trySend(ben)).toBe("SPEND_LIMIT");
        await answer(next, { kind: "refused", cause: "recipient", detail: "no" });
        expect([await capped.trySend(ben), await capped.trySend(ben)]).toEqual(["opened", "SPEND_LIMIT"]);
      }),
    );

    test(
      "is decided for one worker alone, however many ask at once",
      withStore(async ({ store, acts, system, beside }) => {
        const sent = await Promise.all(
          Array.from({ length: 40 }, (_, i) => acts.send(i % 2 === 0 ? ann : ben, { fallback })),
        );
        // Past the leases: whoever had the messages is gone.
        system.advance(30_000);
        const other = await beside();
        const found = [];
        for (let round = 0; round < 40 && found.length < sent.length; round++) {
          const claims = Array.from({ length: 8 }, (_, i) => claimFallbacks(i % 2 === 0 ? store : other, acts, 9));
          found.push(...(await Promise.all(claims)).flat());
        }
        const ids = found.map(({ message }) => message.verificationId);
        expect(ids.toSorted()).toEqual(sent.map(({ verification }) => verification.id).toSorted());
        expect(await claimFallbacks(other, acts)).toEqual([]);
      }),
    );

    test.each([
      ["canceled", ({ acts }, { verification }) => acts.cancel(verification)],
      ["verified", ({ acts }, { verification }) => acts.guess(verification, acts.rightCode(verification))],
      ["over", ({ store, acts, system }) => (system.advance(600_000), store.sweep(10, acts.policy.retentionMs))],
    ] satisfies [string, (way: StoreFixture, job: Job) => Promise<unknown>][])(
      "that does not come, since the request is %s first, leaves it saying how far the message before got",
      (_, end) =>
        withStore(async (way) => {
          const { store, acts, system } = way;
          const refused = await acts.send(ann, { fallback });
          const outcome: SendOutcome = { kind: "refused", cause: "recipient", detail: "no" };
          const ended = { outcome, provider: "one", providers: 1, claimed: refused.message };
          await store.settleMessage(refused.message, acts.phoneOf, (view) => decideSettle(view, ended, acts.policy));
          const givenUp = await acts.send(ben, { fallback });
          await store.releaseMessages([givenUp]);
          // A cap that has been set to nothing since.
          const capped = createActs(store, system, acts.keys, { ...acts.policy, dailyMessagesMax: 0 });
          expect(await capped.claim()).toEqual([]);
          for (const { verification } of [refused, givenUp]) {
            expect(await acts.read(verification)).toMatchObject({ state: "PENDING", delivery: "QUEUED" });
          }
          for (const job of [refused, givenUp]) await end(way, job);
          expect(await acts.read(refused.verification)).toMatchObject({ delivery: "REJECTED" });
          expect(await acts.read(givenUp.verification)).toMatchObject({ delivery: "EXPIRED" });
          expect(await claimFallbacks(store, acts)).toEqual([]);
        })(),
    );

    test(
      "is not due any more once its verification has ended, or was resent",
      withStore(async ({ store, acts, system }) => {
        const [canceled, resent] = [await acts.send(ann, { fallback }), await acts.send(ben, { fallback })];
        await acts.cancel(canceled.verification);
        system.advance(40_000);
        await acts.resend(resent.verification);
        expect(await claimFallbacks(store, acts)).toEqual([]);
        for (const { verification } of [canceled, resent]) {
          expect((await acts.read(verification)).fallback).toMatchObject({ channels: [], dueMs: null });
        }
      }),
    );
  });
}
