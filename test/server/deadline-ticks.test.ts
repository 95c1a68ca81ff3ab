/**
 * One timer for the deadlines of all calls: each comes in its time, those that ended in time hear nothing, and nothing ticks
 * while nobody waits.
 */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createDeadlines } from "../../src/server/http/deadlines.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

const ms = 16_000;

test("a deadline comes in its last sixteenth, whenever it began", () => {
  const deadlines = createDeadlines(ms);
  const late: number[] = [];
  let nowMs = 0;
  const pass = (more: number) => {
    nowMs += more;
    vi.advanceTimersByTime(more);
  };
  const begun = [0, 1, 700, 1_000, 5_500, 15_999];
  for (const beganMs of begun) {
    pass(beganMs - nowMs);
    deadlines.begin(() => late.push(nowMs - beganMs));
  }
  for (let i = 0; i < 2 * ms; i += 1) pass(1);
  expect(late).toHaveLength(begun.length);
  for (const took of late) {
    expect(took).toBeGreaterThanOrEqual((ms * 15) / 16);
    expect(took).toBeLessThanOrEqual(ms);
  }
});

test("whoever ends in time hears nothing, and the others do", () => {
  const deadlines = createDeadlines(ms);
  const heard: string[] = [];
  const of = (name: string) => () => void heard.push(name);
  const [first, second, third] = [of("first"), of("second"), of("third")];
  for (const onLate of [first, second, third]) deadlines.begin(onLate);
  deadlines.end(second);
  deadlines.end(second);
  vi.advanceTimersByTime(ms);
  expect(heard).toEqual(["first", "third"]);
  vi.advanceTimersByTime(10 * ms);
  expect(heard).toEqual(["first", "third"]);
});

test("nothing ticks while nobody waits, and it ticks again for the next one", () => {
  const deadlines = createDeadlines(ms);
  expect(vi.getTimerCount()).toBe(0);
  let heard = 0;
  const onLate = () => void (heard += 1);
  deadlines.begin(onLate);
  expect(vi.getTimerCount()).toBe(1);
  deadlines.end(onLate);
  vi.advanceTimersByTime(ms);
  expect(vi.getTimerCount()).toBe(0);
  deadlines.begin(onLate);
  vi.advanceTimersByTime(ms);
  expect([heard, vi.getTimerCount()]).toEqual([1, 0]);
});
