/**
 * The store's contract: operators find verifications by phone, id and time, the newest first, a page at a time.
 */
import { describe, expect, test } from "vitest";
import { phoneIndex } from "../../src/otp/phone-number.ts";
import type { FoundPage, RowKey, Sought } from "../../src/store/finding.ts";
import { ann, ben, createActs, ringOf } from "./acts.ts";
import type { WithStore } from "./contract.ts";

const always: Sought = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };

/** The ids of all pages, one list for each. */
async function pages(next: (after: RowKey | undefined) => Promise<FoundPage>): Promise<string[][]> {
  const found: string[][] = [];
  let after: RowKey | undefined;
  do {
    const page = await next(after);
    found.push(page.verifications.map(({ id }) => id));
    after = page.next;
  } while (after !== undefined);
  return found;
}

export function findingCases(withStore: WithStore): void {
  describe("a search", () => {
    test(
      "by time goes through all pages once, the newest first, also where many were opened in one moment",
      withStore(async ({ store, acts, system }) => {
        const ids: string[] = [];
        for (let i = 0; i < 9; i++) {
          if (i % 3 === 0) system.advance(1_000);
          ids.push((await acts.send(i % 2 === 0 ? ann : ben)).verification.id);
        }
        const byTime = (max: number, rowsMax: number, sought: Partial<Sought> = {}) =>
          pages((after) => store.finding.findByTime({ ...always, ...sought, after }, { max, rowsMax }));
        const all = await byTime(100, 100);
        const moments = all.flat().map((id) => Math.floor(ids.indexOf(id) / 3));
        expect(moments).toEqual([2, 2, 2, 1, 1, 1, 0, 0, 0]);
        expect((await byTime(2, 100)).flat()).toEqual(all.flat());
        expect((await byTime(4, 4)).flat()).toEqual(all.flat());
        const between = { fromMs: system.now() - 1_000, toMs: system.now() };
        expect((await byTime(2, 100, between)).flat()).toEqual(all.flat().slice(3, 6));
      }),
    );

    test(
      "looks at no more rows than it may, and tells where to go on",
      withStore(async ({ store, acts }) => {
        const { verification } = await acts.send(ann, { tenant: "default" });
        for (let i = 0; i < 5; i++) await acts.send(ben, { tenant: "other" });
        const sought = { ...always, tenants: ["default"] };
        const found = await pages((after) => store.finding.findByTime({ ...sought, after }, { max: 3, rowsMax: 2 }));
        expect(found.flat()).toEqual([verification.id]);
        expect(found.length).toBeGreaterThanOrEqual(3);
        const both = { ...always, tenants: ["default", "other"] };
        expect((await store.finding.findByTime(both, { max: 9, rowsMax: 9 })).verifications).toHaveLength(6);
      }),
    );

    test(
      "by state takes a pending one for expired once its time is over, whether a sweep was there or not",
      withStore(async ({ store, acts, system }) => {
        const old = (await acts.send(ann)).verification;
        system.advance(acts.policy.ttlMs);
        const young = (await acts.send(ben)).verification;
        const done = (await acts.send(ben)).verification;
        await acts.guess(done, acts.rightCode(done));
        const ids = async (sought: Partial<Sought>) =>
          (await store.finding.findByTime({ ...always, ...sought }, { max: 9, rowsMax: 9 })).verifications.map(
            ({ id }) => id,
          );
        expect(await ids({ state: "EXPIRED" })).toEqual([old.id]);
        expect(await ids({ state: "PENDING" })).toEqual([young.id]);
        expect(await ids({ state: "VERIFIED" })).toEqual([done.id]);
        while ((await store.sweep(10, acts.policy.retentionMs)).more);
        expect(await ids({ state: "EXPIRED" })).toEqual([old.id]);
      }),
    );

    test(
      "by phone finds it under each master key, at all tenants whose indexes are asked for",
      withStore(async ({ store, system, acts }) => {
        const [before, now] = [createActs(store, system, ringOf(1)), createActs(store, system, ringOf(2, 1))];
        const ids: string[] = [];
        for (const one of [before, now]) {
          for (const tenant of ["default", "other"]) {
            system.advance(1);
            ids.unshift((await one.send(ann, { tenant })).verification.id);
            await one.send(ben, { tenant });
          }
        }
        const indexes = ["default", "other"].flatMap((tenant) =>
          now.keys.all.map((key) => phoneIndex(key, tenant, ann)),
        );
        // As many as there may be at a time, and more.
        const padded = [...Array.from({ length: 40 }, (_, i) => Buffer.alloc(16, i)), ...indexes];
        const find = (max: number) => pages((after) => store.finding.findByPhone(padded, { ...always, after }, max));
        expect((await find(10)).flat()).toEqual(ids);
        expect((await find(2)).flat()).toEqual(ids);
        expect(acts.keys.all).toHaveLength(1);
      }),
    );

    test(
      "by id takes the first 12 characters or all",
      withStore(async ({ store, acts }) => {
        const { id } = (await acts.send(ann)).verification;
        await acts.send(ann);
        const ids = async (start: string) => (await store.finding.findById(start)).map((each) => each.id);
        expect(await ids(id)).toEqual([id]);
        expect(await ids(id.slice(0, 12))).toEqual([id]);
        expect(await ids("AAAAAAAAAAAA")).toEqual([]);
      }),
    );
  });
}
