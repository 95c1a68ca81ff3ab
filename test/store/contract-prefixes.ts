/**
 * The store's contract, fourth part: prefixes. The outcome of a verification is counted at its prefix in the transaction
 * of its end, exactly once, whatever act brought the end.
 */
import { isDeepStrictEqual } from "node:util";
import { describe, expect, test } from "vitest";
import { commandLine } from "../../src/otp/operators/audit.ts";
import {
  decisionsMax,
  newPrefix,
  prefixMemoryMs,
  prefixOf,
  type PrefixDecision,
} from "../../src/otp/limits/pumping-guard.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { decideSettle } from "../../src/otp/decisions/settlement.ts";
import type { Store } from "../../src/store/store.ts";
import { ann, createActs, ringOf, testPolicy, type Acts } from "./acts.ts";
import type { WithStore } from "./contract.ts";

const retentionMs = testPolicy.retentionMs;
const prefix = { tenant: "default", prefix: prefixOf(ann) };
const counts = async (store: Store) => {
  const { sent, ended, verified } = (await store.readPrefix(prefix))?.record ?? newPrefix;
  return { sent, ended, verified };
};
const passed: PrefixDecision = {
  kind: "passed",
  atMs: 5_000,
  ended: 30,
  verified: 12,
  refused: 4,
  untilMs: null,
  enforced: false,
};

type Ending = (acts: Acts, store: Store, advance: (ms: number) => void) => Promise<unknown>;

const endings: [string, number, number, Ending][] = [
  ["verified", 1, 1, async (acts) => acts.guess(...(await right(acts)))],
  ["canceled", 1, 0, async (acts) => acts.cancel((await acts.send(ann)).verification)],
  [
    "locked",
    1,
    0,
    async (acts) => {
      const { verification } = await acts.send(ann);
      for (let i = 0; i < 7; i++) await acts.guess(verification, acts.wrongCode(verification));
    },
  ],
  [
    "expired, noted by a late guess",
    1,
    0,
    async (acts, _, advance) => {
      const [verification, code] = await right(acts);
      advance(600_000);
      await acts.guess(verification, code);
    },
  ],
  [
    "expired, noted by a sweep",
    1,
    0,
    async (acts, store, advance) => {
      await acts.send(ann);
      advance(600_000);
      await store.sweep(10, retentionMs, acts.phoneOf);
    },
  ],
];

async function right(acts: Acts) {
  const { verification } = await acts.send(ann);
  return [verification, acts.rightCode(verification)] as const;
}

export function prefixCases(withStore: WithStore): void {
  describe("a prefix", () => {
    test(
      "is unknown until it is sent to, and another tenant's or another prefix after that",
      withStore(async ({ store, acts, reopen }) => {
        expect(await store.readPrefix(prefix)).toBeUndefined();
        await acts.send(ann);
        await acts.send("+31612349999" as E164);
        expect(await counts(store)).toEqual({ sent: 2, ended: 0, verified: 0 });
        expect(await store.readPrefix({ ...prefix, tenant: "other" })).toBeUndefined();
        expect(await store.readPrefix({ ...prefix, prefix: "+3161235" })).toBeUndefined();
        expect(await counts(await reopen())).toEqual({ sent: 2, ended: 0, verified: 0 });
      }),
    );

    test.each(endings)("counts a send that was %s once, whatever comes after", (_, ended, verified, bring) =>
      withStore(async ({ store, acts, system }) => {
        await bring(acts, store, (ms) => system.advance(ms));
        expect(await counts(store)).toEqual({ sent: 1, ended, verified });
        const [only] = await store.listVerifications(acts.refOf(ann).indexes, 1);
        if (only === undefined) throw new Error("it is not there");
        await acts.cancel(only);
        await acts.guess(only, "000000");
        system.advance(600_000);
        await store.sweep(10, retentionMs, acts.phoneOf);
        await store.sweep(10, retentionMs, acts.phoneOf);
        expect(await counts(store)).toEqual({ sent: 1, ended, verified });
      })(),
    );

    test(
      "does not count an end once more when the message is settled after it",
      withStore(async ({ store, acts }) => {
        const { message, verification } = await acts.send(ann);
        await acts.send(ann);
        await acts.guess(verification, acts.rightCode(verification));
        await store.settleMessage({ verificationId: message.verificationId, copy: 0 }, acts.phoneOf, (view) =>
          decideSettle(
            view,
            { outcome: { kind: "accepted" }, provider: "test", providers: 1, claimed: message },
            testPolicy,
          ),
        );
        expect(await counts(store)).toEqual({ sent: 2, ended: 1, verified: 1 });
      }),
    );

    test(
      "is not shown to a resend of what is not counted at it, such as a known user's",
      withStore(async ({ store, acts }) => {
        await acts.send(ann);
        // As one of a known user is: its phone has a prefix, its verification no tally.
        const { verification } = await acts.send(ann, { knownUser: true });
        const phoneOf = () => acts.refOf(ann);
        const scope = { tenant: "default", id: verification.id, slot: undefined, phoneOf, withPrefix: true };
        const seen = await store.updateVerification(scope, (view) => ({ writes: {}, result: view.prefix }));
        expect([verification.tally, seen]).toEqual(["none", undefined]);
      }),
    );

    test(
      "takes a send back that never left",
      withStore(async ({ store, acts }) => {
        const { message } = await acts.send(ann);
        const outcome = { kind: "refused", cause: "recipient", detail: "no such number" } as const;
        await store.settleMessage({ verificationId: message.verificationId, copy: 0 }, acts.phoneOf, (view) =>
          decideSettle(view, { outcome, provider: "test", providers: 1, claimed: message }, testPolicy),
        );
        expect(await counts(store)).toEqual({ sent: 0, ended: 0, verified: 0 });
      }),
    );

    test(
      "counts one outcome when guesses, cancels and sweeps race for the end",
      withStore(async ({ store, acts, beside, system }) => {
        const other = await beside();
        const others = createActs(other, system);
        for (let i = 0; i < 4; i++) {
          const [verification, code] = await right(acts);
          system.advance(i % 2 === 0 ? 599_000 : 600_000);
          await Promise.all([
            acts.guess(verification, code),
            store.sweep(10, retentionMs, acts.phoneOf),
            others.guess(verification, code),
            other.sweep(10, retentionMs, others.phoneOf),
            acts.cancel(verification),
          ]);
        }
        expect((await counts(store)).ended).toBe(4);
      }),
    );

    test(
      "does not count an end that was not written",
      withStore(async ({ store, acts }) => {
        const [verification] = await right(acts);
        const ended = { ...verification, state: "VERIFIED", salt: null, endMs: 1 } as const;
        const failing = store.updateVerification(
          { tenant: "default", id: verification.id, slot: undefined, phoneOf: acts.phoneOf },
          // No database takes a limit's moment that is no number.
          () => ({ writes: { verification: ended, tats: [Number.NaN] }, result: 1 }),
        );
        await expect(failing).rejects.toBeInstanceOf(Error);
        expect(await counts(store)).toEqual({ sent: 1, ended: 0, verified: 0 });
        expect((await acts.read(verification)).state).toBe("PENDING");
      }),
    );

    test(
      "is the same under every master key",
      withStore(async ({ store, acts, system }) => {
        await acts.guess(...(await right(acts)));
        const rotated = createActs(store, system, ringOf(2, 1));
        const [verification, code] = await right(rotated);
        await rotated.guess(verification, code);
        expect(await counts(store)).toEqual({ sent: 2, ended: 2, verified: 2 });
      }),
    );

    test(
      "is not touched by sends that it does not judge, nor by their ends",
      withStore(async ({ store, acts, system }) => {
        const { verification } = await acts.send(ann, { knownUser: true });
        expect(verification.tally).toBe("none");
        await acts.guess(verification, acts.rightCode(verification));
        await acts.send(ann, { knownUser: true });
        system.advance(600_000);
        await store.sweep(10, retentionMs, acts.phoneOf);
        expect(await store.readPrefix(prefix)).toBeUndefined();
      }),
    );

    test(
      "has its sends through one after the other, also from two processes",
      withStore(async ({ store, system, beside }) => {
        const policy = { ...testPolicy, fraudGuard: "enforce" as const };
        const acts = createActs(store, system, undefined, policy);
        const others = createActs(await beside(), system, undefined, policy);
        const answers = await Promise.all(
          Array.from({ length: 40 }, (_, i) =>
            (i % 2 === 0 ? acts : others).trySend(`+3161234${String(5_000 + i)}` as E164),
          ),
        );
        expect(answers.filter((what) => what === "opened")).toHaveLength(10);
        expect(answers.filter((what) => what === "PHONE_RATE_LIMITED")).toHaveLength(30);
        expect((await store.readPrefix(prefix))?.record).toMatchObject({ sent: 10, refused: 30 });
      }),
    );

    test(
      "is changed by an operator, with the decision, at once for every process",
      withStore(async ({ store, beside, system }) => {
        const other = await beside();
        const record = { ...newPrefix, phase: "tripped", untilMs: 9_000, trips: 3, lastMs: system.now() } as const;
        expect(await store.changePrefix(prefix, () => ({ record, decisions: [passed] }))).toBe(true);
        expect(await other.readPrefix(prefix)).toEqual({ record, decisions: [passed] });
        expect(
          await other.changePrefix(prefix, (found) =>
            isDeepStrictEqual(found, record) ? undefined : { record: found, decisions: [] },
          ),
        ).toBe(false);
      }),
    );

    test(
      "is in the audit as it was and is, if a change with an author changes it and is not taken back",
      withStore(async ({ store }) => {
        const note = { by: commandLine, action: "guard.lift" } as const;
        const record = { ...newPrefix, phase: "tripped", untilMs: 9_000, trips: 3 } as const;
        const failing = store.changePrefix(
          prefix,
          () => ({ record, decisions: [{ ...passed, atMs: Number.NaN }] }),
          note,
        );
        await expect(failing).rejects.toThrow(/at_ms|bigint/);
        await store.changePrefix(prefix, () => undefined, note);
        await store.changePrefix(prefix, () => ({ record, decisions: [passed] }));
        await store.changePrefix(prefix, () => ({ record: newPrefix, decisions: [] }), note);
        const any = { tenant: "", actor: "", action: "", subject: "", actorTenant: "", fromMs: 0, toMs: 9e15 };
        const found = await store.registry.findAudit({ ...any, max: 10 });
        expect(found.map(({ entry }) => entry)).toEqual([
          {
            ...commandLine,
            atMs: expect.any(Number) as number,
            action: "guard.lift",
            tenant: prefix.tenant,
            subject: prefix.prefix,
            before: '{"phase":"tripped","trips_in_a_row":3,"until_time":"1970-01-01T00:00:09.000Z","refused":0}',
            after: '{"phase":"open","trips_in_a_row":0,"until_time":null,"refused":0}',
          },
        ]);
      }),
    );

    test(
      "keeps its latest decisions, so many and no more, for 30 days",
      withStore(async ({ store, system }) => {
        const lastMs = system.now();
        for (let i = 1; i <= decisionsMax + 5; i++) {
          const decision = { ...passed, atMs: system.now(), verified: i % 30 };
          await store.changePrefix(prefix, (record) => ({ record: { ...record, lastMs }, decisions: [decision] }));
          system.advance(1);
        }
        const { decisions } = (await store.readPrefix(prefix)) ?? { decisions: [] };
        expect(decisions).toHaveLength(decisionsMax);
        expect(decisions.map(({ atMs }) => atMs)).toEqual(decisions.map((_, i) => system.now() - 1 - i));
        system.advance(prefixMemoryMs - 51);
        while ((await store.sweep(20, retentionMs)).more);
        expect((await store.readPrefix(prefix))?.decisions).toHaveLength(50);
        system.advance(51);
        while ((await store.sweep(20, retentionMs)).more);
        expect(await store.readPrefix(prefix)).toBeUndefined();
      }),
    );
  });
}
