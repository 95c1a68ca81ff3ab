/**
 * The store's contract: records of calls with an Idempotency-Key.
 */
import { describe, expect, test } from "vitest";
import type { SendView } from "../../src/otp/decisions/standing.ts";
import {
  idempotencyClaim,
  isBare,
  newRecord,
  slotsUnder,
  type IdempotencyClaim,
  type Slot,
} from "../../src/otp/verification/idempotency.ts";
import type { KeyRing } from "../../src/otp/keys/key-ring.ts";
import type { Store } from "../../src/store/store.ts";
import { keyThrough } from "../../src/store/upkeep.ts";
import { ann, ben, createActs, ringOf } from "./acts.ts";
import type { WithStore } from "./contract.ts";

const scope = { tenant: "default", keyId: "key", rpc: "SendOtp", key: "once" } as const;

export function recordCases(withStore: WithStore): void {
  describe("an idempotency record", () => {
    test(
      "is found again with its verification, by its own slot alone",
      withStore(async ({ store, acts, reopen }) => {
        const claim = idempotencyClaim(acts.keys, scope, ["a"]);
        const { verification } = await acts.send(ann, { claim });
        const [mine] = claim.fingerprints;
        const look = (from: typeof store, slot: Slot) =>
          from.openVerification<SendView>({ tenant: "default", slot, phone: undefined }, (found) => ({
            writes: {},
            result: found,
          }));
        const expected = {
          record: {
            slot: Buffer.from(claim.slot.names[0] ?? []),
            kid: mine?.kid,
            fingerprint: Buffer.from(mine?.mac ?? []),
            verificationId: verification.id,
            answer: null,
            busyUntilMs: verification.createMs + 20_000,
            expireMs: verification.createMs + 86_400_000,
          },
          recorded: verification,
          phone: undefined,
        };
        expect(await look(store, claim.slot)).toMatchObject(expected);
        const elsewhere = idempotencyClaim(acts.keys, { ...scope, tenant: "other" }, ["a"]);
        expect((await look(store, elsewhere.slot)).record).toBeUndefined();
        expect(await look(await reopen(), claim.slot)).toMatchObject(expected);
      }),
    );

    test(
      "takes its answer, with all that the answer holds, or is forgotten",
      withStore(async ({ store, acts }) => {
        const claim = idempotencyClaim(acts.keys, scope, ["a"]);
        const { id } = (await acts.send(ann, { claim })).verification;
        const record = () =>
          store.openVerification({ tenant: "default", slot: claim.slot, phone: undefined }, ({ record: found }) => ({
            writes: {},
            result: found,
          }));
        const refusal = { reason: "PHONE_UNREACHABLE", field: "phone" } as const;
        const sent = { state: "PENDING", delivery: "ACCEPTED", nextResendMs: 30_005, resendsRemaining: 2 } as const;
        const last = {
          ...sent,
          state: "VERIFIED",
          delivery: "DELIVERED",
          nextResendMs: null,
          resendsRemaining: 0,
        } as const;
        const answer = { at: 5, sent };
        for (const noted of [{ at: 5 }, { at: 5, refusal }, { at: 5, refusal, sent }, { at: 5, sent: last }, answer]) {
          await store.noteAnswer(claim.slot, id, noted);
          expect((await record())?.answer).toEqual(noted);
        }
        await store.noteAnswer(claim.slot, id, null);
        expect(await record()).toBeUndefined();
        await store.noteAnswer(claim.slot, id, answer);
        expect(await record()).toBeUndefined();
      }),
    );

    test(
      "of a later call is left alone by what an earlier one comes to, however long that took",
      withStore(async ({ store, acts, system }) => {
        const claim = idempotencyClaim(acts.keys, scope, ["a"]);
        const first = (await acts.send(ann, { claim })).verification;
        // The first is forgotten, and the key stands for another call.
        system.advance(86_400_000);
        const { id } = (await acts.send(ann, { claim })).verification;
        const record = () =>
          store.openVerification({ tenant: "default", slot: claim.slot, phone: undefined }, ({ record: found }) => ({
            writes: {},
            result: found,
          }));
        for (const late of [{ at: 5 }, null]) await store.noteAnswer(claim.slot, first.id, late);
        expect(await record()).toMatchObject({ verificationId: id, answer: null });
      }),
    );
  });

  describe("a record that an earlier version stored under the bare digest", () => {
    test(
      "is found, and also once it has its keyed name",
      withStore(async ({ store, acts }) => {
        const claim = claimOf(acts.keys, "once");
        const { verification } = await acts.send(ann, { claim: asBefore(claim) });
        await store.noteAnswer(asBefore(claim).slot, verification.id, { at: 5 });
        expect(await read(store, claim)).toMatchObject({ slot: claim.slot.digest, verificationId: verification.id });
        await keyThrough(store, slotsUnder(acts.keys));
        const keyed = await read(store, claim);
        expect(keyed).toMatchObject({ slot: claim.slot.names[0], verificationId: verification.id, answer: { at: 5 } });
        expect(await read(store, asBefore(claim))).toBeUndefined();
        // Safe to repeat.
        await keyThrough(store, slotsUnder(acts.keys));
        expect(await read(store, claim)).toEqual(keyed);
      }),
    );

    test(
      "keeps its name while its call is under way in an instance that knows no other",
      withStore(async ({ store, acts, system }) => {
        const claim = claimOf(acts.keys, "once");
        const { verification } = await acts.send(ann, { claim: asBefore(claim) });
        system.advance(19_999);
        await keyThrough(store, slotsUnder(acts.keys));
        expect(await read(store, claim)).toMatchObject({ slot: claim.slot.digest, answer: null });
        system.advance(1);
        await keyThrough(store, slotsUnder(acts.keys));
        expect(await read(store, claim)).toMatchObject({ slot: claim.slot.names[0], verificationId: verification.id });
      }),
    );

    test(
      "counts where it is the later one, and else the keyed one does; one is left",
      withStore(async ({ store, acts, system }) => {
        for (const [first, second] of [
          [asBefore, asNow],
          [asNow, asBefore],
        ] as const) {
          const claim = claimOf(acts.keys, `${first.name} first`);
          const send = async (as: typeof asNow) => {
            const { verification } = await acts.send(ben, { claim: as(claim) });
            await store.noteAnswer(as(claim).slot, verification.id, { at: 5 });
            return verification.id;
          };
          await send(first);
          system.advance(86_400_000);
          const later = await send(second);
          expect(await read(store, claim)).toMatchObject({ verificationId: later });
          await keyThrough(store, slotsUnder(acts.keys));
          expect(await read(store, claim)).toMatchObject({ slot: claim.slot.names[0], verificationId: later });
          await store.noteAnswer(claim.slot, later, null);
          expect(await read(store, claim)).toBeUndefined();
        }
      }),
    );

    test(
      "gets its name page by page, of whatever names there are, from where it was broken off",
      withStore(async ({ store, acts, reopen }) => {
        const claims = Array.from({ length: 30 }, (_, i) => claimOf(acts.keys, `${i}`));
        for (const [i, claim] of claims.entries()) {
          const given = i % 3 === 0 ? claim : asBefore(claim);
          const { verification } = await acts.send(ann, { claim: given });
          await store.noteAnswer(given.slot, verification.id, { at: 5 });
        }
        const from = await store.keySlots(new Uint8Array(), 7, slotsUnder(acts.keys));
        expect(from).toBeDefined();
        const again = await reopen();
        let pages = 1;
        for (let next = from; next !== undefined; pages += 1) {
          next = await again.keySlots(next, 7, slotsUnder(acts.keys));
        }
        // Of 20 bare ones: those that have their names are passed over.
        expect(pages).toBe(3);
        await keyThrough(again, slotsUnder(acts.keys));
        const names = await Promise.all(claims.map(async (claim) => (await read(again, claim))?.slot));
        expect(names.filter((name) => name === undefined || isBare(name))).toEqual([]);
      }),
    );
  });

  test(
    "a record is found under an older master key, and by whoever still lists it",
    withStore(async ({ store, acts, system }) => {
      const claim = claimOf(acts.keys, "once");
      const { verification } = await acts.send(ann, { claim });
      const rotated = createActs(store, system, ringOf(2, 1));
      expect(await read(store, claimOf(rotated.keys, "once"))).toMatchObject({ verificationId: verification.id });
      const later = await rotated.send(ann, { claim: claimOf(rotated.keys, "other") });
      expect(await read(store, claimOf(ringOf(1, 2), "other"))).toMatchObject({
        verificationId: later.verification.id,
      });
      expect(await read(store, claimOf(ringOf(3), "once"))).toBeUndefined();
    }),
  );

  test(
    "of calls at once by instances in the middle of a rotation, each finds what the one before it left",
    withStore(async ({ store, acts, beside }) => {
      const other = await beside();
      const rings = [ringOf(1, 2), ringOf(2, 1)];
      const seen = await Promise.all(
        Array.from({ length: 24 }, (_, i) => {
          const ring = rings[i % 3 === 0 ? 0 : 1] ?? acts.keys;
          const claim = claimOf(ring, "once");
          return (i % 2 === 0 ? store : other).openVerification(
            { tenant: "default", slot: claim.slot, phone: undefined },
            ({ record, now }) => ({
              writes: record === undefined ? { record: newRecord(claim, idOf(i), { at: now }, now) } : {},
              result: record?.verificationId ?? "none",
            }),
          );
        }),
      );
      expect(seen.filter((id) => id === "none")).toHaveLength(1);
      expect(new Set(seen).size).toBe(2);
    }),
  );
}

const claimOf = (keys: KeyRing, key: string) => idempotencyClaim(keys, { ...scope, key }, ["a"]);
const idOf = (i: number) => Buffer.alloc(16, i + 1).toString("base64url");

/** The claim of an instance of an earlier version, which knew one name. */
export function asBefore(claim: IdempotencyClaim): IdempotencyClaim {
  return { ...claim, slot: { digest: claim.slot.digest, names: [claim.slot.digest] } };
}
const asNow = (claim: IdempotencyClaim) => claim;

export function read(store: Store, { slot }: IdempotencyClaim) {
  return store.openVerification({ tenant: "default", slot, phone: undefined }, ({ record }) => ({
    writes: {},
    result: record,
  }));
}
