/** How long a stop waits for connections that the system still has for it. */
import { spawnSync } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { expect, test } from "vitest";
import { createUntilQuiet, takeFewer, untilRead } from "../../src/server/listener/stop-steps.ts";

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

test("and where each has it stand still for a third of a second, it ends within seconds all the same", async () => {
  const listener = new EventEmitter();
  const untilQuiet = createUntilQuiet(listener as Server);
  const book = takeConnections(listener, Number.POSITIVE_INFINITY, 300);
  await untilQuiet();
  // Twenty steps were 40 to 60 of these, 12 to 18 s.
  expect(book.taken).toBeLessThan(30);
  listener.removeAllListeners();
  book.taken = Number.POSITIVE_INFINITY;
});

/** Opens 40 connections, and prints how many the system has taken. */
const opening = `
  let opened = 0;
  for (let i = 0; i < 40; i++) require("node:net").connect(Number(process.argv[1]), "127.0.0.1", () => opened++);
  let turns = 0;
  const onTurn = () => (++turns < 20 ? setImmediate(onTurn) : process.stdout.write(String(opened), () => process.exit()));
  onTurn();
`;

test("from its beginning on the system keeps next to no connections for us, which it would have to reset", async () => {
  const server = createServer().listen({ port: 0, host: "127.0.0.1", backlog: 4_096 });
  await once(server, "listening");
  takeFewer(server);
  const { port } = server.address() as AddressInfo;
  // This process stands still meanwhile, and takes none of them.
  const { stdout } = spawnSync(process.execPath, ["-e", opening, `${port}`], { encoding: "utf8" });
  server.close();
  expect(Number(stdout)).toBeGreaterThan(0);
  expect(Number(stdout)).toBeLessThan(5);
});

test("strangers who are never read from do not hold it up", async () => {
  let asked = 0;
  await untilRead(() => {
    asked += 1;
    // As a turn does that strangers have made long.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 30);
    return 1;
  });
  expect(asked).toBeLessThan(60);
});

test("nor do those who make each step last for a third of a second", async () => {
  let asked = 0;
  await untilRead(() => {
    asked += 1;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
    return 1;
  });
  expect(asked).toBeLessThan(15);
});

test("a process that stood still once, for however long, still reads what had come meanwhile", async () => {
  let asked = 0;
  await untilRead(() => {
    asked += 1;
    if (asked === 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000);
    return asked < 15 ? 1 : 0;
  });
  expect(asked).toBeGreaterThan(15);
});
