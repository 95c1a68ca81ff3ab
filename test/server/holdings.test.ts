/** Who pays when strangers hold too much. */
import { beforeEach, expect, test, vi } from "vitest";
import { createHoldings, type Holdings } from "../../src/server/listener/holdings.ts";

interface Stranger {
  readonly name: string;
}
let gone: string[];
let waiting: Set<string>;
let holdings: Holdings<Stranger>;
beforeEach(() => {
  gone = [];
  waiting = new Set();
  holdings = createHoldings<Stranger>({
    bytesMax: 1_000,
    mayGo: ({ name }) => !waiting.has(name),
    evict: ({ name }) => gone.push(name),
  });
});

const stranger = (name: string) => ({ name });

test("nobody pays as long as all of it is within the budget", () => {
  holdings.add(stranger("a"), "192.0.2.1", 600);
  holdings.add(stranger("b"), "192.0.2.2", 400);
  expect([gone, holdings.bytes]).toEqual([[], 1_000]);
});

test("the address that holds the most pays, with what holds the most", () => {
  holdings.add(stranger("small"), "192.0.2.1", 100);
  holdings.add(stranger("large"), "192.0.2.1", 500);
  holdings.add(stranger("neighbour"), "192.0.2.2", 401);
  expect(gone).toEqual(["large"]);
  expect(holdings.bytes).toBe(501);
});

test("of those who hold as much the oldest go, and no more than it takes", () => {
  for (let i = 0; i < 10; i += 1) holdings.add(stranger(`${i}`), "192.0.2.1", 100);
  holdings.add(stranger("other"), "192.0.2.2", 1);
  expect(gone).toEqual(["0", "1"]);
});

test("addresses that hold as much pay in turn, down to the same", () => {
  for (const address of ["192.0.2.1", "192.0.2.2"])
    for (let i = 0; i < 10; i += 1) holdings.add(stranger(address), address, 51);
  expect(new Set(gone)).toEqual(new Set(["192.0.2.1", "192.0.2.2"]));
  expect(holdings.bytes).toBeLessThanOrEqual(875);
});

test("what is given back, and who has left, count no more", () => {
  const [a, b] = [stranger("a"), stranger("b")];
  holdings.add(a, "192.0.2.1", 900);
  holdings.add(a, "192.0.2.1", -500);
  holdings.add(b, "192.0.2.1", 500);
  holdings.remove(b, "192.0.2.1");
  holdings.remove(b, "192.0.2.1");
  holdings.add(stranger("c"), "192.0.2.1", 600);
  expect([gone, holdings.bytes]).toEqual([[], 1_000]);
});

test("nobody pays who waits for us, or for whoever does", () => {
  waiting.add("waits");
  holdings.add(stranger("waits"), "192.0.2.1", 600);
  holdings.add(stranger("is idle"), "192.0.2.1", 10);
  holdings.add(stranger("goes"), "192.0.2.2", 550);
  expect([gone, holdings.bytes]).toEqual([[], 1_160]);
  holdings.add(stranger("late"), "192.0.2.3", 450);
  expect([gone, holdings.bytes]).toEqual([["goes"], 1_060]);
  waiting.clear();
  holdings.makeRoom();
  expect(gone).toEqual(["goes", "waits"]);
});

test("whoever has less than an equal part does not pay for those who have more and wait for us", () => {
  waiting.add("waits");
  holdings.add(stranger("honest"), "192.0.2.2", 100);
  holdings.add(stranger("waits"), "192.0.2.1", 2_000);
  expect(gone).toEqual([]);
});

test.each([
  ["has the most", 10_000, 900],
  ["has a little less", 850, 900],
])("whoever has much does not pay for an address of which nothing may go, and which %s", (_, staying, budget) => {
  waiting.add("waits");
  for (let i = 0; i < 90; i += 1) holdings.add(stranger(`neighbour ${i}`), `192.0.2.${i}`, 1);
  for (let had = 0; had < staying; had += 50) holdings.add(stranger("waits"), "203.0.113.1", 50);
  for (let had = 0; had < budget; had += 20) holdings.add(stranger("of an office"), "198.51.100.1", 20);
  holdings.makeRoom();
  expect(gone).toEqual([]);
  // The others still have the whole budget between them, and no more.
  for (let i = 0; i < 20; i += 1) holdings.add(stranger("of an office"), "198.51.100.1", 20);
  expect(gone.length).toBeGreaterThan(0);
  expect(holdings.bytes).toBeLessThanOrEqual(staying + 1_000);
});

test("a look at many addresses of which none may go sorts each of them once", () => {
  for (let i = 0; i < 2_000; i += 1) {
    waiting.add(`${i}`);
    holdings.add(stranger(`${i}`), `address ${i}`, 1);
  }
  const sort = vi.spyOn(Array.prototype, "toSorted");
  holdings.makeRoom();
  const sorted = sort.mock.contexts.reduce<number>((sum, it) => sum + (it as unknown[]).length, 0);
  sort.mockRestore();
  // Among the others, and what it has.
  expect(sorted).toBe(2_000);
  expect(gone).toEqual([]);
});
