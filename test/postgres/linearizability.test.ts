/**
 * The checker of histories is itself checked: by histories made by hand, good and bad, and by the good ones of a random
 * scheduler, which a single changed answer makes bad.
 */
import { describe, expect, test } from "vitest";
import { attemptsModel, isLinearizable, type AttemptInput, type Operation } from "./linearizability.ts";
import { seededRandom } from "../support/service/system.ts";

type Guess = Operation<AttemptInput, string>;

const model = attemptsModel(5);
const guess = (startMs: number, endMs: number, input: AttemptInput, output?: string): Guess => ({
  startMs,
  endMs: output === undefined ? Number.POSITIVE_INFINITY : endMs,
  input,
  output,
});
const look = (output: string) => guess(1_000, 1_001, "look", output);
const wrong = (at: number, remaining: number) => guess(at, at + 1, "wrong", `CODE_MISMATCH ${remaining}`);

const good: Record<string, Guess[]> = {
  nothing: [],
  "one after the other": [wrong(0, 4), wrong(2, 3), guess(4, 5, "right", "OK"), look("VERIFIED 3")],
  "at once, answered in another order": [
    guess(0, 9, "wrong", "CODE_MISMATCH 3"),
    guess(1, 8, "wrong", "CODE_MISMATCH 4"),
    look("PENDING 2"),
  ],
  "five and then no more": [4, 3, 2, 1, 0]
    .map((left, i) => wrong(i * 2, left))
    .concat(guess(20, 21, "right", "OTP_LOCKED")),
  "an unknown one that counted late": [guess(0, 0, "wrong"), wrong(1, 4), wrong(3, 2), look("PENDING 3")],
  "an unknown one that never counted": [guess(0, 0, "right"), wrong(1, 4), look("PENDING 1")],
  "an unknown success": [guess(0, 0, "right"), guess(5, 6, "right", "OTP_ALREADY_VERIFIED"), look("VERIFIED 1")],
};

const bad: Record<string, Guess[]> = {
  "two successes": [guess(0, 9, "right", "OK"), guess(1, 8, "right", "OK")],
  "a success after a success that was over": [guess(0, 1, "right", "OK"), wrong(2, 4)],
  "the same count twice": [guess(0, 9, "wrong", "CODE_MISMATCH 4"), guess(1, 8, "wrong", "CODE_MISMATCH 4")],
  "six evaluated": [4, 3, 2, 1, 0, 0].map((left, i) => guess(i, 50, "wrong", `CODE_MISMATCH ${left}`)),
  "a count that goes back in time": [wrong(0, 3), wrong(2, 4)],
  "an attempt that was forgotten": [wrong(0, 4), look("PENDING 0")],
  "a lock before the fifth": [wrong(0, 4), guess(2, 3, "wrong", "OTP_LOCKED"), wrong(4, 3)],
  "a success that nobody had": [guess(0, 1, "right", "OTP_ALREADY_VERIFIED"), look("VERIFIED 1")],
  "a right code after the lock": [
    ...[4, 3, 2, 1, 0].map((left, i) => wrong(i * 2, left)),
    guess(20, 21, "right", "OK"),
  ],
  "an unknown one that counted before it began": [wrong(0, 3), guess(2, 2, "wrong"), look("PENDING 2")],
  "an unknown one that counted twice": [guess(0, 0, "wrong"), wrong(1, 2), look("PENDING 3")],
};

describe("histories made by hand", () => {
  test.each(Object.entries(good))("linearizable: %s", (_, history) => {
    expect(isLinearizable(model, history)).toBe(true);
  });
  test.each(Object.entries(bad))("not linearizable: %s", (_, history) => {
    expect(isLinearizable(model, history)).toBe(false);
  });
});

test("1,000 histories of a random scheduler pass, and each fails with one count changed", () => {
  const random = seededRandom(7);
  let changed = 0;
  for (let i = 0; i < 1_000; i += 1) {
    let state = model.initial;
    const history = Array.from({ length: 12 }, (_, at): Guess => {
      const input = random() < 0.1 ? "right" : "wrong";
      // Each takes effect at its own moment; what is around it overlaps at random, and some are never heard of.
      const stepped = model.step(state, input);
      const isUnknown = random() < 0.15;
      if (!isUnknown || random() < 0.5) state = stepped.state;
      const [startMs, endMs] = [at * 10 - random() * 30, at * 10 + random() * 30];
      return guess(startMs, endMs, input, isUnknown ? undefined : stepped.output);
    });
    const seen = [...history, look(`${state.state} ${state.attempts}`)];
    expect(isLinearizable(model, seen), JSON.stringify(seen)).toBe(true);
    const first = seen.findIndex(({ output }) => output?.startsWith("CODE_MISMATCH") === true);
    const { output = "" } = seen[first] ?? {};
    if (first < 0) continue;
    changed += 1;
    // Another guess has this count, or nobody has: one attempt was counted twice, or one was skipped.
    const forged = seen.concat({ ...(seen[first] as Guess), output });
    expect(isLinearizable(model, forged), JSON.stringify(forged)).toBe(false);
  }
  expect(changed).toBeGreaterThan(800);
});

test("a history of thousands of refusals around five guesses is told in time", () => {
  const refusals = Array.from({ length: 5_000 }, (_, i) => guess(20 + i / 100, 400, "wrong", "OTP_LOCKED"));
  const guesses = [4, 3, 2, 1, 0].map((left) => guess(0, 300, "wrong", `CODE_MISMATCH ${left}`));
  expect(isLinearizable(model, [...refusals, ...guesses, look("LOCKED 5")])).toBe(true);
  expect(isLinearizable(model, [...refusals, ...guesses.slice(1), look("LOCKED 5")])).toBe(false);
  const unheard = Array.from({ length: 500 }, (_, i) => guess(i / 10, 0, i % 50 === 0 ? "right" : "wrong"));
  expect(isLinearizable(model, [...refusals, ...guesses, ...unheard, look("LOCKED 5")])).toBe(true);
  expect(isLinearizable(model, [...refusals, ...guesses.slice(1), ...unheard, look("LOCKED 5")])).toBe(true);
  expect(isLinearizable(model, [...refusals, ...guesses, guesses[0] as Guess, ...unheard])).toBe(false);
});
