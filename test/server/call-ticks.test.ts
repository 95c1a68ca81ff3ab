/** A call that takes too long is found by its tick, never early, and no call has a timer of its own. */
import type { Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createCallTicks } from "../../src/server/listener/call-ticks.ts";
import { createConnection } from "../../src/server/listener/connection.ts";
import type { Request } from "../../src/server/listener/exchange.ts";
import { callFrames, openRaw } from "../support/clients/raw.ts";
import { hello } from "../support/clients/strangers.ts";
import { startListener, testKey } from "../support/service/listener.ts";

const connection = createConnection({} as Socket, undefined, "192.0.2.1", 0, 0);
const come = () => ({}) as Request;

test("a call comes to its end after so many whole ticks, and those of another tick with another", () => {
  const ticks = createCallTicks(3);
  const [first, second, third] = [come(), come(), come()];
  const late = () => [...ticks.end()].map(([request]) => request);
  ticks.begin(connection, first);
  const ends = [late()];
  ticks.begin(connection, second);
  ticks.begin(connection, third);
  for (let i = 0; i < 5; i += 1) ends.push(late());
  expect(ends).toEqual([[], [], [], [first], [second, third], []]);
});

test("one that was answered in time comes to no end", () => {
  const ticks = createCallTicks(1);
  const [first, second] = [come(), come()];
  const calls = ticks.begin(connection, first);
  ticks.begin(connection, second);
  calls.delete(first);
  expect([...ticks.end()]).toEqual([]);
  expect([...ticks.end()]).toEqual([[second, connection]]);
});

test("100 calls under way have no timer among them", async () => {
  const listener = await startListener();
  onTestFinished(() => listener.stop());
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const client = await openRaw(listener.port);
  onTestFinished(() => client.destroy());
  listener.hang();
  client.write(...hello, callFrames(listener.port, 1, testKey));
  await listener.hanging(1);
  const before = timers();
  client.write(...Array.from({ length: 99 }, (_, i) => callFrames(listener.port, 2 * i + 3, testKey)));
  await listener.hanging(100);
  // Those of the test's own runner come and go.
  expect(timers() - before).toBeLessThan(10);
});
