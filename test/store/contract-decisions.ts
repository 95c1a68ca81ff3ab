/**
 * The store's contract, first part: decisions. Durable before it is answered, all or nothing, one after the other, and
 * everything within its tenant.
 */
import { describe, expect, test } from "vitest";
import { idempotencyClaim } from "../../src/otp/verification/idempotency.ts";
import type { UpdateView } from "../../src/otp/decisions/standing.ts";
import { ann, ben, createActs, ringOf, testPolicy } from "./acts.ts";
import type { WithStore } from "./contract.ts";

const scope = { tenant: "default", keyId: "key", rpc: "SendOtp", key: "once" } as const;

export function decisionCases(withStore: WithStore): void {
  describe("a decision", () => {
    test(
      "is durable when it is answered: another process sees it at that moment, and so does the next one",
      withStore(async ({ acts, beside, reopen, system }) => {
        const other = await beside();
        const seen = await acts
          .send(ann)
          .then(({ verification: { tenant, id } }) => other.readVerification(tenant, id));
        expect(seen?.state).toBe("PENDING");
        const { verification } = await acts.send(ann);
        const later = createActs(await reopen(), system);
        expect(await later.read(verification)).toEqual(verification);
      }),
    );

    test(
      "is seen with the clock of the store and everything that its writes left",
      withStore(async ({ store, acts, system }) => {
        const claim = idempotencyClaim(acts.keys, scope, ["a"]);
        const { verification } = await acts.send(ann, { claim });
        system.advance(1_000);
        const view = await store.updateVerification<UpdateView>(
          { tenant: "default", id: verification.id, slot: claim.slot, phoneOf: acts.phoneOf },
          (found) => ({ writes: {}, result: found }),
        );
        expect(view.now).toBe(system.now());
        expect(view.verification).toEqual(verification);
        expect(view.record?.verificationId).toBe(verification.id);
        expect(view.phone).toEqual({
          tats: testPolicy.phoneLimits.map(({ intervalMs }) => verification.createMs + intervalMs),
          history: { wrongCodes: [], refunds: [] },
          openAttempts: 5,
        });
      }),
    );

    test(
      "that throws rejects with what it threw, and leaves its neighbours' writes alone",
      withStore(async ({ store, acts }) => {
        const bug = new Error("a bug");
        const outcomes = await Promise.allSettled([
          acts.send(ann),
          store.openVerification({ tenant: "default", slot: undefined, phone: undefined }, () => {
            throw bug;
          }),
          acts.send(ben),
        ]);
        expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
        expect(outcomes[1]).toMatchObject({ reason: bug });
        expect((await acts.phone(ann)).openAttempts + (await acts.phone(ben)).openAttempts).toBe(10);
      }),
    );

    test(
      "whose writes fail half way through is not written at all, and its neighbours are",
      withStore(async ({ store, acts }) => {
        const { verification, message } = await acts.send(ben);
        const half = { ...verification, id: Buffer.alloc(16, 9).toString("base64url") };
        const outcomes = await Promise.allSettled([
          acts.send(ann),
          store.openVerification({ tenant: "default", slot: undefined, phone: acts.refOf(ann) }, () => ({
            // No database takes a limit's moment that is no number.
            writes: {
              verification: half,
              message: { ...message, verificationId: half.id },
              tats: [Number.NaN, Number.NaN],
            },
            result: "written",
          })),
          acts.send(ann),
        ]);
        expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
        expect(await store.readVerification("default", half.id)).toBeUndefined();
        expect((await acts.phone(ann)).openAttempts).toBe(10);
      }),
    );

    test(
      "that fails while its writes are being made ready is not written at all, and its neighbours are",
      withStore(async ({ store, acts }) => {
        const { verification } = await acts.send(ben);
        const bug = new Error("a bug in the middle");
        const tats = {
          get tats(): never {
            throw bug;
          },
        };
        const about = { tenant: "default", id: verification.id, slot: undefined, phoneOf: acts.phoneOf };
        const fail = () =>
          store.updateVerification(about, () => ({
            writes: Object.assign(Object.create(tats) as typeof tats, {
              verification: { ...verification, attempts: 3 },
            }),
            result: "written",
          }));
        const outcomes = await Promise.allSettled([acts.send(ann), fail(), acts.send(ann)]);
        expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
        expect(outcomes[1]).toMatchObject({ reason: bug });
        expect((await acts.phone(ann)).openAttempts).toBe(10);
        // Alone in its batch it is no different.
        await expect(fail()).rejects.toBe(bug);
        expect(await acts.read(verification)).toEqual(verification);
      }),
    );

    test(
      "that is a refusal commits what it counted",
      withStore(async ({ acts, reopen, system }) => {
        const { verification } = await acts.send(ann);
        expect(await acts.guess(verification, acts.wrongCode(verification))).toBe("CODE_MISMATCH");
        const later = createActs(await reopen(), system);
        expect((await later.read(verification)).attempts).toBe(1);
        expect((await later.phone(ann)).history.wrongCodes).toMatchObject([[expect.any(Number), 1]]);
      }),
    );

    test(
      "without writes changes nothing",
      withStore(async ({ store, acts, system }) => {
        const { verification } = await acts.send(ann);
        const before = await acts.phone(ann);
        system.advance(5_000);
        const noWrites = { tenant: "default", id: verification.id, slot: undefined, phoneOf: acts.phoneOf };
        expect(await store.updateVerification(noWrites, () => ({ writes: {}, result: 7 }))).toBe(7);
        expect(await acts.read(verification)).toEqual(verification);
        expect(await acts.phone(ann)).toEqual(before);
      }),
    );
  });

  describe("decisions that come together", () => {
    test(
      "see each other's guesses: of a hundred five are evaluated, whatever came first",
      withStore(async ({ acts, beside, system }) => {
        const { verification } = await acts.send(ann);
        const others = createActs(await beside(), system);
        const wrong = acts.wrongCode(verification);
        const answers = await Promise.all(
          Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? acts : others).guess(verification, wrong)),
        );
        expect(answers.filter((answer) => answer === "CODE_MISMATCH")).toHaveLength(5);
        expect(answers.filter((answer) => answer === "OTP_LOCKED")).toHaveLength(95);
        expect(await acts.read(verification)).toMatchObject({ state: "LOCKED", attempts: 5, salt: null });
      }),
    );

    test(
      "let the right code in once",
      withStore(async ({ acts, beside, system }) => {
        const { verification } = await acts.send(ann);
        const others = createActs(await beside(), system);
        const right = acts.rightCode(verification);
        const answers = await Promise.all(
          Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? acts : others).guess(verification, right)),
        );
        expect(answers.filter((answer) => answer === "verified")).toHaveLength(1);
        expect(answers.filter((answer) => answer === "OTP_ALREADY_VERIFIED")).toHaveLength(19);
      }),
    );

    test(
      "see what the others spent of a phone's limits, and the attempts that they opened",
      withStore(async ({ store, system, beside }) => {
        const policy = { ...testPolicy, phoneLimits: [{ burst: 5, intervalMs: 600_000 }] };
        const acts = createActs(store, system, undefined, policy);
        const others = createActs(await beside(), system, undefined, policy);
        const answers = await Promise.all(
          Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? acts : others).trySend(ann)),
        );
        expect(answers.filter((answer) => answer === "opened")).toHaveLength(5);
        expect(answers.filter((answer) => answer === "PHONE_RATE_LIMITED")).toHaveLength(35);
        expect((await acts.phone(ann)).openAttempts).toBe(25);
      }),
    );
  });

  describe("a phone", () => {
    test(
      "has buckets of its own, and others again for its known users",
      withStore(async ({ acts, system }) => {
        const now = system.now();
        await acts.send(ann);
        await acts.send(ann);
        await acts.send(ann, { knownUser: true });
        expect((await acts.phone(ann)).tats).toEqual([now + 2_000, now + 120_000]);
        expect((await acts.phone(ann, { knownUser: true })).tats).toEqual([now + 1_000, now + 60_000]);
        expect((await acts.phone(ben)).tats).toEqual([0, 0]);
      }),
    );

    test(
      "counts as open what is left of its live verifications only",
      withStore(async ({ acts, system }) => {
        const { verification: first } = await acts.send(ann);
        await acts.guess(first, acts.wrongCode(first));
        const { verification: second } = await acts.send(ann, { knownUser: true });
        expect((await acts.phone(ann)).openAttempts).toBe(9);
        await acts.cancel(second);
        expect((await acts.phone(ann)).openAttempts).toBe(4);
        system.advance(600_000 - 1);
        expect((await acts.phone(ann)).openAttempts).toBe(4);
        system.advance(1);
        expect((await acts.phone(ann)).openAttempts).toBe(0);
      }),
    );

    test(
      "keeps its past across a reopening",
      withStore(async ({ acts, system, reopen }) => {
        const { verification } = await acts.send(ann);
        await acts.guess(verification, acts.wrongCode(verification));
        const { verification: other } = await acts.send(ann);
        await acts.guess(other, acts.rightCode(other));
        const before = await acts.phone(ann);
        expect(before.history).toEqual({ wrongCodes: [[expect.any(Number), 1]], refunds: [system.now()] });
        expect(await createActs(await reopen(), system).phone(ann)).toEqual(before);
      }),
    );
  });

  describe("a phone, looked at for the operator,", () => {
    test(
      "is told with its limits, its past and its verifications, the newest first",
      withStore(async ({ store, acts, system }) => {
        const sent: string[] = [];
        for (const phone of [ann, ben, ann, ann]) {
          const { verification } = await acts.send(phone);
          if (phone === ann) sent.unshift(verification.id);
          system.advance(1_000);
        }
        expect(await store.readPhone(acts.refOf(ann))).toEqual(await acts.phone(ann));
        const { indexes } = acts.refOf(ann);
        const list = async (max: number) => (await store.listVerifications(indexes, max)).map(({ id }) => id);
        expect(await list(10)).toEqual(sent);
        expect(await list(2)).toEqual(sent.slice(0, 2));
        expect(await store.listVerifications(acts.refOf(ann, { tenant: "other" }).indexes, 10)).toEqual([]);
      }),
    );

    test(
      "is told under every master key, the newest first",
      withStore(async ({ store, acts, system }) => {
        const { verification: first } = await acts.send(ann);
        system.advance(1_000);
        const both = createActs(store, system, ringOf(2, 1));
        const { verification: second } = await both.send(ann);
        const listed = await store.listVerifications(both.refOf(ann).indexes, 10);
        expect(listed.map(({ id }) => id)).toEqual([second.id, first.id]);
        expect(await store.readPhone(both.refOf(ann))).toEqual(await both.phone(ann));
      }),
    );

    test(
      "starts afresh after a reset, in both lanes and under every key, and what is pending stays so",
      withStore(async ({ store, acts, system }) => {
        const { verification } = await acts.send(ann);
        await acts.send(ann, { knownUser: true });
        await acts.guess(verification, acts.wrongCode(verification));
        await acts.send(ben);
        const both = createActs(store, system, ringOf(2, 1));
        await store.resetPhone(both.refOf(ann));
        for (const knownUser of [false, true]) {
          expect(await both.phone(ann, { knownUser })).toEqual({
            tats: [0, 0],
            history: { wrongCodes: [], refunds: [] },
            openAttempts: 9,
          });
        }
        expect((await acts.phone(ben)).tats).not.toEqual([0, 0]);
        expect(await acts.guess(verification, acts.rightCode(verification))).toBe("verified");
      }),
    );
  });

  describe("a tenant", () => {
    test(
      "neither sees nor changes another's verification",
      withStore(async ({ store, acts }) => {
        const { verification } = await acts.send(ann);
        const { id } = verification;
        expect(await store.readVerification("other", id)).toBeUndefined();
        const foreign = { tenant: "other", id, slot: undefined, phoneOf: acts.phoneOf };
        const view = await store.updateVerification<UpdateView>(foreign, (found) => ({ writes: {}, result: found }));
        expect(view).toMatchObject({ verification: undefined, phone: undefined });
        expect(await acts.guess({ ...verification, tenant: "other" }, acts.rightCode(verification))).toBe(
          "REQUEST_NOT_FOUND",
        );
        expect(await acts.read(verification)).toEqual(verification);
      }),
    );

    test(
      "has limits of its own for the same phone",
      withStore(async ({ acts }) => {
        await acts.send(ann);
        expect((await acts.phone(ann, { tenant: "other" })).tats).toEqual([0, 0]);
        expect((await acts.phone(ann, { tenant: "other" })).openAttempts).toBe(0);
      }),
    );
  });

  test(
    "an id has one spelling: another one of the same bytes does not exist",
    withStore(async ({ store, acts }) => {
      const { id } = (await acts.send(ann)).verification;
      // The last of 22 characters holds two bits of the id and four that say nothing: A, Q, g or w, and B, R, h, x too.
      const respelt = id.slice(0, -1) + String.fromCharCode(id.charCodeAt(21) + 1);
      expect(Buffer.from(respelt, "base64url")).toEqual(Buffer.from(id, "base64url"));
      expect(await store.readVerification("default", respelt)).toBeUndefined();
    }),
  );

  test.each([
    ["empty", ""],
    ["too short", "AAAAAAAAAAAAAAAAAAAAA"],
    ["too long", "AAAAAAAAAAAAAAAAAAAAAAA"],
    ["not base64url", "AAAAAAAAAAAAAAAAAAAA+/"],
    ["SQL", "' OR 1=1 --' OR 1=1 --"],
    ["unknown", "AAAAAAAAAAAAAAAAAAAAAA"],
  ])("an id that is %s is an id that does not exist", (_, id) =>
    withStore(async ({ store, acts }) => {
      await acts.send(ann);
      expect(await store.readVerification("default", id)).toBeUndefined();
      const nowhere = { tenant: "default", id, slot: undefined, phoneOf: acts.phoneOf };
      const view = await store.updateVerification<UpdateView>(nowhere, (found) => ({ writes: {}, result: found }));
      expect(view.verification).toBeUndefined();
    })(),
  );
}
