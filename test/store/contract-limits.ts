/**
 * The store's contract: named limits, which are spent in the send's own transaction and kept beside the phone's.
 */
import { describe, expect, test } from "vitest";
import { channels } from "../../src/otp/channel.ts";
import { decideFallback } from "../../src/otp/decisions/falling-back.ts";
import type { KeyRing } from "../../src/otp/keys/key-ring.ts";
import { limitKeysOf, type LimitKey } from "../../src/otp/limits/named-limit.ts";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { decideSettle } from "../../src/otp/decisions/settlement.ts";
import type { Verification } from "../../src/otp/verification/verification.ts";
import type { Job, Store } from "../../src/store/store.ts";
import type { System } from "../../src/system.ts";
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

/** Acts of a tenant that has these limits. */
const limitedActs = (store: Store, system: System, keys = ringOf(1)) =>
  createActs(store, system, keys, testPolicy, false, undefined, limits);

const accepted: SendOutcome = { kind: "accepted" };
const refused: SendOutcome = { kind: "refused", cause: "content", detail: "no" };
const ambiguous: SendOutcome = { kind: "ambiguous", detail: "no answer" };

/** Notes what the only provider of its channel says of a message. */
function settleAs(store: Store, { phoneOf, policy }: Acts, { message }: Job, outcome: SendOutcome) {
  const call = { outcome, provider: "only", providers: 1, claimed: message };
  return store.settleMessage(message, phoneOf, (view) => decideSettle(view, call, policy));
}

/** The message of the next channel, which is due. */
async function fallenBack(store: Store, { phoneOf, policy }: Acts): Promise<Job> {
  const [job] = await store.claimFallbacks(1, {
    phoneOf,
    numberOf: () => undefined,
    capsOf: () => [],
    decide: (view) => decideFallback(view, { policy, channelsOn: channels }),
  });
  if (job === undefined) throw new Error("no fallback was due");
  return job;
}

const viaVoice = { channels: ["voice"], afterMs: 20_000 } as const;

/** What becomes of sends, as far as their named limits know the difference. */
const ends: readonly [what: string, isBack: boolean, run: (store: Store, acts: Acts, job: Job) => Promise<unknown>][] =
  [
    ["every provider refused it", true, (store, acts, job) => settleAs(store, acts, job, refused)],
    ["it was taken", false, (store, acts, job) => settleAs(store, acts, job, accepted)],
    ["it may have been sent", false, (store, acts, job) => settleAs(store, acts, job, ambiguous)],
    [
      "its message was refused after it was canceled",
      true,
      async (store, acts, job) => {
        await acts.cancel(job.verification);
        await settleAs(store, acts, job, refused);
      },
    ],
    [
      "it was resent and only the resend was refused",
      false,
      async (store, acts, job) => {
        await settleAs(store, acts, job, accepted);
        await settleAs(store, acts, await acts.resend(job.verification), refused);
      },
    ],
  ];

export function limitCases(withStore: WithStore): void {
  describe("whether a named limit comes back", () => {
    test.each(ends)("when %s: %s", (_, isBack, run) =>
      withStore(async ({ store, system, beside }) => {
        const acts = limitedActs(store, system);
        const job = await acts.send(nextPhone(), { limitKeys: named({ ip: "a" }) });
        system.advance(30_000);
        await run(await beside(), acts, job);
        expect((await acts.read(job.verification)).spentLimits).toEqual([]);
        const answers: string[] = [];
        for (let i = 0; i < 3; i++) answers.push(await sendFor(acts, { ip: "a" }));
        expect(answers).toEqual(["opened", isBack ? "opened" : "LIMIT_REACHED", "LIMIT_REACHED"]);
      })(),
    );

    test.each([
      ["refused, too", refused, "FAILED", true],
      ["taken", accepted, "PENDING", false],
    ] as const)("is decided once for all channels: the fallback was %s", (_, outcome, state, isBack) =>
      withStore(async ({ store, system }) => {
        const acts = limitedActs(store, system);
        const first = await acts.send(nextPhone(), { limitKeys: named({ ip: "a" }), fallback: viaVoice });
        await settleAs(store, acts, first, refused);
        // It goes on, so nothing has come back yet; and a fallback spends none.
        expect(await sendFor(acts, { ip: "a" })).toBe("opened");
        expect(await sendFor(acts, { ip: "a" })).toBe("LIMIT_REACHED");
        await settleAs(store, acts, await fallenBack(store, acts), outcome);
        expect(await acts.read(first.verification)).toMatchObject({ state, spentLimits: [] });
        const answers = [await sendFor(acts, { ip: "a" }), await sendFor(acts, { ip: "a" })];
        expect(answers).toEqual([isBack ? "opened" : "LIMIT_REACHED", "LIMIT_REACHED"]);
      })(),
    );

    test(
      "when the next channel is not on any more, and nothing of the send has left: it does",
      withStore(async ({ store, system }) => {
        const acts = limitedActs(store, system);
        const first = await acts.send(nextPhone(), { limitKeys: named({ ip: "a" }), fallback: viaVoice });
        await settleAs(store, acts, first, refused);
        const { phoneOf, policy } = acts;
        const rules = { phoneOf, numberOf: () => undefined, capsOf: () => [] };
        await store.claimFallbacks(1, {
          ...rules,
          decide: (view) => decideFallback(view, { policy, channelsOn: ["sms"] }),
        });
        expect((await acts.read(first.verification)).state).toBe("FAILED");
        const answers: string[] = [];
        for (let i = 0; i < 3; i++) answers.push(await sendFor(acts, { ip: "a" }));
        expect(answers).toEqual(["opened", "opened", "LIMIT_REACHED"]);
      }),
    );

    test(
      "is so for every limit that the send named, and after a restart",
      withStore(async ({ store, system, reopen }) => {
        const acts = limitedActs(store, system);
        const given = { ip: "a", user: "x" };
        const [, second] = [await acts.send(ann), await acts.send(ann, { limitKeys: named(given) })];
        const stored = await acts.read(second.verification);
        expect(stored.spentLimits.map(({ name }) => name)).toEqual(["ip", "user"]);
        const later = limitedActs(await reopen(), system);
        const again = await reopen();
        await settleAs(again, later, second, refused);
        const reader = limitedActs(again, system);
        const answers: string[] = [];
        for (let i = 0; i < 3; i++) answers.push(await sendFor(reader, given));
        for (let i = 0; i < 4; i++) answers.push(await sendFor(reader, { user: "x" }));
        expect(answers).toEqual(["opened", "opened", "LIMIT_REACHED", "opened", "opened", "opened", "LIMIT_REACHED"]);
      }),
    );

    test(
      "when the tenant has taken it out, or the master key was rotated meanwhile: it does not",
      withStore(async ({ store, system }) => {
        const acts = limitedActs(store, system);
        const sent: Verification[] = [];
        const sendOne = async () => {
          const job = await acts.send(nextPhone(), { limitKeys: named({ ip: "a" }) });
          sent.push(job.verification);
          return job;
        };
        await settleAs(store, createActs(store, system), await sendOne(), refused);
        await settleAs(store, limitedActs(store, system, ringOf(2, 1)), await sendOne(), refused);
        for (const verification of sent) expect((await acts.read(verification)).state).toBe("FAILED");
        expect(await sendFor(acts, { ip: "a" })).toBe("LIMIT_REACHED");
        const rotated = ringOf(2, 1);
        const answer = await sendFor(limitedActs(store, system, rotated), { ip: "a" }, rotated);
        expect(answer).toBe("LIMIT_REACHED");
      }),
    );
  });

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
