/**
 * The store's contract: endpoints, and the outbox of their events.
 */
import { describe, expect, test } from "vitest";
import { afterTry, disabled, enabled, eventLeaseMs, type Endpoint } from "../../src/otp/operators/endpoint.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { MasterKeyMismatch } from "../../src/store/registry.ts";
import type { Store } from "../../src/store/store.ts";
import { ann, createActs, ringOf, testPolicy } from "./acts.ts";
import type { StoreFixture, WithStore } from "./contract.ts";
import { added, claimAll, endpointOf, recordedAsTaken } from "./endpoints.ts";

/** Endpoints, and a number of events that wait for each. */
async function backlog({ store, system }: StoreFixture, count: number, ...endpoints: Endpoint[]) {
  await added(store, ...endpoints);
  const acts = createActs(store, system, ringOf(1), testPolicy, true);
  for (let i = 0; i < count; i++) {
    // Each to a prefix of its own: one that is sent too much is an event too.
    await acts.send(`+3161${String(i).padStart(3, "0")}5678` as E164);
    system.advance(1);
  }
}

const waiting = async (store: Store) =>
  Object.fromEntries((await store.events.listEndpoints()).map(({ endpoint, waiting: count }) => [endpoint.id, count]));
const hasWebhooks = async (store: Store) => (await store.registry.findTenant("default"))?.hasWebhooks === true;

export function endpointCases(withStore: WithStore): void {
  describe("an endpoint", () => {
    test(
      "is found as it was added and changed, by every process, until it is removed",
      withStore(async ({ store, beside }) => {
        const endpoint = endpointOf("we_1", { types: ["verification.verified"], showPhones: true });
        await added(store, endpoint);
        const other = await beside();
        expect(await other.events.findEndpoint("we_1")).toEqual(endpoint);
        expect(await other.events.changeEndpoint("we_1", (found, now) => disabled(found, "gone", now))).toBe(true);
        const off = { ...endpoint, disableMs: store.now(), why: "gone" };
        expect(await store.events.listEndpoints()).toEqual([{ endpoint: off, waiting: 0 }]);
        expect(await store.events.removeEndpoint("we_1")).toBe(true);
        expect(await store.events.removeEndpoint("we_1")).toBe(false);
        expect(await other.events.changeEndpoint("we_1", (found) => found)).toBe(false);
        expect(await other.events.listEndpoints()).toEqual([]);
      }),
    );

    test(
      "is listed with what waits for it: since when, after how many tries, and when the next is due",
      withStore(async (fixture) => {
        const { store, system } = fixture;
        const beganMs = store.now();
        await backlog(fixture, 2, endpointOf("we_1"));
        await added(store, endpointOf("we_2"));
        const [job] = await claimAll(store, { max: 1 });
        if (job === undefined) throw new Error("nothing waits");
        await store.events.recordTry(job, (found, now) => afterTry(0, found, "failed", now, 0));
        system.advance(1_000);
        const listed = await store.events.listEndpoints();
        const each = ["we_1", "we_2", "we_3"].map((id) => store.events.readQueue(id));
        expect(await Promise.all(each)).toEqual([...listed, undefined]);
        expect(await store.events.readEndpoints()).toEqual(listed.map(({ endpoint }) => endpoint));
        expect(listed.map(({ endpoint, waiting: count, queue }) => [endpoint.id, count, queue])).toEqual([
          ["we_1", 2, { oldestMs: beganMs, tries: 1, nextTryMs: beganMs + 1 }],
          ["we_2", 0, undefined],
        ]);
      }),
    );

    test(
      "belongs to a tenant that is there and has room for it",
      withStore(async ({ store }) => {
        expect(await store.events.addEndpoint(endpointOf("we_0", { tenant: "nobody" }), 2)).toBe("no-tenant");
        const outcomes = await Promise.all([1, 2, 3].map((i) => store.events.addEndpoint(endpointOf(`we_${i}`), 2)));
        expect(outcomes.toSorted()).toEqual(["added", "added", "full"]);
      }),
    );

    test(
      "is news of its tenant to every server: when it comes, goes, and is turned off and on",
      withStore(async ({ store, beside }) => {
        const server = await beside();
        let seen = await server.registry.tenantsRevision();
        const expectWebhooks = async (has: boolean) => {
          expect(await server.registry.tenantsRevision()).toBeGreaterThan(seen);
          const listed = await server.registry.listTenants(seen);
          expect(listed.map(({ id, hasWebhooks: it }) => [id, it === true])).toEqual([["default", has]]);
          seen = await server.registry.tenantsRevision();
        };
        await added(store, endpointOf("we_1"));
        await expectWebhooks(true);
        await store.events.changeEndpoint("we_1", (found, now) => disabled(found, "operator", now));
        await expectWebhooks(false);
        await store.events.changeEndpoint("we_1", (found) => ({ ...found, disableMs: null }));
        await expectWebhooks(true);
        await store.events.removeEndpoint("we_1");
        await expectWebhooks(false);
      }),
    );

    test(
      "that is enabled again has what waits for it due at once, but for what is being posted",
      withStore(async (fixture) => {
        const { store } = fixture;
        await backlog(fixture, 3, endpointOf("we_1"));
        const [posted, ...failed] = await claimAll(store);
        if (posted === undefined) throw new Error("nothing waits");
        for (const job of failed) await store.events.recordTry(job, (to, now) => afterTry(7, to, "failed", now, 0));
        await store.events.changeEndpoint("we_1", (found, now) => disabled(found, "operator", now));
        expect(await claimAll(store)).toEqual([]);
        await store.events.changeEndpoint("we_1", enabled);
        const again = await claimAll(store);
        expect(new Map(again.map(({ event, tries }) => [event.id, tries]))).toEqual(
          new Map(failed.map(({ event }) => [event.id, 0])),
        );
        expect(await recordedAsTaken(store, [posted])).toMatchObject([{ id: "we_1" }]);
      }),
    );

    test(
      "that is disabled by what it answers is news to its own server too",
      withStore(async (fixture) => {
        const { store } = fixture;
        await backlog(fixture, 1, endpointOf("we_1"));
        const seen = await store.registry.tenantsRevision();
        const [job] = await claimAll(store);
        if (job === undefined) throw new Error("nothing waits");
        const settled = await store.events.recordTry(job, (found, now) => afterTry(0, found, "gone", now, 0));
        expect(settled).toMatchObject({ why: "gone", disableMs: store.now() });
        expect(await store.registry.tenantsRevision()).toBeGreaterThan(seen);
        expect(await hasWebhooks(store)).toBe(false);
      }),
    );

    test(
      "and the events that wait for it keep their master key in the list",
      withStore(async (fixture) => {
        const { store } = fixture;
        const admit = (...bytes: number[]) => store.registry.admitMasterKeys(ringOf(...bytes).all);
        await admit(1);
        await admit(2, 1);
        await added(store, endpointOf("we_1", {}, ringOf(1)));
        await expect(admit(2)).rejects.toBeInstanceOf(MasterKeyMismatch);
        const { kid, secrets } = endpointOf("we_1", {}, ringOf(2));
        await store.events.changeEndpoint("we_1", (found) => ({ ...found, kid, secrets }));
        await expect(admit(2)).resolves.toBeUndefined();
      }),
    );
  });

  describe("an event", () => {
    test(
      "is in one worker's hands, until its lease ends, and comes back with the same id",
      withStore(async (fixture) => {
        const { store, system, beside } = fixture;
        await backlog(fixture, 30, endpointOf("we_1"), endpointOf("we_2"));
        const other = await beside();
        const claimed = await Promise.all(
          Array.from({ length: 12 }, (_, i) => claimAll(i % 2 === 0 ? store : other, { max: 7 })),
        );
        expect(Math.max(...claimed.map((jobs) => jobs.length))).toBe(7);
        // What one is about to claim, another may have passed over.
        claimed.push(await claimAll(other));
        const names = claimed.flat().map(({ endpoint, event }) => `${endpoint.id} ${event.id}`);
        expect([names.length, new Set(names).size]).toEqual([60, 60]);
        expect(await store.events.nextEventDue()).toBe(system.now() + eventLeaseMs);
        system.advance(eventLeaseMs - 1);
        expect(await claimAll(store)).toEqual([]);
        system.advance(1);
        const again = await claimAll(other);
        expect(again.map(({ endpoint, event }) => `${endpoint.id} ${event.id}`).toSorted()).toEqual(names.toSorted());
        expect(new Set(again.map(({ tries }) => tries))).toEqual(new Set([0]));
        // The first hand comes too late to say anything.
        expect(await recordedAsTaken(store, claimed.flat())).toEqual(Array(60).fill(undefined));
        expect(await waiting(store)).toEqual({ we_1: 30, we_2: 30 });
      }),
    );

    test(
      "is due when it is decided to be, or done with",
      withStore(async (fixture) => {
        const { store, system } = fixture;
        await backlog(fixture, 1, endpointOf("we_1"));
        const [job] = await claimAll(store);
        if (job === undefined) throw new Error("nothing waits");
        await store.events.recordTry(job, (found, now) => afterTry(job.tries, found, "failed", now, 0));
        expect(await store.events.nextEventDue()).toBe(system.now() + 5_000);
        expect(await store.events.findEndpoint("we_1")).toMatchObject({ failingSinceMs: system.now() });
        system.advance(5_000);
        const [again] = await claimAll(store);
        expect(again).toMatchObject({ event: { id: job.event.id }, tries: 1 });
        if (again === undefined) throw new Error("it does not come back");
        await store.events.recordTry(again, (found, now) => afterTry(again.tries, found, "taken", now, 0));
        expect(await store.events.nextEventDue()).toBeUndefined();
        expect(await store.events.findEndpoint("we_1")).toMatchObject({ failingSinceMs: null });
      }),
    );

    test(
      "that is given back is due at once, its tries as before",
      withStore(async (fixture) => {
        const { store } = fixture;
        await backlog(fixture, 2, endpointOf("we_1"));
        const jobs = await claimAll(store);
        await store.events.releaseEvents(jobs);
        const again = await claimAll(store);
        expect(new Set(again.map(({ event }) => event.id))).toEqual(new Set(jobs.map(({ event }) => event.id)));
        expect(again.map(({ tries }) => tries)).toEqual([0, 0]);
      }),
    );

    test(
      "of one endpoint does not keep out another's",
      withStore(async (fixture) => {
        const { store } = fixture;
        await backlog(fixture, 9, endpointOf("we_1"));
        await backlog(fixture, 2, endpointOf("we_2"));
        const jobs = await claimAll(store, { perEndpointMax: 3 });
        expect(jobs.map(({ endpoint }) => endpoint.id).toSorted()).toEqual([..."111", ..."22"].map((i) => `we_${i}`));
        expect((await claimAll(store, { busy: ["we_1"] })).length).toBe(0);
        expect((await claimAll(store, { busy: ["we_2"] })).length).toBe(8);
      }),
    );

    test(
      "of an endpoint that is disabled or removed is dropped",
      withStore(async (fixture) => {
        const { store } = fixture;
        await backlog(fixture, 3, endpointOf("we_1"), endpointOf("we_2"));
        await store.events.changeEndpoint("we_1", (found, now) => disabled(found, "operator", now));
        await store.events.removeEndpoint("we_2");
        expect(await claimAll(store)).toEqual([]);
        expect(await store.events.nextEventDue()).toBeUndefined();
      }),
    );

    test(
      "of a tenant that is disabled is dropped, and those of others are not",
      withStore(async (fixture) => {
        const { store } = fixture;
        await store.registry.changeTenant("acme", () => ({ keep: { settings: "{}", disableMs: null }, result: 0 }));
        await added(store, endpointOf("we_acme", { tenant: "acme" }));
        await createActs(store, fixture.system, ringOf(1), testPolicy, true).send(ann, { tenant: "acme" });
        await backlog(fixture, 2, endpointOf("we_1"));
        await store.registry.changeTenant("acme", () => ({ keep: { settings: "{}", disableMs: 5 }, result: 0 }));
        expect((await claimAll(store)).map(({ endpoint }) => endpoint.id)).toEqual(["we_1", "we_1"]);
        expect(await waiting(store)).toEqual({ we_1: 2, we_acme: 0 });
      }),
    );

    test(
      "beyond the backlog is dropped, the oldest first",
      withStore(async (fixture) => {
        const { store } = fixture;
        await backlog(fixture, 6, endpointOf("we_1"));
        await backlog(fixture, 3, endpointOf("we_2"));
        expect([await store.events.longBacklogs(9), await store.events.longBacklogs(4)]).toEqual([[], ["we_1"]]);
        expect(await store.events.trimEvents("we_1", 20, 100)).toEqual({ all: 0, live: 0 });
        expect(await store.events.trimEvents("we_1", 4, 3)).toEqual({ all: 3, live: 3 });
        // Two who cut it at the same moment cut it once.
        const trims = [1, 2].map(() => store.events.trimEvents("we_1", 4, 100));
        const cut = (await Promise.all(trims)).map(({ all }) => all);
        expect(cut.toSorted((a, b) => a - b)).toEqual([0, 2]);
        expect(await waiting(store)).toEqual({ we_1: 4, we_2: 3 });
        const kept = (await claimAll(store)).filter(({ endpoint }) => endpoint.id === "we_1");
        const ages = kept.map(({ event }) => store.now() - event.createMs);
        expect(Math.max(...ages)).toBe(4);
      }),
    );

    test(
      "of a test key is dropped before any other",
      withStore(async (fixture) => {
        const { store, system } = fixture;
        await backlog(fixture, 4, endpointOf("we_1"));
        const acts = createActs(store, system, ringOf(1), testPolicy, true);
        for (let i = 0; i < 2; i++) await acts.send(ann, { tenant: "default+test" });
        expect(await store.events.trimEvents("we_1", 4, 100)).toEqual({ all: 2, live: 0 });
        expect((await claimAll(store)).map(({ event }) => event.facts["test"])).toEqual(Array(4).fill(false));
      }),
    );
  });
}
