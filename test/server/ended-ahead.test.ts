/** Clients who have ended their side while they wait for their turn: each address has a few of them. */
import { Socket } from "node:net";
import { expect, test } from "vitest";
import { createConnection, type Connection } from "../../src/server/listener/connection.ts";
import { createEndedAhead } from "../../src/server/listener/ended-ahead.ts";

const endedMax = 64;

const of = (address: string) => createConnection(new Socket(), undefined, address, 0, 0);
const many = (address: string, count: number) => Array.from({ length: count }, () => of(address));
const isGone = ({ socket }: Connection) => socket.destroyed;

test("the one that has waited longest makes room for the next of its address, and nobody else's does", () => {
  const ended = createEndedAhead();
  const other = of("192.0.2.2");
  ended.add(other);
  const crowd = many("192.0.2.1", endedMax);
  for (const each of crowd) ended.add(each);
  expect([other, ...crowd].filter(isGone)).toEqual([]);
  ended.add(of("192.0.2.1"));
  expect([other, ...crowd].filter(isGone)).toEqual([crowd[0]]);
});

test("who is told of twice counts once, and whose turn has come no more", () => {
  const ended = createEndedAhead();
  const crowd = many("192.0.2.1", endedMax);
  for (const each of [...crowd, ...crowd]) ended.add(each);
  for (const each of crowd.slice(0, 2)) ended.remove(each);
  const next = many("192.0.2.1", 2);
  for (const each of next) ended.add(each);
  expect([...crowd, ...next].filter(isGone)).toEqual([]);
  ended.add(of("192.0.2.1"));
  expect([...crowd, ...next].filter(isGone)).toEqual([crowd[2]]);
});

test("networks of IPv6 that share their first 48 bits are one", () => {
  const ended = createEndedAhead();
  const crowd = Array.from({ length: endedMax + 1 }, (_, i) => of(`2001:db8:1:${i.toString(16)}::/64`));
  for (const each of crowd) ended.add(each);
  expect(crowd.filter(isGone)).toEqual([crowd[0]]);
});
