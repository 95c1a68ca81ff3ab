/**
 * The store's contract: what is kept of a phone (limits and history) is the phone's, whatever becomes of the verifications
 * that it came from.
 */
import { describe, expect, test } from "vitest";
import { wrongCodesOf } from "../../src/otp/verification/policy.ts";
import { idText } from "../../src/store/rows/values.ts";
import type { Store } from "../../src/store/store.ts";
import { testEpochMs } from "../support/service/system.ts";
import { ann, ben, createActs, ringOf, type Acts } from "./acts.ts";
import type { WithStore } from "./contract.ts";

const dayMs = 86_400_000;
const retentionMs = 3 * dayMs;

async function sweepAll(store: Store): Promise<void> {
  while ((await store.sweep(10, retentionMs)).more);
}

const wrongCodes = async (acts: Acts, now = testEpochMs) => wrongCodesOf((await acts.phone(ann)).history, now);

export function phoneCases(withStore: WithStore): void {
  describe("what is kept of a phone", () => {
    test(
      "outlives its verifications, and is found by who opens the database anew",
      withStore(async ({ store, acts, system, reopen }) => {
        const { verification } = await acts.send(ann);
        for (let i = 0; i < 3; i++) await acts.guess(verification, acts.wrongCode(verification));
        const second = (await acts.send(ann)).verification;
        await acts.guess(second, acts.wrongCode(second));
        const { tats, history } = await acts.phone(ann);
        const again = createActs(await reopen(), system);
        expect(await again.phone(ann)).toMatchObject({ tats, history });
        const last = await reopen();
        system.advance(5 * dayMs);
        await sweepAll(last);
        const late = createActs(last, system);
        expect(await last.listVerifications(late.refOf(ann).indexes, 10)).toEqual([]);
        expect((await late.phone(ann)).history).toEqual(history);
        // And counts on.
        const third = (await late.send(ann)).verification;
        await late.guess(third, late.wrongCode(third));
        expect(await wrongCodes(late)).toBe(5);
        system.advance(85 * dayMs);
        await sweepAll(last);
        expect(await wrongCodes(late, system.now())).toBe(1);
        expect(await store.ping().catch(() => "closed")).toBe("closed");
      }),
    );

    test(
      "is spent from while a limit is not full again, also once its verifications are gone",
      withStore(async ({ store, acts, system }) => {
        const phone = { ...acts.refOf(ann), buckets: 1 };
        const spend = (tatMs: number) =>
          store.openVerification({ tenant: "default", slot: undefined, phone }, ({ phone: view }) => ({
            writes: { tats: [tatMs] },
            result: view?.tats,
          }));
        const { verification } = await acts.send(ann);
        const farMs = system.now() + 30 * dayMs;
        await spend(farMs);
        await acts.cancel(verification);
        system.advance(4 * dayMs);
        await sweepAll(store);
        expect(await acts.read(verification).catch(() => "gone")).toBe("gone");
        expect((await acts.phone(ann)).tats[0]).toBe(farMs);
        expect(await spend(farMs + 1)).toEqual([farMs]);
        await acts.send(ben);
        expect((await acts.phone(ann)).tats[0]).toBe(farMs + 1);
      }),
    );

    test(
      "is one over two live requests, in whatever order they are used, end and go",
      withStore(async ({ store, acts, system }) => {
        for (const [winner, loser] of [
          [0, 1],
          [1, 0],
        ] as const) {
          const both = [(await acts.send(ann)).verification, (await acts.send(ann)).verification];
          const of = (place: 0 | 1) => both[place] as (typeof both)[0];
          const before = await wrongCodes(acts);
          for (const place of [0, 1, 0, 1] as const) await acts.guess(of(place), acts.wrongCode(of(place)));
          expect(await wrongCodes(acts)).toBe(before + 4);
          expect(await acts.guess(of(winner), acts.rightCode(of(winner)))).toBe("verified");
          // A success forgives its own request's.
          expect(await wrongCodes(acts)).toBe(before + 2);
          expect((await acts.phone(ann)).history.refunds).toHaveLength(1);
          await acts.guess(of(loser), acts.wrongCode(of(loser)));
          // The winner has ended before the other one does.
          for (const ms of [600_000, retentionMs - 300_000, dayMs]) {
            system.advance(ms);
            await sweepAll(store);
            expect(await wrongCodes(acts)).toBe(before + 3);
          }
        }
      }),
    );

    test(
      "is as the sends before have left it, also where they arrive together: codes get longer all the same",
      withStore(async ({ acts }) => {
        const sent = await Promise.all(Array.from({ length: 8 }, () => acts.send(ann)));
        const digits = sent.map(({ verification }) => verification.digits).toSorted((a, b) => a - b);
        expect(digits).toEqual([6, 6, 6, 6, 8, 8, 8, 8]);
      }),
    );

    test.each([
      ["changes", [2, 1]],
      ["is listed last", [1, 2]],
    ] as const)("is one over its master keys where the current one %s", (_, [first, second]) =>
      withStore(async ({ store, acts, system }) => {
        const other = createActs(store, system, ringOf(first, second));
        const old = (await acts.send(ann)).verification;
        await acts.guess(old, acts.wrongCode(old));
        await other.guess(old, other.wrongCode(old));
        expect(await wrongCodes(other)).toBe(2);
        const young = (await other.send(ann)).verification;
        await other.guess(young, other.wrongCode(young));
        await other.guess(old, other.wrongCode(old));
        expect(await wrongCodes(other)).toBe(4);
        expect(idText(young.phoneIndex) === idText(old.phoneIndex)).toBe(first === 1);
        system.advance(5 * dayMs);
        await sweepAll(store);
        expect(await wrongCodes(other)).toBe(4);
        // The key that nothing is kept under any more can go.
        const current = createActs(store, system, ringOf(first));
        expect(await wrongCodes(current)).toBe(4);
      })(),
    );

    test(
      "is forgotten by a reset for good, also where several verifications of it are there",
      withStore(async ({ store, acts, system }) => {
        const first = (await acts.send(ann)).verification;
        await acts.guess(first, acts.wrongCode(first));
        const second = (await acts.send(ann)).verification;
        await acts.guess(second, acts.wrongCode(second));
        await store.resetPhone(acts.refOf(ann));
        const nothing = { tats: [0, 0], history: { wrongCodes: [], refunds: [] } };
        expect(await acts.phone(ann)).toMatchObject(nothing);
        await acts.cancel(second);
        system.advance(retentionMs);
        await sweepAll(store);
        expect(await acts.phone(ann)).toMatchObject(nothing);
        system.advance(dayMs);
        await sweepAll(store);
        expect(await acts.phone(ann)).toMatchObject(nothing);
      }),
    );
  });
}
