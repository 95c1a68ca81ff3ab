/**
 * The store's contract: records of calls with an Idempotency-Key.
 */
import { describe, expect, test } from "vitest";
import type { SendView } from "../../src/otp/decisions.ts";
import { idempotencyClaim } from "../../src/otp/idempotency.ts";
import { ann } from "./acts.ts";
import type { OnGround } from "./contract.ts";

const scope = { tenant: "default", keyId: "key", rpc: "SendOtp", key: "once" } as const;

export function recordCases(onGround: OnGround): void {
  describe("an idempotency record", () => {
    test(
      "is found again with its verification, by its own slot alone",
      onGround(async ({ store, acts, reopen }) => {
        const claim = idempotencyClaim(acts.keys, scope, ["a"]);
        const { verification } = await acts.send(ann, { claim });
        const [mine] = claim.fingerprints;
        const look = (from: typeof store, slot: Uint8Array) =>
          from.openVerification<SendView>({ tenant: "default", slot, phone: undefined }, (found) => ({
            writes: {},
            result: found,
          }));
        const expected = {
          record: {
            slot: Buffer.from(claim.slot),
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
      onGround(async ({ store, acts }) => {
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
      onGround(async ({ store, acts, system }) => {
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
}
