/** How what strangers hold is looked at. */
import { Socket } from "node:net";
import { afterEach, expect, test, vi } from "vitest";
import { createConnection } from "../../src/server/listener/connection.ts";
import { createHeld } from "../../src/server/listener/held.ts";
import { createSendQueues } from "../../src/server/listener/send-queues.ts";

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const stranger = () => createConnection(new Socket(), undefined, "192.0.2.1", 0, 0);

test("the process is looked at for as long as a stranger is connected", () => {
  vi.useFakeTimers();
  const rss = vi.spyOn(process.memoryUsage, "rss");
  const looks = () => {
    rss.mockClear();
    vi.advanceTimersByTime(1_000);
    return rss.mock.calls.length;
  };
  const held = createHeld(new Map(), createSendQueues({ ownAddressOf: () => undefined }));
  expect(looks()).toBe(0);
  const [leaver, caller] = [stranger(), stranger()];
  held.opened(leaver);
  held.opened(caller);
  expect(looks()).toBe(20);
  held.gone(leaver);
  expect(looks()).toBe(20);
  // A call may bring its key, and be told to go, when its connection is gone already.
  held.gone(leaver);
  held.letGo(leaver);
  expect(looks()).toBe(20);
  held.letGo(caller);
  expect(looks()).toBe(0);
  held.opened(stranger());
  expect(looks()).toBe(20);
  held.end();
  expect(looks()).toBe(0);
});

test("a process that has no file left to open, and so cannot tell its size, goes on", () => {
  vi.useFakeTimers();
  const rss = vi.spyOn(process.memoryUsage, "rss").mockImplementation(() => {
    throw Object.assign(new Error("EMFILE: too many open files"), { code: "EMFILE" });
  });
  const held = createHeld(new Map(), createSendQueues({ ownAddressOf: () => undefined }));
  held.opened(stranger());
  vi.advanceTimersByTime(200);
  expect(rss.mock.calls.length).toBeGreaterThan(2);
  held.end();
});

test.each([
  ["a stranger", false],
  ["a proxy", true],
])("of what %s sends ahead of its first request as much as fits is held, but a proxy's is of many", (_, isProxys) => {
  const held = createHeld(new Map(), createSendQueues({ ownAddressOf: () => undefined }));
  const connections = Array.from({ length: 80 }, () => {
    const socket = Object.defineProperty(new Socket(), "bytesRead", { value: 65_536 });
    return createConnection(socket, undefined, "192.0.2.1", 0, 0, isProxys);
  });
  for (const connection of connections) {
    held.opened(connection);
    held.note(connection);
  }
  held.makeRoom();
  expect(connections.some(({ socket }) => socket.destroyed)).toBe(!isProxys);
  held.end();
});
