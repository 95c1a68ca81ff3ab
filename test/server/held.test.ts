/** How what strangers hold is looked at. */
import { afterEach, expect, test, vi } from "vitest";
import { createHeld } from "../../src/server/listener/held.ts";

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test("a process that has no file left to open, and so cannot tell its size, goes on", () => {
  vi.useFakeTimers();
  const rss = vi.spyOn(process.memoryUsage, "rss").mockImplementation(() => {
    throw Object.assign(new Error("EMFILE: too many open files"), { code: "EMFILE" });
  });
  const held = createHeld(new Map());
  vi.advanceTimersByTime(200);
  expect(rss.mock.calls.length).toBeGreaterThan(2);
  held.end();
});
