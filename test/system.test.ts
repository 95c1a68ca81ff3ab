import { describe, expect, test } from "vitest";
import { createSystem, sleep, type RawClock } from "../src/system.ts";
import { dayMs, hourMs, minuteMs, secondMs } from "./support/data/examples.ts";
import { seededRandom, testEpochMs } from "./support/service/system.ts";

/** A machine whose clocks are moved by hand, and the system that runs on it. */
function machine(startWallMs: number = testEpochMs) {
  let [wall, monotonic] = [startWallMs, 5_000.25];
  const jumps: number[] = [];
  const clock: RawClock = { wallMs: () => Math.floor(wall), monotonicMs: () => monotonic };
  return {
    system: createSystem((jumpMs) => void jumps.push(jumpMs), clock),
    /** The warnings told, in milliseconds. */
    jumps,
    wall: () => Math.floor(wall),
    /** Time passes. */
    pass(ms: number) {
      wall += ms;
      monotonic += ms;
    },
    /** Someone sets the clock. */
    set(ms: number) {
      wall += ms;
    },
  };
}

describe("while the clock is right", () => {
  test("time is the clock's", () => {
    const { system, pass, wall } = machine();
    for (const ms of [0, 1, 999, minuteMs, dayMs]) {
      pass(ms);
      expect(system.now()).toBe(wall());
    }
  });

  test("it is a whole millisecond, and never more than one ahead, however often it is asked for", () => {
    const { system, pass, wall, jumps } = machine();
    const random = seededRandom(11);
    const ahead = Array.from({ length: 50_000 }, () => {
      pass(random() * 3);
      return system.now() - wall();
    });
    expect(new Set(ahead)).toEqual(new Set([0, 1]));
    expect(jumps).toEqual([]);
  });
});

describe("when the clock is set back", () => {
  test.each([
    ["a second", secondMs, []],
    ["an hour", hourMs, [-hourMs]],
    ["a year", 365 * dayMs, [-365 * dayMs]],
  ])("by %s, time goes on from the latest answer at the pace that cannot be set", (_, backMs, warnings) => {
    const { system, pass, set, jumps } = machine();
    const before = system.now();
    set(-backMs);
    expect(system.now()).toBe(before);
    for (let i = 1; i <= 100; i++) {
      pass(10);
      expect(system.now()).toBe(before + i * 10);
    }
    expect(jumps).toEqual(warnings);
  });

  test("time neither stops nor runs slow, however often it is asked for", () => {
    const { system, pass, set } = machine();
    const before = system.now();
    set(-hourMs);
    for (let i = 0; i < 10_000; i++) {
      pass(0.3);
      system.now();
    }
    expect(system.now() - before).toBeGreaterThanOrEqual(2_999);
    expect(system.now() - before).toBeLessThanOrEqual(3_001);
  });

  test("a code's ten minutes are over after ten minutes", () => {
    const { system, pass, set } = machine();
    const expireMs = system.now() + 10 * minuteMs;
    pass(minuteMs);
    set(-dayMs);
    pass(9 * minuteMs - 1);
    expect(system.now()).toBe(expireMs - 1);
    pass(1);
    expect(system.now()).toBe(expireMs);
  });

  test("the clock is followed again from where it catches up", () => {
    const { system, pass, set, wall } = machine();
    system.now();
    set(-hourMs);
    pass(minuteMs);
    const meanwhile = system.now();
    expect(meanwhile).toBe(wall() + hourMs);
    set(hourMs + 5 * secondMs);
    expect(system.now()).toBe(wall());
    expect(wall()).toBe(meanwhile + 5 * secondMs);
  });
});

describe("when the clock is set forward", () => {
  test("it is followed at once, and told", () => {
    const { system, pass, set, wall, jumps } = machine();
    system.now();
    pass(minuteMs);
    set(dayMs);
    expect(system.now()).toBe(wall());
    expect(jumps).toEqual([dayMs]);
  });
});

describe("a warning", () => {
  test("is told once per jump, forward and back", () => {
    const { system, pass, set, jumps } = machine();
    for (const ms of [hourMs, -2 * hourMs, 10 * secondMs]) {
      set(ms);
      for (let i = 0; i < 5; i++) {
        pass(secondMs);
        system.now();
      }
    }
    expect(jumps).toEqual([hourMs, -2 * hourMs, 10 * secondMs]);
  });

  test.each([
    [2_000, []],
    [-2_000, []],
    [2_001, [2_001]],
    [-2_001, [-2_001]],
  ])("for a slip of %i ms: %j", (ms, expected) => {
    const { system, set, jumps } = machine();
    system.now();
    set(ms);
    system.now();
    expect(jumps).toEqual(expected);
  });
});

test("time never runs backwards, whatever is done to the clock", () => {
  const random = seededRandom(42);
  const { system, pass, set } = machine();
  let latest = 0;
  let backwards = 0;
  for (let i = 0; i < 20_000; i++) {
    if (random() < 0.05) set((random() - 0.5) * 2 * 10 ** Math.floor(random() * 10));
    if (random() < 0.02) system.resumeFrom(latest + Math.floor((random() - 0.5) * hourMs));
    pass(random() * 2_000);
    const now = system.now();
    backwards += now < latest || !Number.isInteger(now) ? 1 : 0;
    latest = now;
  }
  expect(backwards).toBe(0);
});

describe("after a restart", () => {
  test("time is at least what was noted before it", () => {
    const { system, pass } = machine();
    system.resumeFrom(testEpochMs + hourMs);
    expect(system.now()).toBe(testEpochMs + hourMs);
    pass(minuteMs);
    expect(system.now()).toBe(testEpochMs + hourMs + minuteMs);
  });

  test("a note from the past changes nothing", () => {
    const { system, pass, wall } = machine();
    system.resumeFrom(testEpochMs - hourMs);
    pass(minuteMs);
    expect(system.now()).toBe(wall());
  });

  test("a clock that was set back meanwhile is told of, once", () => {
    const { system, jumps, pass } = machine(testEpochMs - dayMs);
    system.resumeFrom(testEpochMs);
    expect(system.now()).toBe(testEpochMs);
    pass(minuteMs);
    expect(system.now()).toBe(testEpochMs + minuteMs);
    expect(jumps).toEqual([-dayMs]);
  });

  test("a clock that is behind by a slip is not", () => {
    const { system, jumps } = machine(testEpochMs - 2_000);
    system.resumeFrom(testEpochMs);
    expect(jumps).toEqual([]);
  });
});

describe("the machine's own clock", () => {
  test("tells the time", () => {
    const before = Date.now();
    const now = createSystem().now();
    expect(now).toBeGreaterThanOrEqual(before);
    expect(now).toBeLessThanOrEqual(Date.now() + 1);
  });

  test("waits, unless it is called off", async () => {
    const system = createSystem();
    const done: string[] = [];
    const callOff = system.after(0, () => void done.push("called off"));
    callOff();
    system.after(0, () => void done.push("waited for"));
    await sleep(system, 1);
    expect(done).toEqual(["waited for"]);
  });
});

describe("random bytes", () => {
  const system = createSystem();

  test.each([0, 1, 16, 128, 4_095, 4_096, 4_097, 100_000])("come %i at a time", (count) => {
    expect(system.randomBytes(count)).toHaveLength(count);
  });

  test("never come twice: 200,000 ids are all different", () => {
    const ids = Array.from({ length: 200_000 }, () => Buffer.from(system.randomBytes(16)).toString("latin1"));
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("belong to the caller alone: what is done to one draw shows in no other", () => {
    const first = system.randomBytes(16);
    const copy = Uint8Array.from(first);
    const others = Array.from({ length: 600 }, () => system.randomBytes(16).fill(0));
    expect(others).toHaveLength(600);
    expect(first).toEqual(copy);
    expect(first.buffer.byteLength).toBe(16);
  });

  test("are spread evenly over all bytes", () => {
    const counts = new Float64Array(256);
    for (let i = 0; i < 2_000; i++) for (const byte of system.randomBytes(128)) counts[byte] = (counts[byte] ?? 0) + 1;
    const chiSquare = counts.reduce((sum, count) => sum + (count - 1_000) ** 2 / 1_000, 0);
    // 255 degrees of freedom and true randomness: above 400 once in 10⁸ runs.
    expect(chiSquare).toBeLessThan(400);
  });
});
