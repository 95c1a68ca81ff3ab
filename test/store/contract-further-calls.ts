/**
 * The store's contract: what a further call takes of the caps, for a message that may have been sent. It comes back once that
 * call is proven not to have left, and only then.
 */
import { describe, expect, test } from "vitest";
import type { Report, SendOutcome } from "../../src/otp/message/message.ts";
import { decideReport, decideSettle } from "../../src/otp/decisions/settlement.ts";
import type { Job, Store } from "../../src/store/store.ts";
import { testPolicy } from "./acts.ts";
import { atNoon, exhaust, nextPhone, ofCountry, ofMoney, type Case } from "./contract-caps.ts";
import type { StoreFixture, WithStore } from "./contract.ts";

const secondMs = 1_000;
const leaseMs = 30 * secondMs;
const dayMs = 86_400_000;
const accepted: SendOutcome = { kind: "accepted" };
const refused: SendOutcome = { kind: "refused", cause: "recipient", detail: "no" };
const unavailable: SendOutcome = { kind: "unavailable", detail: "down" };
const isOpen: SendOutcome = { kind: "unavailable", detail: "left alone", isUnasked: true };
const throttled: SendOutcome = { kind: "throttled", retryAfterMs: secondMs, detail: "slow" };
const throttledForLong: SendOutcome = { kind: "throttled", retryAfterMs: dayMs, detail: "slow" };
const ambiguous: SendOutcome = { kind: "ambiguous", detail: "?" };

const ofMessages: Case = { policy: { ...testPolicy, dailyMessagesMax: 10 }, max: 10 };

type Way = Pick<StoreFixture, "acts" | "store" | "system">;

const order = ["one", "two"];

function answer({ store, acts }: Pick<Way, "acts" | "store">, job: Job, outcome: SendOutcome, provider = "two") {
  return store.settleMessage(job.message, acts.phoneOf, (view) =>
    decideSettle(view, { outcome, provider, providers: order.length, claimed: job.message }, acts.policy),
  );
}

function report({ store, acts }: Way, job: Job, delivery: Report["delivery"], provider: string) {
  const said = { provider, providersOf: () => order, providerMessageId: undefined, delivery, detail: undefined };
  return store.settleMessage(job.message, acts.phoneOf, (view) => decideReport(view, said));
}

/** The next call of what is due. */
async function claimOne({ acts, system }: Way): Promise<Job> {
  system.advance(secondMs);
  const [job, ...others] = await acts.claim();
  if (job === undefined || others.length > 0) throw new Error("one message is due");
  return job;
}

/** A message that its first provider may have sent, in hand for the second. */
async function atSecond(way: Way): Promise<Job> {
  await answer(way, await way.acts.send(nextPhone()), ambiguous, "one");
  return claimOne(way);
}

/** The same, where the second call is of the provider that gave no clear answer, since the first one had put the message off. */
async function atSameAgain(way: Way): Promise<Job> {
  await answer(way, await way.acts.send(nextPhone()), throttled, "one");
  await answer(way, await claimOne(way), ambiguous, "two");
  return claimOne(way);
}

/** As `atSecond`, where the first provider has reported it undelivered. */
async function atSecondAfterReport(way: Way): Promise<Job> {
  const first = await way.acts.send(nextPhone());
  await answer(way, first, accepted, "one");
  await report(way, first, "UNDELIVERED", "one");
  return claimOne(way);
}

const deliveryOf = async (store: Store, { verification }: Job) =>
  (await store.readMessages(verification.id))[0]?.delivery;

export function furtherCallCases(withStore: WithStore): void {
  type Room = { readonly left: () => Promise<number> };

  /** A case of a cap, which counts the room that is left beside the place of a first call, and that of a second. */
  const inCase = (of: Case, run: (way: StoreFixture & Room) => Promise<void>) =>
    withStore(
      atNoon(of, (fixture) => run({ ...fixture, left: async () => (await exhaust(fixture.acts)) - (of.max - 2) })),
    );

  describe.each([
    ["the daily cap", ofMessages],
    ["a country's cap", ofCountry],
    ["a cap on money", ofMoney],
  ])("of %s a further call", (_, of) => {
    test.each<[string, SendOutcome, number]>([
      ["gives its place back, once, when it is refused", refused, 1],
      ["gives it back when its provider is down", unavailable, 1],
      ["gives it back when it is not made, since its provider is left alone", isOpen, 1],
      ["gives it back when it is put off beyond the deadline", throttledForLong, 1],
      ["keeps it when it is taken", accepted, 0],
      ["keeps it when it may have been taken", ambiguous, 0],
    ])("%s", (_why, outcome, room) =>
      inCase(of, async (way) => {
        const job = await atSecond(way);
        for (let i = 0; i < 3; i++) await answer(way, job, outcome);
        expect(await way.left()).toBe(room);
      })(),
    );

    test(
      "gives it back after a report that the one before was in vain",
      inCase(of, async (way) => {
        const job = await atSecondAfterReport(way);
        for (let i = 0; i < 3; i++) await answer(way, job, refused);
        expect(await way.left()).toBe(1);
      }),
    );

    test(
      "keeps it for the next one while it is put off, and gives it back with the message, once",
      inCase(of, async (way) => {
        const { acts, store, system } = way;
        let job = await atSecond(way);
        for (let i = 0; i < 3; i++) {
          await answer(way, job, throttled);
          job = await claimOne(way);
        }
        await answer(way, job, throttled);
        expect(await deliveryOf(store, job)).toBe("QUEUED");
        expect(await way.left()).toBe(0);
        await acts.cancel(job.verification);
        for (let i = 0; i < 3; i++) {
          system.advance(secondMs);
          expect(await acts.claim()).toEqual([]);
        }
        expect(await deliveryOf(store, job)).toBe("EXPIRED");
        expect(await exhaust(acts)).toBe(1);
      }),
    );
  });

  describe("a further call under the caps", () => {
    test(
      "for which there is no room is not made, and a message that its provider had in vain stays so",
      inCase(ofMoney, async (way) => {
        const { acts, store, system } = way;
        const first = await acts.send(nextPhone());
        await answer(way, first, accepted, "one");
        expect(await way.left()).toBe(1);
        await report(way, first, "UNDELIVERED", "one");
        system.advance(secondMs);
        expect(await acts.claim()).toEqual([]);
        expect(await store.readMessages(first.verification.id)).toMatchObject([
          { delivery: "UNDELIVERED", dueMs: null, detail: "The daily cap on what messages cost is reached." },
        ]);
      }),
    );

    test(
      "that a dead worker has in hand keeps its place, unless its answer comes after all",
      inCase(ofMoney, async (way) => {
        const { acts, store, system } = way;
        const job = await atSecond(way);
        await acts.cancel(job.verification);
        system.advance(leaseMs);
        expect(await acts.claim()).toEqual([]);
        expect(await deliveryOf(store, job)).toBe("EXPIRED");
        expect(await way.left()).toBe(0);
        for (let i = 0; i < 3; i++) await answer(way, job, refused);
        expect(await exhaust(acts)).toBe(1);
      }),
    );

    test(
      "that another worker took over gives back its own place alone",
      inCase(ofMoney, async (way) => {
        const job = await atSecond(way);
        way.system.advance(leaseMs);
        const again = await claimOne(way);
        for (let i = 0; i < 3; i++) await answer(way, job, refused);
        expect(await way.left()).toBe(-1);
        for (let i = 0; i < 3; i++) await answer(way, again, refused);
        expect(await exhaust(way.acts)).toBe(1);
      }),
    );

    test(
      "that two processes note at once gives its place back once",
      inCase(ofMoney, async (way) => {
        const store = await way.beside();
        const job = await atSecond(way);
        await Promise.all(
          Array.from({ length: 8 }, (_, i) => answer(i % 2 === 0 ? way : { ...way, store }, job, refused)),
        );
        expect(await way.left()).toBe(1);
      }),
    );

    test.each<[string, SendOutcome, number]>([
      ["and is refused then gives its place back, once", refused, 1],
      ["and is put off then does so, too", throttled, 1],
      ["and is taken then keeps it", accepted, 0],
      ["and may be taken then keeps it", ambiguous, 0],
    ])("that is under way when the one before is reported delivered, %s", (_, outcome, room) =>
      inCase(ofMoney, async (way) => {
        const job = await atSecond(way);
        await report(way, job, "DELIVERED", "one");
        for (let i = 0; i < 3; i++) await answer(way, job, outcome);
        expect(await deliveryOf(way.store, job)).toBe("DELIVERED");
        expect(await way.left()).toBe(room);
      })(),
    );

    test(
      "that waits when the one before is reported delivered gives its place back, once",
      inCase(ofMoney, async (way) => {
        const job = await atSecond(way);
        await answer(way, job, throttled);
        for (let i = 0; i < 3; i++) await report(way, job, "DELIVERED", "one");
        for (let i = 0; i < 3; i++) await answer(way, job, throttled);
        expect(await way.left()).toBe(1);
      }),
    );

    test(
      "whose put-off is noted again gives back nothing that the next one has taken",
      inCase(ofMoney, async (way) => {
        const job = await atSecond(way);
        await answer(way, job, throttled);
        const next = await claimOne(way);
        await report(way, next, "DELIVERED", "one");
        await answer(way, job, throttled);
        expect(await way.left()).toBe(0);
        await answer(way, next, refused);
        expect(await exhaust(way.acts)).toBe(1);
      }),
    );

    test(
      "that is put off for the second time as the one before is reported delivered gives its place back, once",
      inCase(ofMoney, async (way) => {
        await answer(way, await atSecond(way), throttled);
        const again = await claimOne(way);
        await report(way, again, "DELIVERED", "one");
        for (let i = 0; i < 3; i++) await answer(way, again, throttled);
        expect(await way.left()).toBe(1);
      }),
    );

    test.each(["ACCEPTED", "UNDELIVERED", "DELIVERED"] as const)(
      "keeps its place where its own provider reports it %s, whatever that answers",
      (delivery) =>
        inCase(ofMoney, async (way) => {
          const job = await atSecond(way);
          await report(way, job, delivery, "two");
          for (let i = 0; i < 3; i++) await answer(way, job, refused);
          expect(await way.left()).toBe(0);
        })(),
    );

    test(
      "to the same provider gives it back where the report is of the call before",
      inCase(ofMoney, async (way) => {
        const second = await atSameAgain(way);
        await report(way, second, "ACCEPTED", "two");
        for (let i = 0; i < 3; i++) await answer(way, second, refused, "two");
        expect(await deliveryOf(way.store, second)).toBe("ACCEPTED");
        expect(await way.left()).toBe(1);
      }),
    );

    test.each(["ACCEPTED", "DELIVERED"] as const)(
      "that is put back unmade, once the one before is reported %s, gives its place back, once",
      (delivery) =>
        inCase(ofMoney, async (way) => {
          const { store } = way;
          const second = await atSameAgain(way);
          await report(way, second, delivery, "two");
          for (let i = 0; i < 3; i++) await store.releaseMessages([second]);
          expect(await deliveryOf(store, second)).toBe(delivery);
          expect(await way.left()).toBe(1);
        })(),
    );

    test.each<[string, readonly Report["delivery"][]]>([
      ["UNDELIVERED", ["UNDELIVERED"]],
      ["ACCEPTED and then UNDELIVERED", ["ACCEPTED", "UNDELIVERED"]],
    ])(
      "that is put back unmade, once its request has ended and the one before is reported %s, gives its place back, once",
      (_, deliveries) =>
        inCase(ofMoney, async (way) => {
          const { acts, store } = way;
          const second = await atSameAgain(way);
          await acts.cancel(second.verification);
          for (const delivery of deliveries) await report(way, second, delivery, "two");
          for (let i = 0; i < 3; i++) await store.releaseMessages([second]);
          expect(await deliveryOf(store, second)).toBe("UNDELIVERED");
          expect(await way.left()).toBe(1);
        })(),
    );

    test(
      "leaves what waits for another one its place where a late answer has it accepted",
      inCase(ofMoney, async (way) => {
        const late = await atSecond(way);
        way.system.advance(leaseMs);
        const next = await claimOne(way);
        await answer(way, next, throttled);
        await answer(way, late, accepted);
        expect(await deliveryOf(way.store, late)).toBe("ACCEPTED");
        // Two calls may have left, and the third one's place is back.
        expect(await way.left()).toBe(0);
      }),
    );

    test(
      "gives nothing back to another day than that on which it was counted",
      inCase(ofMoney, async (way) => {
        const { acts, system } = way;
        system.advance(dayMs / 2 - 2 * secondMs);
        const job = await atSecond(way);
        system.advance(secondMs);
        expect(await exhaust(acts)).toBe(ofMoney.max);
        await answer(way, job, refused);
        expect(await exhaust(acts)).toBe(0);
      }),
    );
  });
}
