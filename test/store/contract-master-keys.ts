/**
 * The store's contract: which master keys a database takes, and what becomes of what it holds when they rotate.
 */
import { describe, expect, test } from "vitest";
import { MasterKeyMismatch } from "../../src/store/registry.ts";
import type { Store } from "../../src/store/store.ts";
import { ann, ben, createActs, ringOf, testPolicy } from "./acts.ts";
import type { WithStore } from "./contract.ts";
import { retentionMs, sweepAll } from "./contract-upkeep.ts";

const dayMs = 86_400_000;

export function masterKeyCases(withStore: WithStore): void {
  describe("master keys", () => {
    const admit = (store: Store, ...bytes: number[]) => store.registry.admitMasterKeys(ringOf(...bytes).all);

    test(
      "are those the database was written with, or the start is refused",
      withStore(async ({ store, acts, reopen }) => {
        await admit(store, 1);
        await acts.send(ann);
        await expect(admit(store, 2)).rejects.toBeInstanceOf(MasterKeyMismatch);
        const later = await reopen();
        await expect(admit(later, 2)).rejects.toBeInstanceOf(MasterKeyMismatch);
        await expect(admit(later, 2, 3)).rejects.toBeInstanceOf(MasterKeyMismatch);
        await expect(admit(later, 1)).resolves.toBeUndefined();
      }),
    );

    test(
      "are judged for a command, which notes and forgets none",
      withStore(async ({ store, acts }) => {
        const judge = (...bytes: number[]) => store.registry.judgeMasterKeys(ringOf(...bytes).all);
        await expect(judge(2)).resolves.toBeUndefined();
        expect(await store.registry.hasMasterKey()).toBe(false);
        await admit(store, 1);
        expect(await store.registry.hasMasterKey()).toBe(true);
        await admit(store, 2, 1);
        await expect(judge(1)).resolves.toBeUndefined();
        await expect(judge(2)).resolves.toBeUndefined();
        await acts.send(ann);
        await expect(judge(2)).rejects.toBeInstanceOf(MasterKeyMismatch);
        await expect(judge(3)).rejects.toBeInstanceOf(MasterKeyMismatch);
        await expect(judge(1)).resolves.toBeUndefined();
        await expect(admit(store, 1, 2)).resolves.toBeUndefined();
      }),
    );

    test(
      "rotate: the new one in front, the old one behind it as long as rows need it",
      withStore(async ({ store, acts, system }) => {
        await admit(store, 1);
        await acts.send(ann);
        await admit(store, 2, 1);
        await createActs(store, system, ringOf(2, 1)).send(ben);
        await expect(admit(store, 2)).rejects.toBeInstanceOf(MasterKeyMismatch);
        await expect(admit(store, 1)).rejects.toBeInstanceOf(MasterKeyMismatch);
        system.advance(600_000);
        await sweepAll(store, 10, 10);
        await expect(admit(store, 2)).rejects.toBeInstanceOf(MasterKeyMismatch);
        system.advance(retentionMs);
        await sweepAll(store, 10, 10);
        await expect(admit(store, 2)).resolves.toBeUndefined();
        await expect(admit(store, 1)).rejects.toBeInstanceOf(MasterKeyMismatch);
      }),
    );

    test(
      "that share an id with another key are refused, in the database and among themselves",
      withStore(async ({ store }) => {
        const [mine] = ringOf(1).all;
        const kid = mine?.kid ?? 0;
        const check = new Uint8Array(16);
        await expect(store.registry.admitMasterKeys([...ringOf(1, 1).all])).rejects.toBeInstanceOf(MasterKeyMismatch);
        await expect(store.registry.admitMasterKeys([...ringOf(1).all, { kid, check }])).rejects.toBeInstanceOf(
          MasterKeyMismatch,
        );
        await admit(store, 1);
        await expect(store.registry.admitMasterKeys([{ kid, check }])).rejects.toBeInstanceOf(MasterKeyMismatch);
        await expect(store.registry.admitMasterKeys([...ringOf(2).all, { kid, check }])).rejects.toBeInstanceOf(
          MasterKeyMismatch,
        );
        await expect(admit(store, 1)).resolves.toBeUndefined();
      }),
    );

    test(
      "rotated reset no limit: what the old key knew of a phone is found, and moves with the next write",
      withStore(async ({ store, acts: old, system }) => {
        const { verification } = await old.send(ann);
        await old.guess(verification, old.wrongCode(verification));
        await old.send(ann);
        const known = await old.phone(ann);
        const both = createActs(store, system, ringOf(2, 1));
        expect(await both.phone(ann)).toEqual(known);

        system.advance(10);
        const { verification: third } = await both.send(ann);
        expect((await both.phone(ann)).tats).toEqual(known.tats.map((tat, i) => tat + 1_000 * (i === 0 ? 1 : 60)));
        expect((await old.phone(ann)).tats).toEqual([0, 0]);
        expect(await both.phone(ann)).toMatchObject({ history: known.history, openAttempts: known.openAttempts + 5 });

        await both.guess(third, both.wrongCode(third));
        expect((await both.phone(ann)).history.wrongCodes).toMatchObject([[expect.any(Number), 2]]);
        expect((await old.phone(ann)).history.wrongCodes).toEqual([]);
        expect((await createActs(store, system, ringOf(2)).phone(ann)).history.wrongCodes).toHaveLength(1);
        expect(await both.guess(verification, both.rightCode(verification))).toBe("verified");
      }),
    );

    test(
      "rotated while a limit is spent let nothing through",
      withStore(async ({ store, system }) => {
        const policy = { ...testPolicy, phoneLimits: [{ burst: 3, intervalMs: dayMs }] };
        const tries = async (...bytes: number[]) => {
          const acts = createActs(store, system, ringOf(...bytes), policy);
          return [await acts.trySend(ann), await acts.trySend(ann)];
        };
        expect(await tries(1)).toEqual(["opened", "opened"]);
        expect(await tries(2, 1)).toEqual(["opened", "PHONE_RATE_LIMITED"]);
        expect(await tries(3, 2, 1)).toEqual(["PHONE_RATE_LIMITED", "PHONE_RATE_LIMITED"]);
      }),
    );
  });
}
