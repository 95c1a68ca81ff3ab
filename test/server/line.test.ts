/** Who waits to be read from is found in turn, and who has left is not kept. */
import type { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { createConnection, type Connection } from "../../src/server/listener/connection.ts";
import { createLine, type Line } from "../../src/server/listener/line.ts";

const come = (address = "192.0.2.1") => createConnection({} as Socket, undefined, address, 0, 0);

function take(line: Line): Connection | undefined {
  const next = line.next();
  if (next !== undefined) line.remove(next);
  return next;
}

test("addresses are read from in turn, and of each the latest newcomer and those of both kinds that wait for longest", () => {
  const line = createLine();
  const [a, b] = [[come("a"), come("a"), come("a")], [come("b")]];
  const waited = [come("a"), come("a")];
  for (const each of waited) line.add(each);
  for (const each of [...a, ...b]) line.addFresh(each);
  const order = Array.from({ length: 7 }, () => take(line));
  expect(order).toEqual([a[2], b[0], waited[0], a[0], a[1], waited[1], undefined]);
});

test("of those that were read from before, who has sent something waits for few of those that are silent", () => {
  const line = createLine();
  const silent = Array.from({ length: 1_000 }, () => come());
  const fresh = Array.from({ length: 100 }, () => come());
  const sent = come();
  for (const each of [...silent, sent]) line.add(each);
  for (const each of fresh) line.addFresh(each);
  line.came(sent);
  const order = Array.from({ length: 12 }, () => take(line));
  expect(order.indexOf(sent)).toBeLessThan(6);
  // And they have turns beside those that go on sending.
  expect(order.filter((each) => each !== undefined && silent.includes(each)).length).toBeGreaterThan(1);
  for (const each of [...silent, ...fresh]) line.remove(each);
  expect([line.size, take(line)]).toEqual([0, undefined]);
});

test("those that left before their turn are passed over, wherever they stood", () => {
  for (let left = 0; left < 2 ** 6; left += 1) {
    const line = createLine();
    const all = Array.from({ length: 6 }, () => come());
    for (const each of all) line.addFresh(each);
    const stay = all.filter((_, i) => (left & (1 << i)) === 0);
    for (const each of all) if (!stay.includes(each)) line.remove(each);
    expect(line.size).toBe(stay.length);
    // The latest, and then two of those that wait for longest.
    const rest = [...stay];
    const order = stay.map((_, i) => (i % 3 === 0 ? rest.pop() : rest.shift()));
    expect(Array.from({ length: stay.length + 1 }, () => take(line))).toEqual([...order, undefined]);
  }
});

test("of 1,000 that came and closed while others wait, no more are kept than wait", async () => {
  const line = createLine();
  for (let i = 0; i < 10; i += 1) line.addFresh(come());
  const closed = Array.from({ length: 1_000 }, () => {
    const one = come();
    line.addFresh(one);
    return one;
  });
  // Beside one more that comes before each of them closes, none of them is the latest.
  for (const one of closed) {
    const later = come();
    line.addFresh(later);
    line.remove(one);
    line.remove(later);
  }
  const refs = closed.splice(0).map((one) => new WeakRef(one));
  await nextTurn();
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  setFlagsFromString("--no-expose-gc");
  expect(refs.filter((ref) => ref.deref() !== undefined).length).toBeLessThanOrEqual(10);
  expect(line.size).toBe(10);
});
