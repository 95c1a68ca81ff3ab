/**
 * The store's contract, third part: what time does (the sweep), API keys, and the store's own life.
 */
import { describe, expect, test } from "vitest";
import type { ApiKey } from "../../src/otp/keys/api-key.ts";
import { idempotencyClaim, newRecord } from "../../src/otp/verification/idempotency.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { StoreUnavailable, type Store, type Swept } from "../../src/store/store.ts";
import { logOf } from "../support/data/examples.ts";
import { ann, ben, createActs } from "./acts.ts";
import type { WithStore } from "./contract.ts";

const dayMs = 86_400_000;
export const retentionMs = 3 * dayMs;

/** Sweeps until there is no more to do, at most `rounds` times; resolves with what each sweep told. */
export async function sweepAll(store: Store, max: number, rounds: number): Promise<Swept[]> {
  const sweeps: Swept[] = [];
  do sweeps.push(await store.sweep(max, retentionMs));
  while (sweeps.at(-1)?.more === true && sweeps.length < rounds);
  return sweeps;
}

export function upkeepCases(withStore: WithStore): void {
  describe("a sweep", () => {
    test(
      "ends what has lived its time as of that time, and erases its salt",
      withStore(async ({ store, acts, system }) => {
        const { verification } = await acts.send(ann);
        system.advance(600_000 - 1);
        expect(await store.sweep(10, retentionMs)).toMatchObject({ expired: 0 });
        expect(await acts.read(verification)).toEqual(verification);
        system.advance(5_001);
        expect(await store.sweep(10, retentionMs)).toMatchObject({ expired: 1 });
        expect(await acts.read(verification)).toEqual({
          ...verification,
          state: "EXPIRED",
          salt: null,
          endMs: verification.expireMs,
          log: logOf([0, "send", "sms"], [600_000, "end", "EXPIRED"]),
        });
      }),
    );

    test(
      "keeps what has ended for the retention, then deletes it with its messages",
      withStore(async ({ store, acts, system }) => {
        const job = await acts.send(ann);
        await acts.cancel(job.verification);
        system.advance(retentionMs - 1);
        await store.sweep(10, retentionMs);
        expect((await acts.read(job.verification)).state).toBe("CANCELED");
        system.advance(1);
        expect((await store.sweep(10, retentionMs)).deleted).toBeGreaterThan(0);
        expect(await store.readVerification("default", job.verification.id)).toBeUndefined();
        expect(await store.settleMessage(job.message, acts.phoneOf, () => ({ writes: {}, result: 1 }))).toBeUndefined();
        expect(await store.nextDue()).toBeUndefined();
      }),
    );

    test(
      "goes over a bounded number of rows and tells that there are more",
      withStore(async ({ store, acts, system }) => {
        for (let i = 0; i < 7; i++) await acts.send(`+3161000000${i}` as E164);
        system.advance(600_000);
        const sweeps = await sweepAll(store, 3, 20);
        expect(sweeps.map(({ expired }) => expired).slice(0, 3)).toEqual([3, 3, 1]);
        expect(sweeps.at(-1)?.more).toBe(false);
        system.advance(retentionMs);
        expect((await store.sweep(3, retentionMs)).deleted).toBeLessThanOrEqual(12);
        const ended = await sweepAll(store, 3, 20);
        expect(ended.at(-1)?.more).toBe(false);
        expect(await acts.phone("+31610000000" as E164)).toMatchObject({ tats: [0, 0] });
      }),
    );

    test(
      "that finds as much as it may go over tells that there is more, whatever it found",
      withStore(async ({ store, acts, system }) => {
        for (let i = 0; i < 4; i++) await acts.send(ann);
        system.advance(600_000);
        expect((await sweepAll(store, 3, 10)).map(({ expired }) => expired)).toEqual([3, 1]);
        system.advance(retentionMs);
        const sweeps = await sweepAll(store, 3, 10);
        expect(sweeps.map(({ more }) => more)).toEqual([true, false]);
        expect(await store.listVerifications(acts.refOf(ann).indexes, 10)).toEqual([]);
      }),
    );

    test(
      "comes to an end however long each table is, and begins anew the next time",
      withStore(async ({ store, acts, system, bucketRows }) => {
        // 12 buckets and 5 phones with a past, where those have rows of their own, 7 records, one minute of guesses: were each
        // gone through again and again by itself, the ends of all three would meet after 7 · 3 · 4 sweeps.
        const phones = Array.from({ length: 5 }, (_, i) => `+3161000000${i}` as E164);
        for (const phone of phones) {
          const { verification } = await acts.send(phone);
          await acts.guess(verification, acts.wrongCode(verification));
        }
        for (let i = 0; i < 7; i++) {
          const scope = { tenant: "default", keyId: "key", rpc: "SendOtp", key: String(i) } as const;
          await acts.send(ann, { claim: idempotencyClaim(acts.keys, scope, []) });
        }
        const first = await sweepAll(store, 2, 50);
        const second = await sweepAll(store, 2, 50);
        expect([first.at(-1)?.more, second.at(-1)?.more]).toEqual([false, false]);
        const length = Math.floor(Math.max(6 * bucketRows, 7) / 2) + 1;
        expect([first.length, second.length]).toEqual([length, length]);
        expect([...first, ...second].every(({ deleted }) => deleted === 0)).toBe(true);
        system.advance(2 * dayMs);
        expect((await sweepAll(store, 2, 50)).reduce((sum, { deleted }) => sum + deleted, 0)).toBe(
          6 * bucketRows + 7 + 1,
        );
      }),
    );

    test(
      "that is no round leaves what is not found by its time, and does not move the round on",
      withStore(async ({ store, acts, system, bucketRows }) => {
        const { verification } = await acts.send(ann);
        await acts.send(ben);
        for (const key of ["0", "1", "2", "3"]) {
          const claim = idempotencyClaim(acts.keys, { tenant: "default", keyId: "key", rpc: "SendOtp", key }, []);
          await store.openVerification({ tenant: "default", slot: claim.slot, phone: undefined }, ({ now }) => ({
            writes: { record: newRecord(claim, verification.id, { at: now }, now) },
            result: undefined,
          }));
        }
        system.advance(dayMs);
        expect((await store.sweep(2, retentionMs)).more).toBe(true);
        expect(await store.sweep(2, retentionMs, acts.phoneOf, "found by time")).toMatchObject({
          deleted: 0,
          more: false,
        });
        expect((await acts.read(verification)).state).toBe("EXPIRED");
        expect((await sweepAll(store, 2, 10)).reduce((sum, { deleted }) => sum + deleted, 0)).toBe(2 + bucketRows);
      }),
    );

    test(
      "forgets a bucket once it is full, a past once nothing of it counts, a record once it is over",
      withStore(async ({ store, acts, system }) => {
        const scope = { tenant: "default", keyId: "key", rpc: "SendOtp", key: "once" } as const;
        const claim = idempotencyClaim(acts.keys, scope, []);
        const { verification } = await acts.send(ann, { claim });
        await acts.guess(verification, acts.wrongCode(verification));
        const sentMs = system.now();
        const sweepAt = async (ms: number) => {
          system.advance(sentMs + ms - system.now());
          await sweepAll(store, 10, 10);
          const { tats: all, history } = await acts.phone(ann);
          // One whose moment has passed means the same as none.
          const tats = all.map((tatMs) => (tatMs > system.now() ? tatMs : 0));
          const record = await store.openVerification(
            { tenant: "default", slot: claim.slot, phone: undefined },
            (view) => ({
              writes: {},
              result: view.record,
            }),
          );
          return { tats, wrongCodes: history.wrongCodes.length, record: record !== undefined };
        };
        const tats = [sentMs + 1_000, sentMs + 60_000];
        expect(await sweepAt(999)).toEqual({ tats, wrongCodes: 1, record: true });
        expect(await sweepAt(1_000)).toEqual({ tats: [0, tats[1]], wrongCodes: 1, record: true });
        expect(await sweepAt(60_000)).toEqual({ tats: [0, 0], wrongCodes: 1, record: true });
        expect(await sweepAt(dayMs - 1)).toMatchObject({ record: true });
        expect(await sweepAt(dayMs)).toEqual({ tats: [0, 0], wrongCodes: 1, record: false });
        expect(await sweepAt(89 * dayMs)).toMatchObject({ wrongCodes: 1 });
        expect(await sweepAt(90 * dayMs)).toMatchObject({ wrongCodes: 0 });
      }),
    );
  });

  describe("API keys", () => {
    const unused = { revokeMs: null, lastUseMs: null, lastRefuseMs: null };
    const key: ApiKey = {
      id: "0123456789",
      kind: "live",
      tenant: "default",
      name: "shop – winkel",
      scopes: ["send", "verify"],
      origins: [],
      isApp: false,
      channels: ["sms"],
      digest: Buffer.alloc(32, 5),
      createMs: 1_000,
      expireMs: 9_000,
      ...unused,
    };

    test(
      "are found as they were added, listed oldest first, and others are not found",
      withStore(async ({ store, reopen }) => {
        const newer: ApiKey = { ...key, id: "0000000000", createMs: 2_000, expireMs: null, scopes: ["read", "cancel"] };
        await store.registry.addApiKey(newer);
        await store.registry.addApiKey(key);
        expect(await store.registry.findApiKey(key.id)).toEqual({ ...key, tenantsRevision: 0 });
        expect(await store.registry.findApiKey("9999999999")).toBeUndefined();
        expect(await (await reopen()).registry.listApiKeys()).toEqual([key, newer]);
      }),
    );

    test(
      "written by one process count at once in another",
      withStore(async ({ store, beside }) => {
        const other = await beside();
        await other.registry.addApiKey(key);
        expect(await store.registry.findApiKey(key.id)).toEqual({ ...key, tenantsRevision: 0 });
        expect(await other.registry.revokeApiKey(key.id, 5_000)).toBe(true);
        expect((await store.registry.findApiKey(key.id))?.revokeMs).toBe(5_000);
      }),
    );

    test(
      "revoked twice keep the first time; an unknown one is told",
      withStore(async ({ store }) => {
        await store.registry.addApiKey(key);
        expect(await store.registry.findApiKey(key.id)).toEqual({ ...key, tenantsRevision: 0 });
        expect(await store.registry.revokeApiKey(key.id, 5_000)).toBe(true);
        expect(await store.registry.revokeApiKey(key.id, 6_000)).toBe(true);
        expect((await store.registry.findApiKey(key.id))?.revokeMs).toBe(5_000);
        expect(await store.registry.revokeApiKey("9999999999", 5_000)).toBe(false);
      }),
    );

    test(
      "list their origins until they are revoked or expire, and what one lists another may list too",
      withStore(async ({ store, beside }) => {
        const [shop, forum] = ["https://shop.example", "http://localhost:5173"];
        const page: ApiKey = { ...key, kind: "pub", origins: [shop, forum], isApp: true };
        const other: ApiKey = { ...key, id: "1111111111", kind: "pubtest", expireMs: null, origins: [shop] };
        const listed = (now: number) =>
          Promise.all(
            [shop, forum, "https://SHOP.example", ""].map((origin) => store.registry.listsOrigin(origin, now)),
          );
        expect(await listed(5_000)).toEqual([false, false, false, false]);
        const cli = await beside();
        await cli.registry.addApiKey(page);
        await cli.registry.addApiKey(other);
        expect(await store.registry.findApiKey(page.id)).toEqual({ ...page, tenantsRevision: 0 });
        expect(await listed(8_999)).toEqual([true, true, false, false]);
        expect(await listed(9_000)).toEqual([true, false, false, false]);
        await cli.registry.revokeApiKey(other.id, 5_000);
        expect(await listed(5_000)).toEqual([true, true, false, false]);
        await cli.registry.revokeApiKey(page.id, 5_000);
        expect(await listed(5_000)).toEqual([false, false, false, false]);
        expect((await store.registry.findApiKey(page.id))?.origins).toEqual([shop, forum]);
      }),
    );

    test(
      "remember when they were last used",
      withStore(async ({ store }) => {
        await store.registry.addApiKey(key);
        await store.registry.touchApiKey(key.id, 7_000);
        expect((await store.registry.findApiKey(key.id))?.lastUseMs).toBe(7_000);
      }),
    );

    test(
      "cannot take another's id, and say so as a bug, not as an outage",
      withStore(async ({ store }) => {
        await store.registry.addApiKey(key);
        const outcome = store.registry.addApiKey({ ...key, name: "intruder", digest: Buffer.alloc(32, 6) });
        await expect(outcome).rejects.not.toBeInstanceOf(StoreUnavailable);
        expect(await store.registry.findApiKey(key.id)).toEqual({ ...key, tenantsRevision: 0 });
      }),
    );
  });

  describe("the store", () => {
    test(
      "answers a ping while it takes writes, and StoreUnavailable to everything once it is closed",
      withStore(async ({ alone, system }) => {
        const store = await alone();
        const acts = createActs(store, system);
        await expect(store.ping()).resolves.toBeUndefined();
        const { verification } = await acts.send(ann);
        await store.close();
        await expect(store.ping()).rejects.toBeInstanceOf(StoreUnavailable);
        await expect(acts.send(ann)).rejects.toBeInstanceOf(StoreUnavailable);
        await expect(acts.read(verification)).rejects.toBeInstanceOf(StoreUnavailable);
        await expect(store.nextDue()).rejects.toBeInstanceOf(StoreUnavailable);
      }),
    );

    test(
      "finishes what was begun before it closes",
      withStore(async ({ store, alone, system }) => {
        const closing = await alone();
        const acts = createActs(closing, system);
        const sends = Array.from({ length: 300 }, () => acts.send(ann));
        await closing.close();
        const sent = await Promise.all(sends);
        const found = await Promise.all(sent.map(({ verification: v }) => store.readVerification(v.tenant, v.id)));
        expect(found.filter((v) => v?.state === "PENDING")).toHaveLength(300);
      }),
    );

    test(
      "does not open a database that a newer version wrote",
      withStore(async ({ markNewer, alone }) => {
        await markNewer();
        await expect(alone()).rejects.toThrow("newer version");
      }),
    );
  });
}
