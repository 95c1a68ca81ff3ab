/** How long a stop waits for connections that the system still has for it. */
import { EventEmitter } from "node:events";
import type { Server } from "node:net";
import { expect, test } from "vitest";
import { createUntilQuiet } from "../../src/server/listener/stop-steps.ts";

/** Has a listener take so many connections, one in each turn, and stand still for so long with each. */
function takeConnections(listener: EventEmitter, count: number, stillMs: number): { taken: number } {
  const book = { taken: 0 };
  const take = () => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stillMs);
    book.taken += 1;
    listener.emit("connection");
    if (book.taken < count) setImmediate(take);
  };
  setImmediate(take);
  return book;
}

test("all that were waiting are taken, however long the process stands still meanwhile", async () => {
  const listener = new EventEmitter();
  const untilQuiet = createUntilQuiet(listener as Server);
  const book = takeConnections(listener, 12, 250);
  await untilQuiet();
  expect(book.taken).toBe(12);
});

test("callers who never stop to come do not hold it up", async () => {
  const listener = new EventEmitter();
  const untilQuiet = createUntilQuiet(listener as Server);
  const book = takeConnections(listener, Number.POSITIVE_INFINITY, 0);
  await untilQuiet();
  expect(book.taken).toBeGreaterThan(200);
  listener.removeAllListeners();
  book.taken = Number.POSITIVE_INFINITY;
});

test("nor do those with each of whom it stands still, as long as it would without them", async () => {
  const listener = new EventEmitter();
  const untilQuiet = createUntilQuiet(listener as Server);
  const book = takeConnections(listener, Number.POSITIVE_INFINITY, 30);
  await untilQuiet();
  // Two or three turns a step: 200 steps were 600 of these.
  expect(book.taken).toBeLessThan(150);
  listener.removeAllListeners();
  book.taken = Number.POSITIVE_INFINITY;
});
