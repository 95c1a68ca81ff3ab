/**
 * The store's contract: events. What a tenant's endpoints are told of is written with the change itself: exactly once, by
 * whatever act it came, and not at all where that was taken back.
 */
import { describe, expect, test } from "vitest";
import { parseEvent } from "../support/readers/events.ts";
import { bodyOf, type OwedEvent } from "../../src/otp/decisions/event.ts";
import { leaseMs } from "../../src/otp/message/message.ts";
import { readReference } from "../../src/otp/message/provider-text.ts";
import { maskPhone, openPhone } from "../../src/otp/phone-number.ts";
import { newPrefix, prefixOf, type PrefixDecision } from "../../src/otp/limits/pumping-guard.ts";
import { ann, ben, createActs, ringOf, testPolicy, type Acts } from "./acts.ts";
import { claimFallbacks } from "./contract-fallback.ts";
import type { StoreFixture, WithStore } from "./contract.ts";
import { added, endpointOf, takeEvents } from "./endpoints.ts";
import { report, settle, stories } from "./event-stories.ts";

async function heardBy({ store, system }: StoreFixture, policy = testPolicy, ...ids: string[]): Promise<Acts> {
  await added(store, ...(ids.length === 0 ? ["we_1"] : ids).map((id) => endpointOf(id)));
  return createActs(store, system, ringOf(1), policy, true);
}

const typesOf = (events: readonly OwedEvent[]) => events.map(({ type }) => type.replace("verification.", ""));

export function eventCases(withStore: WithStore): void {
  describe("events", () => {
    test.each(stories)("are told once each: when %s", (_, types, story) =>
      withStore(async (fixture) => {
        const acts = await heardBy(fixture);
        const events: OwedEvent[] = [];
        const take = async () => void events.push(...(await takeEvents(fixture.store)));
        await story({ ...fixture, acts, job: await acts.send(ann), take });
        await take();
        expect(typesOf(events).toSorted()).toEqual(types.toSorted());
        expect(new Set(events.map(({ id }) => id)).size).toBe(types.length);
        for (const event of events) {
          const { phone } = event;
          const read = phone === null ? undefined : openPhone(acts.keys, phone.kid, phone.requestId, phone.box);
          expect(parseEvent(bodyOf(event, acts.keys, read, true))).toMatchObject({
            type: event.type,
            data: { phone: ann },
          });
          expect(parseEvent(bodyOf(event, acts.keys, read, false)).data["phone"]).toBe(maskPhone(ann));
        }
        expect(await takeEvents(fixture.store)).toEqual([]);
      })(),
    );

    test(
      "tell of a message that was in vain, and is given up for a fallback before the next provider has it",
      withStore(async (fixture) => {
        const { store, system } = fixture;
        const acts = await heardBy(fixture);
        const job = await acts.send(ann, { fallback: { channels: ["voice"], afterMs: 20_000 } });
        await settle({ ...fixture, acts, job }, { kind: "accepted" });
        await report({ ...fixture, acts, job }, "UNDELIVERED");
        const [next] = await acts.claim();
        if (next === undefined) throw new Error("it does not go on");
        await settle({ ...fixture, acts, job: next }, { kind: "throttled", retryAfterMs: 60_000, detail: "" }, "two");
        await takeEvents(store);
        system.advance(20_000);
        expect(await claimFallbacks(store, acts)).toMatchObject([{ message: { copy: 1, channel: "voice" } }]);
        expect(await takeEvents(store)).toMatchObject([
          { type: "verification.undelivered", facts: { copy: 0, channel: "sms", delivery: "DELIVERY_UNDELIVERED" } },
        ]);
      }),
    );

    test(
      "tell once of what was in vain and had no room under a cap any more, though its answer comes after all",
      withStore(async (fixture) => {
        const { store, system } = fixture;
        const acts = await heardBy(fixture, { ...testPolicy, dailyMessagesMax: 1 });
        const job = await acts.send(ann);
        await report({ ...fixture, acts, job }, "UNDELIVERED");
        await takeEvents(store);
        system.advance(leaseMs);
        expect(await acts.claim()).toEqual([]);
        expect((await takeEvents(store)).map(({ type }) => type)).toEqual(["verification.undelivered"]);
        await settle({ ...fixture, acts, job }, { kind: "accepted" });
        expect(await store.readMessages(job.verification.id)).toMatchObject([{ delivery: "UNDELIVERED", dueMs: null }]);
        expect((await acts.read(job.verification)).delivery).toBe("UNDELIVERED");
        expect(await acts.claim()).toEqual([]);
        expect(await takeEvents(store)).toEqual([]);
      }),
    );

    test(
      "tell what GetOtp would, and nothing of the code",
      withStore(async (fixture) => {
        const acts = await heardBy(fixture);
        const { store, system } = fixture;
        const job = await acts.send(ann);
        await settle({ ...fixture, acts, job }, { kind: "accepted" });
        system.advance(1_000);
        await acts.guess(job.verification, acts.rightCode(job.verification));
        const [first, second, last] = await takeEvents(store);
        const time = (ms: number) => new Date(job.verification.createMs + ms).toISOString();
        const facts = {
          request_id: job.verification.id,
          tenant: "default",
          channel: "sms",
          channels: ["sms"],
          country: "NL",
          purpose: "login",
          state: "STATE_PENDING",
          reason: null,
          delivery: "DELIVERY_ACCEPTED",
          resends: 0,
          create_time: time(0),
          expire_time: time(600_000),
          end_time: null,
          test: false,
        };
        expect(first?.facts).toEqual({ ...facts, copy: 0, provider: "one", provider_message_id: null });
        if (first === undefined) throw new Error("nothing was owed");
        const { data } = parseEvent(bodyOf(first, acts.keys, undefined, false));
        const copy0 = { id: job.verification.id, copy: 0 };
        expect(readReference(acts.keys, String(data["reference"]))).toEqual([copy0]);
        expect(second?.facts).toEqual({ ...facts, delivery: "DELIVERY_SENDING" });
        const end = { state: "STATE_VERIFIED", reason: "REASON_OTP_ALREADY_VERIFIED", end_time: time(1_000) };
        expect(last?.facts).toEqual({ ...facts, ...end });
      }),
    );

    test(
      "of an act that is taken back are not there",
      withStore(async (fixture) => {
        const acts = await heardBy(fixture);
        const { store } = fixture;
        const { verification } = await acts.send(ann);
        await takeEvents(store);
        const scope = { tenant: "default", id: verification.id, slot: undefined, phoneOf: acts.phoneOf };
        const broken = { slot: Buffer.alloc(16), kid: 1, fingerprint: null as unknown as Uint8Array };
        const record = { ...broken, verificationId: verification.id, answer: null, busyUntilMs: 1, expireMs: 1 };
        const canceled = { ...verification, state: "CANCELED", salt: null, endMs: 5 } as const;
        const act = store.updateVerification(scope, () => ({
          writes: { verification: canceled, record },
          result: 0,
        }));
        await expect(act).rejects.toBeInstanceOf(Error);
        expect((await acts.read(verification)).state).toBe("PENDING");
        expect(await takeEvents(store)).toEqual([]);
      }),
    );

    test(
      "survive with what they tell of",
      withStore(async (fixture) => {
        const acts = await heardBy(fixture);
        const { verification } = await acts.send(ann);
        const later = await fixture.reopen();
        expect((await takeEvents(later)).map(({ facts }) => facts["request_id"])).toEqual([verification.id]);
      }),
    );

    test(
      "go to each endpoint of the tenant that asks for them, and to no other",
      withStore(async ({ store, system }) => {
        await added(
          store,
          endpointOf("we_all"),
          endpointOf("we_ends", { types: ["verification.canceled", "fraud.tripped"] }),
          endpointOf("we_off", { disableMs: 5, why: "operator" }),
        );
        await store.registry.changeTenant("acme", () => ({ keep: { settings: "{}", disableMs: null }, result: 0 }));
        await added(store, endpointOf("we_acme", { tenant: "acme" }));
        const acts = createActs(store, system, ringOf(1), testPolicy, true);
        await acts.cancel((await acts.send(ann)).verification);
        await acts.send(ben, { tenant: "acme" });
        await acts.send(ben, { tenant: "nobody" });
        const jobs = await store.events.claimEvents({ max: 100, perEndpointMax: 100, busy: [] });
        expect(jobs.map(({ endpoint, event }) => `${endpoint.id} ${event.type}`).toSorted()).toEqual([
          "we_acme verification.created",
          "we_all verification.canceled",
          "we_all verification.created",
          "we_ends verification.canceled",
        ]);
      }),
    );

    test(
      "of the sandbox go to the tenant beside it, and say so",
      withStore(async (fixture) => {
        const acts = await heardBy(fixture);
        await acts.send(ann, { tenant: "default+test" });
        const [event] = await takeEvents(fixture.store);
        expect(event?.tenant).toBe("default");
        expect(event?.facts).toMatchObject({ tenant: "default", test: true });
      }),
    );

    test(
      "are not written while the tenant is not known to have an endpoint",
      withStore(async ({ store, acts }) => {
        await added(store, endpointOf("we_1"));
        await acts.cancel((await acts.send(ann)).verification);
        expect(await takeEvents(store)).toEqual([]);
      }),
    );

    test(
      "tell once of each share of the daily cap, on whatever way it is reached",
      withStore(async (fixture) => {
        const policy = { ...testPolicy, dailyMessagesMax: 5 };
        const acts = await heardBy(fixture, policy);
        const { store, system } = fixture;
        const warnings = async () => (await takeEvents(store)).filter(({ type }) => type === "spend.warning");
        for (let i = 0; i < 3; i++) await acts.send(ann);
        expect(await warnings()).toEqual([]);
        await acts.send(ann);
        const day = new Date(system.now()).toISOString().slice(0, 10);
        const expected = { tenant: "default", cap: 5, day };
        expect((await warnings()).map(({ facts }) => facts)).toEqual([{ ...expected, share_percent: 80 }]);
        // A call cut short is made again, and takes the last place.
        system.advance(30_000);
        await acts.claim(1);
        expect((await warnings()).map(({ facts }) => facts)).toEqual([{ ...expected, share_percent: 100 }]);
        expect(await acts.trySend(ann)).toBe("SPEND_LIMIT");
        expect(await warnings()).toEqual([]);
      }),
    );

    test(
      "tell of a prefix that is tripped or has no more room, and of no other decision",
      withStore(async (fixture) => {
        await heardBy(fixture);
        const { store } = fixture;
        const name = { tenant: "default", prefix: prefixOf(ann) };
        const tripped: PrefixDecision = {
          kind: "tripped",
          atMs: 5_000,
          ended: 30,
          verified: 1,
          refused: 0,
          untilMs: 65_000,
          enforced: true,
        };
        const decide = async (decision: PrefixDecision) => {
          await store.changePrefix(name, () => ({ record: newPrefix, decisions: [decision] }));
        };
        await decide({ ...tripped, kind: "passed", untilMs: null });
        await decide({
          ...tripped,
          kind: "limited",
          atMs: 4_000,
          ended: 0,
          verified: 0,
          untilMs: null,
          enforced: false,
        });
        await decide(tripped);
        await decide({ ...tripped, kind: "unblocked", untilMs: null });
        const events = await takeEvents(store);
        expect(events.map(({ type, facts }) => ({ type, facts }))).toEqual([
          {
            type: "fraud.limited",
            facts: { ...name, sends: 0, verified: 0, enforced: false, until_time: null },
          },
          {
            type: "fraud.tripped",
            facts: { ...name, sends: 30, verified: 1, enforced: true, until_time: "1970-01-01T00:01:05.000Z" },
          },
        ]);
      }),
    );
  });
}
