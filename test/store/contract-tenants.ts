/**
 * The store's contract, fourth part: tenants. They are kept apart in every act, and what is written of one is seen by
 * every process at its next look.
 */
import { describe, expect, test } from "vitest";
import { secretScopes } from "../../src/otp/keys/api-key.ts";
import { idempotencyClaim } from "../../src/otp/verification/idempotency.ts";
import { issueKey } from "../../src/service/callers/api-keys.ts";
import type { TenantDecided } from "../../src/store/registry.ts";
import { StoreUnavailable, type Store } from "../../src/store/store.ts";
import { testEpochMs } from "../support/service/system.ts";
import { ann, createActs, testPolicy } from "./acts.ts";
import type { WithStore } from "./contract.ts";

/** Keeps settings under a tenant's name, and makes it if there is none. */
function put(store: Store, id: string, settings = "{}", disableMs: number | null = null): Promise<void> {
  return store.registry.changeTenant(id, () => ({ keep: { settings, disableMs }, result: undefined }));
}

const namesAfter = async (store: Store, revision: number) =>
  (await store.registry.listTenants(revision)).map(({ id }) => id);

export function tenantCases(withStore: WithStore): void {
  describe("the list of tenants", () => {
    test(
      "begins with default, which has nothing of its own",
      withStore(async ({ store }) => {
        const first = { id: "default", settings: "{}", createMs: 0, disableMs: null, revision: 0 };
        expect(await store.registry.listTenants()).toEqual([first]);
        expect(await store.registry.findTenant("default")).toEqual(first);
        expect(await store.registry.findTenant("acme")).toBeUndefined();
        expect(await store.registry.tenantsRevision()).toBe(0);
      }),
    );

    test(
      "has the revision that a key's look-up tells with the key, whichever process wrote it",
      withStore(async ({ store, system, beside }) => {
        const spec = { kind: "live", tenant: "default", name: "", scopes: secretScopes, expireMs: null } as const;
        const { key } = await issueKey(store, system, spec);
        const other = await beside();
        const seen: unknown[] = [];
        for (const disableMs of [null, 1, null]) {
          await put(other, "default", "{}", disableMs);
          seen.push((await store.registry.findApiKey(key.id))?.tenantsRevision);
        }
        expect(seen).toEqual([1, 2, 3]);
      }),
    );

    test(
      "keeps what is decided, and when a tenant was made, across a change and a restart",
      withStore(async ({ store, system, reopen }) => {
        await put(store, "acme", '{"brand":"Acme"}');
        const made = await store.registry.findTenant("acme");
        expect(made).toMatchObject({ settings: '{"brand":"Acme"}', createMs: testEpochMs, disableMs: null });
        system.advance(1_000);
        await put(store, "acme", '{"brand":"Ümlaut “Acme”"}', 7);
        const changed = { id: "acme", settings: '{"brand":"Ümlaut “Acme”"}', createMs: testEpochMs, disableMs: 7 };
        expect(await store.registry.findTenant("acme")).toMatchObject(changed);
        const later = await reopen();
        expect(await later.registry.findTenant("acme")).toMatchObject(changed);
      }),
    );

    test(
      "has a revision that grows with every write, by which the later ones are found, the latest last",
      withStore(async ({ store }) => {
        const revisions = [await store.registry.tenantsRevision()];
        for (const id of ["b", "a", "default", "b"]) {
          await put(store, id);
          revisions.push(await store.registry.tenantsRevision());
        }
        expect(revisions).toEqual(revisions.toSorted((x, y) => x - y));
        expect(new Set(revisions).size).toBe(5);
        expect(await namesAfter(store, -1)).toEqual(["a", "default", "b"]);
        expect(await namesAfter(store, revisions[2] ?? 0)).toEqual(["default", "b"]);
        expect(await namesAfter(store, revisions[4] ?? 0)).toEqual([]);
      }),
    );

    test(
      "shows what another process wrote at the next look",
      withStore(async ({ store, beside }) => {
        const other = await beside();
        const before = await store.registry.tenantsRevision();
        await put(other, "acme", '{"brand":"Acme"}');
        const after = await store.registry.tenantsRevision();
        expect(after).toBeGreaterThan(before);
        expect(await store.registry.listTenants(before)).toEqual([await other.registry.findTenant("acme")]);
      }),
    );

    test(
      "is left as it was by a decision that keeps nothing",
      withStore(async ({ store }) => {
        const revision = await store.registry.tenantsRevision();
        expect(await store.registry.changeTenant("acme", () => ({ result: "no" }))).toBe("no");
        expect(await namesAfter(store, -1)).toEqual(["default"]);
        expect(await store.registry.tenantsRevision()).toBe(revision);
      }),
    );
  });

  describe("a change of a tenant", () => {
    test(
      "sees the tenant, how many there are, and the store's clock",
      withStore(async ({ store, system }) => {
        await put(store, "acme", '{"brand":"Acme"}');
        system.advance(5);
        const seen = await store.registry.changeTenant("acme", (view) => ({ result: view }));
        expect(seen).toEqual({ now: testEpochMs + 5, tenant: await store.registry.findTenant("acme"), count: 2 });
        const unknown = await store.registry.changeTenant("other", (view) => ({ result: view }));
        expect(unknown).toMatchObject({ tenant: undefined, count: 2 });
      }),
    );

    test(
      "is serial with every other: of two processes that add to the settings none is lost, and one alone makes it",
      withStore(async ({ store, beside }) => {
        const stores = [store, await beside()];
        const add = (through: Store, letter: string) =>
          through.registry.changeTenant("acme", ({ tenant }): TenantDecided<boolean> => {
            const keep = { settings: (tenant?.settings ?? "") + letter, disableMs: null };
            return { keep, result: tenant === undefined };
          });
        const made = await Promise.all([..."abcdefghijklmnopqrst"].map((x, i) => add(stores[i % 2] ?? store, x)));
        expect(made.filter(Boolean)).toHaveLength(1);
        const { settings = "" } = (await store.registry.findTenant("acme")) ?? {};
        expect([...settings].toSorted().join("")).toBe("abcdefghijklmnopqrst");
        expect(await store.registry.tenantsRevision()).toBe(20);
      }),
    );

    test(
      "is StoreUnavailable once the store is closed, and so is every look",
      withStore(async ({ alone }) => {
        const store = await alone();
        await store.close();
        await expect(put(store, "acme")).rejects.toBeInstanceOf(StoreUnavailable);
        await expect(store.registry.tenantsRevision()).rejects.toBeInstanceOf(StoreUnavailable);
        await expect(store.registry.listTenants()).rejects.toBeInstanceOf(StoreUnavailable);
        await expect(store.registry.findTenant("default")).rejects.toBeInstanceOf(StoreUnavailable);
      }),
    );
  });

  describe("two tenants", () => {
    test(
      "have nothing of each other's verifications, whatever is asked for by id",
      withStore(async ({ store, acts }) => {
        await put(store, "acme");
        const { verification } = await acts.send(ann, { tenant: "acme" });
        const stolen = { ...verification, tenant: "default" };
        expect(await store.readVerification("default", verification.id)).toBeUndefined();
        expect(await acts.guess(stolen, acts.rightCode(verification))).toBe("REQUEST_NOT_FOUND");
        expect(await acts.cancel(stolen)).toBe("REQUEST_NOT_FOUND");
        await expect(acts.resend(stolen)).rejects.toThrow("REQUEST_NOT_FOUND");
        expect(await acts.read(verification)).toEqual(verification);
      }),
    );

    test(
      "have limits, a past, a list and records of their own for one phone, of their own number of limits",
      withStore(async ({ store, system, acts: one }) => {
        await put(store, "acme");
        const policy = { ...testPolicy, phoneLimits: [{ burst: 1, intervalMs: 60_000 }] };
        const other = createActs(store, system, one.keys, policy);
        const theirs = { tenant: "acme" };
        const { verification } = await other.send(ann, theirs);
        expect(await other.trySend(ann, theirs)).toBe("PHONE_RATE_LIMITED");
        await other.guess(verification, other.wrongCode(verification));
        expect(await one.phone(ann)).toEqual({
          tats: [0, 0],
          history: { wrongCodes: [], refunds: [] },
          openAttempts: 0,
        });
        const mine = await one.send(ann);
        const listed = async (tenant: string) =>
          (await store.listVerifications(one.refOf(ann, { tenant }).indexes, 10)).map(({ id }) => id);
        expect(await listed("default")).toEqual([mine.verification.id]);
        expect(await listed("acme")).toEqual([verification.id]);

        const facts = { keyId: "key", rpc: "SendOtp", key: "same" } as const;
        const claimOf = (tenant: string) => idempotencyClaim(one.keys, { ...facts, tenant }, [ann]);
        expect(await one.trySend(ann, { claim: claimOf("default") })).toBe("opened");
        system.advance(60_000);
        expect(await other.trySend(ann, { ...theirs, claim: claimOf("acme") })).toBe("opened");
        expect(await other.trySend(ann, { ...theirs, claim: claimOf("acme") })).toBe("IDEMPOTENCY_IN_PROGRESS");

        await store.resetPhone(one.refOf(ann, theirs));
        expect((await one.phone(ann)).tats).not.toEqual([0, 0]);
      }),
    );
  });
}
