/**
 * The store's contract, fourth part: the operator's lists of destinations, and the places of a day under the cap.
 */
import { describe, expect, test } from "vitest";
import type { Destination, Verdict } from "../../src/otp/verification/destination.ts";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import { decideSettle } from "../../src/otp/decisions/settlement.ts";
import type { Job, Store } from "../../src/store/store.ts";
import { ann, ben, createActs, ringOf, shareOf, testPolicy, type Acts } from "./acts.ts";
import type { WithStore } from "./contract.ts";

const dayMs = 86_400_000;
const leaseMs = 30_000;

function entryOf(prefix: string, verdict: Verdict = "block", changes: Partial<Destination> = {}): Destination {
  return { tenant: "default", prefix, verdict, note: "", createMs: 1_000, ...changes };
}

/** What the view of a decision says of a number. */
function verdictOf(store: Store, e164: string, tenant = "default"): Promise<Verdict | undefined> {
  const scope = { tenant, slot: undefined, phone: undefined, number: e164 };
  return store.openVerification(scope, ({ verdict }) => ({ writes: {}, result: verdict }));
}

export function destinationCases(withStore: WithStore): void {
  describe("the lists of destinations", () => {
    test(
      "say what their longest entry says",
      withStore(async ({ store }) => {
        expect(await verdictOf(store, ann)).toBeUndefined();
        for (const [prefix, verdict] of [
          ["+3", "block"],
          ["+3161", "allow"],
          ["+31612345", "block"],
          [ann, "allow"],
          ["+316123456789", "block"],
          ["+4", "allow"],
        ] as const) {
          expect(await store.registry.putDestination(entryOf(prefix, verdict))).toBe(true);
        }
        const numbers = [ann, "+31612345999", "+31619999999", "+32612345678", "+447400123456", "+14155552671", "+3"];
        const verdicts = await Promise.all(numbers.map((number) => verdictOf(store, number)));
        expect(verdicts).toEqual(["allow", "block", "allow", "block", "allow", undefined, "block"]);
        const found = await Promise.all(
          numbers.map(async (number) => (await store.registry.findDestination("default", number))?.prefix),
        );
        expect(found).toEqual([ann, "+31612345", "+3161", "+3", "+4", undefined, "+3"]);
        expect(await verdictOf(store, "+316123456789012")).toBe("block");
      }),
    );

    test(
      "hold one entry for a prefix: a later one takes its place, with all that it says",
      withStore(async ({ store }) => {
        const first = entryOf("+31", "block", { note: "first" });
        const second = entryOf("+31", "allow", { note: "tweede – 2", createMs: 2_000 });
        for (const entry of [first, entryOf("+1"), second]) await store.registry.putDestination(entry);
        expect(await store.registry.listDestinations("default")).toEqual([entryOf("+1"), second]);
        expect(await store.registry.findDestination("default", ann)).toEqual(second);
      }),
    );

    test(
      "lose an entry once, and no other",
      withStore(async ({ store }) => {
        for (const prefix of ["+31", "+316"]) await store.registry.putDestination(entryOf(prefix));
        expect(await store.registry.removeDestination("default", "+3161")).toBe(false);
        expect(await store.registry.removeDestination("another", "+316")).toBe(false);
        expect(await store.registry.removeDestination("default", "+316")).toBe(true);
        expect(await store.registry.removeDestination("default", "+316")).toBe(false);
        expect(await store.registry.listDestinations("default")).toEqual([entryOf("+31")]);
      }),
    );

    test(
      "are a tenant's own, and there are none for a tenant that there is not",
      withStore(async ({ store }) => {
        expect(await store.registry.putDestination(entryOf("+31", "block", { tenant: "nobody" }))).toBe(false);
        await store.registry.putDestination(entryOf("+31"));
        expect(await store.registry.listDestinations("nobody")).toEqual([]);
        expect([await verdictOf(store, ann), await verdictOf(store, ann, "nobody")]).toEqual(["block", undefined]);
      }),
    );

    test(
      "count at once when another process writes them, for sends and for resends",
      withStore(async ({ acts, beside, system }) => {
        const { registry } = await beside();
        const { verification } = await acts.send(ann);
        system.advance(30_000);
        await registry.putDestination(entryOf("+31612"));
        expect(await acts.trySend(ann)).toBe("DESTINATION_BLOCKED");
        expect(await acts.tryResend(verification)).toBe("DESTINATION_BLOCKED");
        expect(await acts.trySend(ben)).toBe("opened");
        await registry.removeDestination("default", "+31612");
        expect(await acts.tryResend(verification)).toBe("resent");
        expect(await acts.trySend(ann)).toBe("opened");
      }),
    );

    test(
      "have no say in a verify or a cancel",
      withStore(async ({ store, acts }) => {
        const [one, two] = [await acts.send(ann), await acts.send(ann)];
        await store.registry.putDestination(entryOf(ann));
        expect(await acts.guess(one.verification, acts.rightCode(one.verification))).toBe("verified");
        expect(await acts.cancel(two.verification)).toBe("canceled");
      }),
    );

    test(
      "outlive a restart",
      withStore(async ({ store, reopen }) => {
        await store.registry.putDestination(entryOf("+31"));
        expect(await verdictOf(await reopen(), ann)).toBe("block");
      }),
    );
  });

  describe("the daily cap", () => {
    const max = 10;
    const policy = { ...testPolicy, dailyMessagesMax: max };
    const refused: SendOutcome = { kind: "refused", cause: "recipient", detail: "no" };
    const unavailable: SendOutcome = { kind: "unavailable", detail: "down" };
    const ambiguous: SendOutcome = { kind: "ambiguous", detail: "?" };

    /** Acts under the cap; the clock stands at noon of a UTC day. */
    const capped =
      (run: (fixture: Parameters<Parameters<WithStore>[0]>[0]) => Promise<void>) =>
      (fixture: Parameters<Parameters<WithStore>[0]>[0]) => {
        const { store, system } = fixture;
        system.advance(dayMs / 2 + dayMs - (system.now() % dayMs));
        return run({ ...fixture, acts: createActs(store, system, ringOf(1), policy) });
      };

    /** Sends until it is refused; resolves with how many went out. */
    async function exhaust(acts: Acts): Promise<number> {
      for (let sent = 0; ; sent++) if ((await acts.trySend(ann)) !== "opened") return sent;
    }

    function settleAs(store: Store, acts: Acts, job: Job, outcome: SendOutcome) {
      return store.settleMessage(job.message, acts.phoneOf, (view) =>
        decideSettle(view, { outcome, provider: "one", providers: 1, claimed: job.message }, acts.policy),
      );
    }

    test(
      "is not exceeded by one, however many ask in however many processes at once",
      withStore(
        capped(async ({ acts, beside, system }) => {
          const others = createActs(await beside(), system, ringOf(1), policy);
          const answers = await Promise.all(
            Array.from({ length: 60 }, (_, i) => (i % 2 === 0 ? acts : others).trySend(i % 3 === 0 ? ann : ben)),
          );
          expect(answers.filter((each) => each === "opened")).toHaveLength(max);
          expect(answers.filter((each) => each === "SPEND_LIMIT")).toHaveLength(60 - max);
        }),
      ),
    );

    test(
      "counts resends with sends, each tenant by itself, and each UTC day anew, across a restart",
      withStore(
        capped(async ({ acts, system, reopen }) => {
          const { verification } = await acts.send(ann);
          system.advance(30_000);
          await acts.resend(verification);
          expect(await exhaust(acts)).toBe(max - 2);
          system.advance(60_000);
          expect(await acts.tryResend(verification)).toBe("SPEND_LIMIT");
          expect(await acts.trySend(ann, { tenant: "other" })).toBe("opened");
          const later = createActs(await reopen(), system, ringOf(1), policy);
          system.advance(dayMs - (system.now() % dayMs) - 1);
          expect(await later.trySend(ann)).toBe("SPEND_LIMIT");
          system.advance(1);
          expect(await exhaust(later)).toBe(max);
        }),
      ),
    );

    test(
      "warns once of each share, also across a restart and when places came back",
      withStore(
        capped(async ({ store, acts, system, reopen }) => {
          const jobs: Job[] = [];
          for (let i = 0; i < 8; i++) jobs.push(await acts.send(ann));
          expect(jobs.map(shareOf)).toEqual([...Array<undefined>(7).fill(undefined), 80]);
          for (const job of jobs.slice(0, 2)) await settleAs(store, acts, job, refused);
          const later = createActs(await reopen(), system, ringOf(1), policy);
          const shares: unknown[] = [];
          for (let i = 0; i < 4; i++) shares.push(shareOf(await later.send(ann)));
          expect(shares).toEqual([undefined, undefined, undefined, 100]);
          expect(await later.trySend(ann)).toBe("SPEND_LIMIT");
        }),
      ),
    );

    test(
      "warns again under a cap that was raised, also across a restart",
      withStore(
        capped(async ({ acts, system, reopen }) => {
          expect(await exhaust(acts)).toBe(max);
          const raised = createActs(await reopen(), system, ringOf(1), { ...policy, dailyMessagesMax: 2 * max });
          const shares: unknown[] = [];
          for (let i = 0; i < max; i++) shares.push(shareOf(await raised.send(ann)));
          expect(shares).toEqual([
            ...Array<undefined>(5).fill(undefined),
            80,
            ...Array<undefined>(3).fill(undefined),
            100,
          ]);
        }),
      ),
    );

    test(
      "gets back the place of a message that never left, once",
      withStore(
        capped(async ({ store, acts }) => {
          const job = await acts.send(ann);
          expect(await exhaust(acts)).toBe(max - 1);
          for (let times = 0; times < 3; times++) await settleAs(store, acts, job, refused);
          expect(await exhaust(acts)).toBe(1);
        }),
      ),
    );

    test(
      "gets no place back from a message of the day before",
      withStore(
        capped(async ({ store, acts, system }) => {
          system.advance(dayMs / 2 - 1);
          const job = await acts.send(ann);
          system.advance(1);
          expect(await exhaust(acts)).toBe(max);
          await settleAs(store, acts, job, refused);
          expect(await exhaust(acts)).toBe(0);
        }),
      ),
    );

    test.each<[string, SendOutcome | undefined, number]>([
      ["after an answer that tells nothing is another SMS", ambiguous, 1],
      ["after a crash may be another SMS", undefined, 1],
      ["after a proven failure is none", unavailable, 0],
    ])("a second call %s", (_, outcome, more) =>
      withStore(
        capped(async ({ store, acts, system }) => {
          const job = await acts.send(ann);
          if (outcome !== undefined) await settleAs(store, acts, job, outcome);
          system.advance(leaseMs);
          expect(await acts.claim(10)).toHaveLength(1);
          expect(await exhaust(acts)).toBe(max - 1 - more);
        }),
      )(),
    );

    test(
      "gives up a message that needs another place when there is none, and says why",
      withStore(
        capped(async ({ store, acts, system }) => {
          const job = await acts.send(ann);
          await exhaust(acts);
          await settleAs(store, acts, job, ambiguous);
          system.advance(1_000);
          expect(await acts.claim(1)).toEqual([]);
          expect(await store.readMessages(job.verification.id)).toMatchObject([
            { delivery: "EXPIRED", dueMs: null, detail: "the daily cap on messages was reached" },
          ]);
          expect(await acts.read(job.verification)).toMatchObject({ state: "PENDING", delivery: "EXPIRED" });
          expect(await acts.guess(job.verification, acts.rightCode(job.verification))).toBe("verified");
        }),
      ),
    );

    test(
      "has a message that waits over midnight take its place on the day it goes out",
      withStore(
        capped(async ({ store, acts, system }) => {
          system.advance(dayMs / 2 - 100);
          const [one, two] = [await acts.send(ann), await acts.send(ben)];
          for (const job of [one, two]) await settleAs(store, acts, job, unavailable);
          system.advance(1_000);
          expect(await exhaust(acts)).toBe(max);
          expect(await acts.claim(10)).toEqual([]);
          expect(await store.nextDue()).not.toBeUndefined();
        }),
      ),
    );

    test(
      "keeps the place of a message that was put back unsent",
      withStore(
        capped(async ({ store, acts, system }) => {
          const job = await acts.send(ann);
          await settleAs(store, acts, job, ambiguous);
          for (let times = 0; times < 5; times++) {
            system.advance(1_000);
            await store.releaseMessages(await acts.claim(10));
          }
          expect(await exhaust(acts)).toBe(max - 2);
        }),
      ),
    );

    test(
      "writes nothing where there is none",
      withStore(async ({ store, acts, system }) => {
        const job = await acts.send(ann);
        system.advance(leaseMs);
        const [claimed] = await acts.claim(10);
        expect([job.message.countedDay, claimed?.message.countedDay, claimed?.reached]).toEqual([
          null,
          null,
          undefined,
        ]);
        const scope = {
          tenant: "default",
          slot: undefined,
          phone: undefined,
          caps: [{ kind: "messages", max }] as const,
        };
        const daily = await store.openVerification(scope, (view) => ({
          writes: {},
          result: view.days?.get("messages"),
        }));
        expect(daily).toEqual({ day: Math.floor(system.now() / dayMs), count: 0, warned: 0, warnedCap: 0 });
      }),
    );
  });
}
