/**
 * The store's contract: the caps on a country's messages and on money, which hold as exactly as the daily cap does, and of which
 * exactly what a message has taken comes back.
 */
import { describe, expect, test } from "vitest";
import type { SendOutcome } from "../../src/otp/message/message.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import type { Policy } from "../../src/otp/verification/policy.ts";
import { decideSettle } from "../../src/otp/decisions/settlement.ts";
import type { PriceOf } from "../../src/otp/decisions/spending.ts";
import type { Job, Store } from "../../src/store/store.ts";
import { createActs, ringOf, shareOf, testPolicy, type Acts } from "./acts.ts";
import type { StoreFixture, WithStore } from "./contract.ts";

const dayMs = 86_400_000;
const leaseMs = 30_000;
const refused: SendOutcome = { kind: "refused", cause: "recipient", detail: "no" };
const unavailable: SendOutcome = { kind: "unavailable", detail: "down" };
const ambiguous: SendOutcome = { kind: "ambiguous", detail: "?" };

let phones = 0;
/** Each of another prefix, whose lock would have acts wait for each other. */
export const nextPhone = () => `+316${10_000_000 + (((phones += 1) * 100_003) % 89_999_999)}` as E164;

/** What a cap has room for, and how a test asks for one message. */
export interface Case {
  readonly policy: Policy;
  readonly priceOf?: PriceOf;
  readonly max: number;
}

const cents = 10_000;
/** 7 cents to the Netherlands and 11 elsewhere, under a cap that nothing fills to the last. */
const priceOf: PriceOf = ({ region }) => (region === "NL" ? 7 * cents : 11 * cents);
export const ofCountry: Case = { policy: { ...testPolicy, countryCaps: new Map([["NL", 10]]) }, max: 10 };
export const ofMoney: Case = {
  policy: { ...testPolicy, dailySpend: { max: 75 * cents, currency: "EUR" } },
  priceOf,
  max: 10,
};

export function actsOf(
  store: Store,
  { system }: Pick<StoreFixture, "system">,
  { policy, priceOf: price }: Case,
  webhooks = false,
) {
  return createActs(store, system, ringOf(1), policy, webhooks, price);
}

/** Runs a case with the clock at noon of a UTC day. */
export const atNoon =
  (of: Case, run: (fixture: StoreFixture) => Promise<void>) =>
  (fixture: StoreFixture): Promise<void> => {
    const { store, system } = fixture;
    system.advance(dayMs / 2 + dayMs - (system.now() % dayMs));
    return run({ ...fixture, acts: actsOf(store, fixture, of) });
  };

export async function exhaust(acts: Acts, region = "NL"): Promise<number> {
  for (let sent = 0; ; sent++) if ((await acts.trySend(nextPhone(), { region })) !== "opened") return sent;
}

function settleAs(store: Store, acts: Acts, job: Job, outcome: SendOutcome) {
  return store.settleMessage(job.message, acts.phoneOf, (view) =>
    decideSettle(view, { outcome, provider: "one", providers: 1, claimed: job.message }, acts.policy),
  );
}

export function capCases(withStore: WithStore): void {
  describe.each([
    ["a country's cap", ofCountry],
    ["a cap on money", ofMoney],
  ])("%s", (_, of) => {
    test(
      "is not exceeded, however many ask in however many processes at once",
      withStore(
        atNoon(of, async (fixture) => {
          const others = actsOf(await fixture.beside(), fixture, of);
          const answers = await Promise.all(
            Array.from({ length: 60 }, (_each, i) => (i % 2 === 0 ? fixture.acts : others).trySend(nextPhone())),
          );
          expect(answers.filter((each) => each === "opened")).toHaveLength(of.max);
          expect(answers.filter((each) => each === "SPEND_LIMIT")).toHaveLength(60 - of.max);
        }),
      ),
    );

    test(
      "counts resends with sends, each tenant by itself, and each UTC day anew, across a restart",
      withStore(
        atNoon(of, async (fixture) => {
          const { acts, system } = fixture;
          const { verification } = await acts.send(nextPhone());
          system.advance(30_000);
          await acts.resend(verification);
          expect(await exhaust(acts)).toBe(of.max - 2);
          system.advance(60_000);
          expect(await acts.tryResend(verification)).toBe("SPEND_LIMIT");
          expect(await acts.trySend(nextPhone(), { tenant: "other" })).toBe("opened");
          const later = actsOf(await fixture.reopen(), fixture, of);
          expect(await later.trySend(nextPhone())).toBe("SPEND_LIMIT");
          system.advance(dayMs - (system.now() % dayMs));
          expect(await exhaust(later)).toBe(of.max);
        }),
      ),
    );

    test(
      "gets back what a message took that never left, once, and nothing of one that may have",
      withStore(
        atNoon(of, async ({ store, acts }) => {
          const [lost, unsure] = [await acts.send(nextPhone()), await acts.send(nextPhone())];
          expect(await exhaust(acts)).toBe(of.max - 2);
          for (let i = 0; i < 3; i++) await settleAs(store, acts, lost, refused);
          await settleAs(store, acts, unsure, ambiguous);
          expect(await exhaust(acts)).toBe(1);
        }),
      ),
    );

    test(
      "counts a further call for what may have been sent, and not one for what was not",
      withStore(
        atNoon(of, async ({ store, acts, system }) => {
          const first = await acts.send(nextPhone());
          await settleAs(store, acts, first, unavailable);
          system.advance(1_000);
          expect(await acts.claim()).toHaveLength(1);
          system.advance(leaseMs);
          // Its worker is dead: it may have been sent.
          expect(await acts.claim()).toHaveLength(1);
          expect(await exhaust(acts)).toBe(of.max - 2);
          system.advance(leaseMs);
          expect(await acts.claim()).toHaveLength(0);
        }),
      ),
    );

    test(
      "is given back to the day that a message was counted on alone",
      withStore(
        atNoon(of, async ({ store, acts, system }) => {
          system.advance(dayMs / 2 - 1_000);
          const job = await acts.send(nextPhone());
          system.advance(1_000);
          expect(await exhaust(acts)).toBe(of.max);
          await settleAs(store, acts, job, refused);
          expect(await exhaust(acts)).toBe(0);
        }),
      ),
    );

    test(
      "leaves the other caps, the phone's limits and the named ones alone when it refuses",
      withStore(
        atNoon(of, async (fixture) => {
          const policy = { ...of.policy, dailyMessagesMax: of.max + 3 };
          const acts = actsOf(fixture.store, fixture, { ...of, policy });
          expect(await exhaust(acts)).toBe(of.max);
          const phone = nextPhone();
          const before = await acts.phone(phone);
          for (let i = 0; i < 9; i++) expect(await acts.trySend(phone)).toBe("SPEND_LIMIT");
          expect(await acts.phone(phone)).toEqual(before);
          const uncapped = actsOf(fixture.store, fixture, {
            ...of,
            policy: { ...testPolicy, dailyMessagesMax: of.max + 3 },
          });
          expect(await exhaust(uncapped)).toBe(3);
        }),
      ),
    );
  });

  describe("a country's cap of its own", () => {
    test(
      "holds for that country alone, and one of 0 lets nothing through",
      withStore(async (fixture) => {
        const policy = {
          ...testPolicy,
          countryCaps: new Map([
            ["NG", 2],
            ["KE", 0],
          ]),
        };
        const acts = actsOf(fixture.store, fixture, { policy, max: 0 });
        expect([await exhaust(acts, "NG"), await exhaust(acts, "KE")]).toEqual([2, 0]);
        expect(await acts.trySend(nextPhone(), { region: "NL" })).toBe("opened");
        expect(await acts.trySend(nextPhone(), { region: "KE", tenant: "a+test" })).toBe("opened");
      }),
    );

    test(
      "is warned of at 80 and at 100 percent with its country, once each, and one of 0 never, which lets none in",
      withStore(async (fixture) => {
        const caps = { NL: 5, BE: 5, KE: 0 };
        const policy = { ...testPolicy, countryCaps: new Map(Object.entries(caps)) };
        const acts = actsOf(fixture.store, fixture, { policy, max: 0 });
        const reached: unknown[] = [];
        for (const region of ["NL", "NL", "NL", "NL", "BE", "NL"]) {
          reached.push((await acts.send(nextPhone(), { region })).reached);
        }
        const of = { cap: 5, country: "NL" };
        const [near, full] = [[{ share: 80, ...of }], [{ share: 100, ...of }]];
        expect(reached).toEqual([undefined, undefined, undefined, near, undefined, full]);
        const warned = async (region: string) => (await acts.refusedSend(nextPhone(), { region })).reached;
        expect([await warned("NL"), await warned("KE")]).toEqual([undefined, undefined]);
        const refusalOf = async (region: string) => (await acts.refusedSend(nextPhone(), { region })).refusal;
        expect(await refusalOf("NL")).toMatchObject({ reason: "SPEND_LIMIT", metadata: { cap: "country" } });
        const { reason, field, retryAfterMs } = await refusalOf("KE");
        expect([reason, field, retryAfterMs]).toEqual(["COUNTRY_NOT_ALLOWED", "phone", undefined]);
      }),
    );

    test(
      "is warned of by what it refuses, where it was lowered below what is counted",
      withStore(async (fixture) => {
        const under = (max: number) =>
          actsOf(fixture.store, fixture, { policy: { ...testPolicy, countryCaps: new Map([["NL", max]]) }, max });
        for (let i = 0; i < 3; i++) await under(10).send(nextPhone());
        const warned = async () => (await under(2).refusedSend(nextPhone())).reached;
        expect([await warned(), await warned()]).toEqual([[{ share: 100, cap: 2, country: "NL" }], undefined]);
      }),
    );
  });

  describe("a cap on money of its own", () => {
    test(
      "takes what each message may cost, to the last millionth, and gives back that and no other amount",
      withStore(async (fixture) => {
        const { store } = fixture;
        const policy = { ...testPolicy, dailySpend: { max: 40 * cents, currency: "EUR" } };
        const acts = actsOf(store, fixture, { policy, priceOf, max: 0 });
        const dear = await acts.send(nextPhone(), { region: "DE" });
        expect(dear.message.reserved).toMatchObject({ amount: 11 * cents });
        await acts.send(nextPhone(), { region: "DE" });
        expect(await exhaust(acts)).toBe(2);
        expect(await acts.trySend(nextPhone(), { region: "DE" })).toBe("SPEND_LIMIT");
        // Dearer by now: what comes back is what was taken.
        const raised = actsOf(store, fixture, { policy, priceOf: () => 15 * cents, max: 0 });
        await settleAs(store, raised, dear, refused);
        expect([await exhaust(raised), await exhaust(acts)]).toEqual([1, 0]);
        const cheap = actsOf(store, fixture, { policy, priceOf: () => 1, max: 0 });
        expect(await exhaust(cheap)).toBe(0);
      }),
    );

    test(
      "refuses what nobody knows the price of, and lets through what costs nothing",
      withStore(async (fixture) => {
        const { policy } = ofMoney;
        const unknown = actsOf(fixture.store, fixture, { policy, priceOf: () => undefined, max: 0 });
        expect(await exhaust(unknown)).toBe(0);
        const free = actsOf(fixture.store, fixture, { policy, priceOf: () => 0, max: 0 });
        expect([await free.trySend(nextPhone()), await free.trySend(nextPhone())]).toEqual(["opened", "opened"]);
      }),
    );

    test(
      "is warned of at 80 percent and when it refuses, once each",
      withStore(
        atNoon(ofMoney, async ({ acts }) => {
          const shares: unknown[] = [];
          for (let i = 0; i < ofMoney.max; i++) shares.push(shareOf(await acts.send(nextPhone())));
          expect(shares).toEqual([...Array<undefined>(8).fill(undefined), 80, undefined]);
          const tell = async () => acts.trySend(nextPhone());
          expect([await tell(), await tell()]).toEqual(["SPEND_LIMIT", "SPEND_LIMIT"]);
        }),
      ),
    );
  });
}
