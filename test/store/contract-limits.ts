/**
 * The store's contract: named limits, which are spent in the send's own transaction and kept beside the phone's.
 */
import { describe, expect, test } from "vitest";
import type { KeyRing } from "../../src/otp/key-ring.ts";
import { limitKeysOf, type LimitKey } from "../../src/otp/named-limit.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { ann, createActs, ringOf, testPolicy, type Acts } from "./acts.ts";
import type { WithStore } from "./contract.ts";

const hourMs = 3_600_000;
const limits = new Map([
  ["user", [{ burst: 5, intervalMs: hourMs }]],
  ["ip", [{ burst: 2, intervalMs: hourMs }]],
]);

function named(given: Record<string, string>, keys: KeyRing = ringOf(1), id = "default"): readonly LimitKey[] {
  const found = limitKeysOf(keys, { id, limits }, given);
  if (!found.ok) throw new Error("these are names of limits");
  return found.value;
}

let phones = 0;
const nextPhone = () => `+316${20_000_000 + (((phones += 1) * 100_003) % 79_999_999)}` as E164;
const sendFor = (acts: Acts, given: Record<string, string>, keys?: KeyRing) =>
  acts.trySend(nextPhone(), { limitKeys: named(given, keys) });

export function limitCases(withStore: WithStore): void {
  describe("a named limit", () => {
    test(
      "lets through what it has and no more, however many ask in however many processes at once",
      withStore(async ({ acts, beside, system }) => {
        const others = createActs(await beside(), system);
        const answers = await Promise.all(
          Array.from({ length: 60 }, (_, i) => sendFor(i % 2 === 0 ? acts : others, { user: "4711" })),
        );
        expect(answers.filter((each) => each === "opened")).toHaveLength(5);
        expect(answers.filter((each) => each === "LIMIT_REACHED")).toHaveLength(55);
        expect(await sendFor(acts, { user: "4712" })).toBe("opened");
        expect(await sendFor(acts, {})).toBe("opened");
        system.advance(hourMs);
        expect([await sendFor(acts, { user: "4711" }), await sendFor(others, { user: "4711" })]).toEqual([
          "opened",
          "LIMIT_REACHED",
        ]);
      }),
    );

    test(
      "spends nothing when another refuses, be that a limit, the phone's or the daily cap",
      withStore(async ({ store, system }) => {
        const policy = { ...testPolicy, phoneLimits: [{ burst: 1, intervalMs: hourMs }], dailyMessagesMax: 6 };
        const acts = createActs(store, system, ringOf(1), policy);
        for (let i = 0; i < 2; i++) expect(await sendFor(acts, { ip: "a" })).toBe("opened");
        for (let i = 0; i < 9; i++) expect(await sendFor(acts, { ip: "a", user: "x" })).toBe("LIMIT_REACHED");
        expect(await acts.trySend(ann, { limitKeys: named({ user: "x" }) })).toBe("opened");
        for (let i = 0; i < 9; i++) {
          expect(await acts.trySend(ann, { limitKeys: named({ user: "x" }) })).toBe("PHONE_RATE_LIMITED");
        }
        for (let i = 0; i < 3; i++) expect(await sendFor(acts, { user: "x" })).toBe("opened");
        for (let i = 0; i < 9; i++) expect(await sendFor(acts, { user: "x" })).toBe("SPEND_LIMIT");
        const uncapped = createActs(store, system, ringOf(1), testPolicy);
        expect([await sendFor(uncapped, { user: "x" }), await sendFor(uncapped, { user: "x" })]).toEqual([
          "opened",
          "LIMIT_REACHED",
        ]);
      }),
    );

    test(
      "leaves the phone's limits and the cap alone when it refuses",
      withStore(async ({ store, system }) => {
        const acts = createActs(store, system, ringOf(1), { ...testPolicy, dailyMessagesMax: 3 });
        for (let i = 0; i < 2; i++) await sendFor(acts, { ip: "a" });
        const before = await acts.phone(ann);
        for (let i = 0; i < 9; i++) {
          expect(await acts.trySend(ann, { limitKeys: named({ ip: "a" }) })).toBe("LIMIT_REACHED");
        }
        expect(await acts.phone(ann)).toEqual(before);
        expect([await sendFor(acts, {}), await sendFor(acts, {})]).toEqual(["opened", "SPEND_LIMIT"]);
      }),
    );

    test(
      "holds across a restart and through a rotation of the master key",
      withStore(async ({ acts, system, reopen }) => {
        for (let i = 0; i < 3; i++) expect(await sendFor(acts, { user: "4711" })).toBe("opened");
        const rotated = ringOf(2, 1);
        const later = createActs(await reopen(), system, rotated);
        const answers: string[] = [];
        for (let i = 0; i < 3; i++) answers.push(await sendFor(later, { user: "4711" }, rotated));
        expect(answers).toEqual(["opened", "opened", "LIMIT_REACHED"]);
        const alone = createActs(await reopen(), system, ringOf(2));
        expect(await sendFor(alone, { user: "4711" }, ringOf(2))).toBe("LIMIT_REACHED");
      }),
    );

    test(
      "does not come back with a verified request, nor does a resend spend it",
      withStore(async ({ acts, system }) => {
        for (let i = 0; i < 2; i++) {
          const { verification } = await acts.send(nextPhone(), { limitKeys: named({ ip: "a" }) });
          system.advance(30_000);
          expect(await acts.tryResend(verification)).toBe("resent");
          expect(await acts.guess(verification, acts.rightCode(verification))).toBe("verified");
        }
        expect(await sendFor(acts, { ip: "a" })).toBe("LIMIT_REACHED");
      }),
    );

    test(
      "is forgotten by the sweep once it is full again, and not before",
      withStore(async ({ store, acts, system }) => {
        for (let i = 0; i < 2; i++) await sendFor(acts, { ip: "a" });
        system.advance(hourMs);
        await store.sweep(1_000, 72 * hourMs, acts.phoneOf);
        expect([await sendFor(acts, { ip: "a" }), await sendFor(acts, { ip: "a" })]).toEqual([
          "opened",
          "LIMIT_REACHED",
        ]);
        system.advance(3 * hourMs);
        const deleted: number[] = [];
        for (let i = 0; i < 3; i++) deleted.push((await store.sweep(1_000, 72 * hourMs, acts.phoneOf)).deleted);
        expect([deleted[0], deleted.at(-1)]).toEqual([expect.any(Number), 0]);
        expect(deleted[0]).toBeGreaterThan(0);
      }),
    );
  });
}
