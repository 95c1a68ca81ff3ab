/**
 * Who of the strangers goes: the book of them against one that looks at everybody each time, and what an act on it costs.
 */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { createStrangers } from "../../src/server/listener/strangers.ts";

interface Stranger {
  readonly name: number;
  readonly address: string;
  isBusy: boolean;
  isNew: boolean;
  isOwed: boolean;
  /** When it came to be idle or busy. */
  since: number;
}

const rules = {
  isNewcomer: ({ isNew }: Stranger) => isNew,
  isOwed: ({ isOwed }: Stranger) => isOwed,
};
const bySince = (a: Stranger, b: Stranger) => a.since - b.since;

/** All who may go, by the letter: of the addresses that have most, the one that goes first. */
function leavers(all: readonly Stranger[], isFull: boolean): (Stranger | undefined)[] {
  const groups = Object.values(Object.groupBy(all, ({ address }) => address)).filter((group) => group !== undefined);
  const most = Math.max(0, ...groups.map(({ length }) => length));
  if (most === 0 || (!isFull && most <= 8)) return [undefined];
  return groups
    .filter(({ length }) => length === most)
    .map((group) => {
      const [oldest] = group.filter(({ isBusy }) => !isBusy).toSorted(bySince);
      if (!isFull) return oldest?.isNew === true ? undefined : oldest;
      const waiting = group.filter((one) => one.isBusy && !one.isOwed).toSorted(bySince);
      return oldest ?? waiting[0];
    });
}

const act = fc.tuple(fc.constantFrom("add", "add", "add", "remove", "busy", "idle"), fc.nat(999), fc.nat(3));

test("whoever goes is the oldest idle stranger of the address that has most, whatever came before", () => {
  fc.assert(
    fc.property(fc.array(act, { maxLength: 200 }), fc.array(fc.boolean()), (acts, isOwed) => {
      const book = createStrangers<Stranger>(rules);
      const all: Stranger[] = [];
      for (const [now, [what, pick, address]] of acts.entries()) {
        const one = all[pick % Math.max(1, all.length)];
        if (what === "add") {
          const added = {
            name: now,
            address: `192.0.2.${address % 3}`,
            isBusy: false,
            isNew: pick % 5 === 0,
            // At most as many as are looked at, so that the book and the letter have to agree.
            isOwed: isOwed[now] === true && all.filter((other) => other.isOwed).length < 7,
            since: now,
          };
          all.push(added);
          book.add(added, added.address);
        } else if (one !== undefined && what === "remove") {
          all.splice(all.indexOf(one), 1);
          book.remove(one);
          book.remove(one);
        } else if (one !== undefined) {
          if (what === "busy" && !one.isBusy) Object.assign(one, { isBusy: true, since: now });
          if (what === "idle") Object.assign(one, { isBusy: false, since: now });
          if (what === "busy") book.becameBusy(one);
          else book.becameIdle(one);
        }
        for (const isFull of [false, true]) expect(leavers(all, isFull)).toContain(book.leaver({ isFull }));
      }
    }),
    { numRuns: 500 },
  );
});

test("who is not in the book is left alone", () => {
  const book = createStrangers<Stranger>(rules);
  const nobody: Stranger = { name: 0, address: "192.0.2.1", isBusy: false, isNew: false, isOwed: false, since: 0 };
  book.becameBusy(nobody);
  book.becameIdle(nobody);
  book.remove(nobody);
  expect(book.leaver({ isFull: true })).toBeUndefined();
});

test("an address whose every stranger is owed an answer gives nobody, and not all of them are looked at", () => {
  let looks = 0;
  const book = createStrangers<number>({
    isNewcomer: () => false,
    isOwed: (member) => {
      looks += 1;
      return member !== 9_999;
    },
  });
  for (let i = 0; i < 10_000; i += 1) {
    book.add(i, "192.0.2.1");
    book.becameBusy(i);
  }
  expect(book.leaver({ isFull: true })).toBeUndefined();
  expect(looks).toBe(8);
  // Those that were looked at are not looked at again before the others.
  let found: number | undefined;
  for (let i = 0; i < 1_250 && found === undefined; i += 1) found = book.leaver({ isFull: true });
  expect(found).toBe(9_999);
});
