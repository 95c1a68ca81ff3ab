/**
 * The store's contract, fourth part: what a tenant's callers typed, minute by minute, and which master key a phone's past
 * is kept under.
 */
import { describe, expect, test } from "vitest";
import type { E164 } from "../../src/otp/phone-number.ts";
import { sandboxOf } from "../../src/otp/message/sandbox.ts";
import type { Guesses } from "../../src/otp/verification/spraying.ts";
import { MasterKeyMismatch } from "../../src/store/registry.ts";
import type { Store } from "../../src/store/store.ts";
import { ann, ben, createActs, ringOf, testPolicy, type Acts } from "./acts.ts";
import type { WithStore } from "./contract.ts";

const minuteMs = 60_000;
const dayMs = 86_400_000;

/** Types `wrong` wrong codes at a tenant, each at a phone's new request, five to a phone. */
async function guessAt(acts: Acts, tenant: string, wrong: number): Promise<void> {
  const firsts = Array.from({ length: Math.ceil(wrong / 5) }, (_, i) => 5 * i);
  const guesses = firsts.map(async (done) => {
    const { verification } = await acts.send(`+3161${1_000_000 + done}` as E164, { tenant });
    for (let i = 0; i < Math.min(5, wrong - done); i++) await acts.guess(verification, acts.wrongCode(verification));
  });
  await Promise.all(guesses);
}

/** Types the right code of so many new requests. */
async function verifyAt(acts: Acts, tenant: string, right: number): Promise<void> {
  const verifying = Array.from({ length: right }, async () => {
    const { verification } = await acts.send(ben, { tenant });
    await acts.guess(verification, acts.rightCode(verification));
  });
  await Promise.all(verifying);
}

/** What a send's decision sees. */
function seenAt(store: Store, acts: Acts, tenant: string): Promise<Guesses | undefined> {
  const scope = { tenant, slot: undefined, phone: acts.refOf(ann, { tenant }) };
  return store.openVerification(scope, ({ guesses }) => ({ writes: {}, result: guesses }));
}

const digitsOf = async (acts: Acts, options = {}) => (await acts.send(ann, options)).verification.digits;

export function guessCases(withStore: WithStore): void {
  describe("guesses at a tenant", () => {
    test(
      "are counted, wrong and right, as they are compared, for their own tenant alone",
      withStore(async ({ store, acts, reopen }) => {
        expect([...(await store.readGuesses())]).toEqual([]);
        await guessAt(acts, "default", 7);
        await verifyAt(acts, "default", 2);
        await guessAt(acts, "other", 1);
        const { verification } = await acts.send(ann);
        expect(await acts.guess(verification, "12")).toBe("CODE_MALFORMED");
        const expected = new Map([
          ["default", { wrong: 7, right: 2 }],
          ["other", { wrong: 1, right: 0 }],
        ]);
        expect(await store.readGuesses()).toEqual(expected);
        expect(await seenAt(store, acts, "default")).toEqual({ wrong: 7, right: 2 });
        expect(await seenAt(store, acts, "third")).toEqual({ wrong: 0, right: 0 });
        expect(await (await reopen()).readGuesses()).toEqual(expected);
      }),
    );

    test(
      "of a sandbox are not counted",
      withStore(async ({ store, acts }) => {
        const phone = "+14155550100" as E164;
        const { verification } = await acts.send(phone, { tenant: sandboxOf("default") });
        expect(await acts.guess(verification, "999999")).toBe("CODE_MISMATCH");
        expect([...(await store.readGuesses())]).toEqual([]);
      }),
    );

    test(
      "count in their minute and the ten that follow, and are swept after that",
      withStore(async ({ store, acts, system }) => {
        system.advance(minuteMs - 1);
        await guessAt(acts, "default", 1);
        system.advance(1);
        await guessAt(acts, "default", 2);
        system.advance(10 * minuteMs - 1);
        expect(await seenAt(store, acts, "default")).toEqual({ wrong: 3, right: 0 });
        system.advance(1);
        expect(await seenAt(store, acts, "default")).toEqual({ wrong: 2, right: 0 });
        expect(await store.readGuesses()).toEqual(new Map([["default", { wrong: 2, right: 0 }]]));
        const deleted = async () => (await store.sweep(1_000, testPolicy.retentionMs)).deleted;
        const before = await deleted();
        expect(before).toBeGreaterThanOrEqual(1);
        expect(await deleted()).toBe(0);
        system.advance(minuteMs);
        expect([...(await store.readGuesses())]).toEqual([]);
        expect(await deleted()).toBe(1);
      }),
    );

    test(
      "seen by two processes are the same ones",
      withStore(async ({ acts, system, beside }) => {
        const other = await beside();
        await guessAt(acts, "default", 3);
        await guessAt(createActs(other, system), "default", 4);
        expect(await other.readGuesses()).toEqual(new Map([["default", { wrong: 7, right: 0 }]]));
      }),
    );

    test(
      "200 wrong in ten minutes give every new code of the tenant 8 digits, in both lanes, until they are past",
      withStore(async ({ acts, system, reopen }) => {
        const [early] = [await acts.send(ben)];
        await guessAt(acts, "default", 199);
        expect(await digitsOf(acts)).toBe(6);
        const { verification } = await acts.send("+31611111111" as E164);
        await acts.guess(verification, acts.wrongCode(verification));
        expect(await digitsOf(acts)).toBe(8);
        expect(await digitsOf(acts, { knownUser: true })).toBe(8);
        expect(await digitsOf(acts, { tenant: "other" })).toBe(6);
        expect(await acts.guess(early.verification, acts.rightCode(early.verification))).toBe("verified");
        const again = createActs(await reopen(), system);
        expect(await digitsOf(again)).toBe(8);
        system.advance(11 * minuteMs);
        expect(await digitsOf(again)).toBe(6);
      }),
    );

    test(
      "among which a fifth are right leave codes as they are",
      withStore(async ({ acts }) => {
        await guessAt(acts, "default", 200);
        await verifyAt(acts, "default", 49);
        expect(await digitsOf(acts)).toBe(8);
        await verifyAt(acts, "default", 1);
        expect(await digitsOf(acts)).toBe(6);
      }),
    );
  });

  describe("a master key", () => {
    const admit = (store: Store, ...bytes: number[]) => store.registry.admitMasterKeys(ringOf(...bytes).all);
    const sweepAll = async (store: Store) => {
      while ((await store.sweep(100, testPolicy.retentionMs)).more);
    };

    test(
      "is needed for as long as a phone's wrong codes count that were typed under it",
      withStore(async ({ store, acts, system }) => {
        await admit(store, 1);
        const { verification } = await acts.send(ann);
        await acts.guess(verification, acts.wrongCode(verification));
        await admit(store, 2, 1);
        system.advance(89 * dayMs);
        await sweepAll(store);
        await sweepAll(store);
        await expect(admit(store, 2)).rejects.toBeInstanceOf(MasterKeyMismatch);
        system.advance(dayMs);
        await sweepAll(store);
        await expect(admit(store, 2)).resolves.toBeUndefined();
      }),
    );

    test(
      "is needed no more once what it knew has moved to the one in front",
      withStore(async ({ store, acts, system }) => {
        await admit(store, 1);
        const { verification } = await acts.send(ann);
        await acts.guess(verification, acts.wrongCode(verification));
        await admit(store, 2, 1);
        const both = createActs(store, system, ringOf(2, 1));
        const { verification: later } = await both.send(ann);
        await both.guess(later, both.wrongCode(later));
        system.advance(testPolicy.retentionMs + 600_000);
        await sweepAll(store);
        await sweepAll(store);
        await admit(store, 2);
        expect((await createActs(store, system, ringOf(2)).phone(ann)).history.wrongCodes).toMatchObject([
          [expect.any(Number), 2],
        ]);
      }),
    );

    test(
      "is needed for as long as a bucket that was emptied under it refills",
      withStore(async ({ store, system }) => {
        await admit(store, 1);
        const policy = { ...testPolicy, phoneLimits: [{ burst: 1, intervalMs: 10 * dayMs }] };
        await createActs(store, system, ringOf(1), policy).send(ann);
        await admit(store, 2, 1);
        system.advance(9 * dayMs);
        await sweepAll(store);
        await sweepAll(store);
        await expect(admit(store, 2)).rejects.toBeInstanceOf(MasterKeyMismatch);
        expect(await createActs(store, system, ringOf(2, 1), policy).trySend(ann)).toBe("PHONE_RATE_LIMITED");
        system.advance(dayMs);
        await expect(admit(store, 2)).resolves.toBeUndefined();
      }),
    );
  });
}
