import { describe, expect, test } from "vitest";
import {
  emptyHistory,
  forgive,
  isForgettable,
  limitsFor,
  nextCodeLength,
  refundsPerDayMax,
  withRefunds,
  withWrongCode,
  wrongCodesOf,
  type PhoneHistory,
  type Policy,
} from "../../../src/otp/verification/policy.ts";
import { dayMs, hourMs, policy as defaults } from "../../support/data/examples.ts";
import { seededRandom, testEpochMs as now } from "../../support/service/system.ts";

const today = now / dayMs - 0.5;

/** A phone with so many wrong codes today. */
function withWrongCodes(count: number, at = now): PhoneHistory {
  let history = emptyHistory;
  for (let i = 0; i < count; i++) history = withWrongCode(history, at);
  return history;
}

const upTo = (codeLengthMax: number, codeLength = 6): Policy => ({ ...defaults, codeLength, codeLengthMax });
const strict: Policy = { ...defaults, guessPolicy: "strict" };

describe("the next code gets longer after wrong guesses", () => {
  test.each<[string, Policy, wrong: number, open: number, expected: number | "refuse"]>([
    ["a phone nobody guesses at", upTo(8), 0, 0, 6],
    ["19 wrong codes", upTo(8), 19, 0, 6],
    ["20 wrong codes", upTo(8), 20, 0, 8],
    ["19 attempts still open", upTo(8), 0, 19, 6],
    ["20 attempts still open", upTo(8), 0, 20, 8],
    ["15 wrong codes and 4 open attempts", upTo(8), 15, 4, 6],
    ["15 wrong codes and 5 open attempts", upTo(8), 15, 5, 8],
    ["99 wrong codes", upTo(10), 99, 0, 8],
    ["100 wrong codes", upTo(10), 100, 0, 10],
    ["95 wrong codes and 5 open attempts", upTo(10), 95, 5, 10],
    ["100 wrong codes, at most 8 digits", upTo(8), 100, 0, 8],
    ["100,000 wrong codes, at most 8 digits", upTo(8), 100_000, 0, 8],
    ["20 wrong codes, at most 7 digits", upTo(7), 20, 0, 7],
    ["100 wrong codes, at most 9 digits", upTo(9), 100, 0, 9],
    ["100 wrong codes, no lengthening", upTo(6), 100, 0, 6],
    ["19 wrong codes, 9 digits from the start", upTo(10, 9), 19, 0, 9],
    ["20 wrong codes, 9 digits from the start", upTo(10, 9), 20, 0, 9],
    ["100 wrong codes, 9 digits from the start", upTo(10, 9), 100, 0, 10],
    ["95 wrong codes under the strict policy", strict, 95, 0, 6],
    ["96 wrong codes under the strict policy", strict, 96, 0, "refuse"],
    ["90 wrong codes and 5 open attempts under the strict policy", strict, 90, 5, 6],
    ["91 wrong codes and 5 open attempts under the strict policy", strict, 91, 5, "refuse"],
    ["99 wrong codes, strict, one attempt per code", { ...strict, attemptsMax: 1 }, 99, 0, 6],
    ["100 wrong codes, strict, one attempt per code", { ...strict, attemptsMax: 1 }, 100, 0, "refuse"],
  ])("%s", (_, policy, wrong, open, expected) => {
    const history: PhoneHistory = { ...emptyHistory, wrongCodes: wrong === 0 ? [] : [[today, wrong]] };
    expect(nextCodeLength(policy, history, open, now)).toBe(expected);
  });

  test("opening many requests before the first guess wins no more guesses at six digits than 20", () => {
    // The attacker's best order: open all he can, then guess them all, over and over, with no success.
    let history = emptyHistory;
    let sixDigitGuesses = 0;
    for (let round = 0; round < 20; round++) {
      let open = 0;
      for (let i = 0; i < 12; i++) {
        if (nextCodeLength(defaults, history, open, now) === 6) sixDigitGuesses += defaults.attemptsMax;
        open += defaults.attemptsMax;
      }
      for (let i = 0; i < open; i++) history = withWrongCode(history, now);
    }
    expect(sixDigitGuesses).toBe(20);
  });
});

describe("wrong codes", () => {
  test("add up over a day and over days, one pair per day", () => {
    let history = withWrongCodes(3);
    history = withWrongCode(history, now + hourMs);
    history = withWrongCode(history, now + dayMs);
    expect(history.wrongCodes).toEqual([
      [today, 4],
      [today + 1, 1],
    ]);
    expect(wrongCodesOf(history, now + dayMs)).toBe(5);
  });

  test("count on their day and the 89 that follow, then no more", () => {
    const history = withWrongCodes(7);
    const midnight = today * dayMs;
    expect(wrongCodesOf(history, midnight + 90 * dayMs - 1)).toBe(7);
    expect(wrongCodesOf(history, midnight + 90 * dayMs)).toBe(0);
  });

  test("are forgotten with the next wrong code once they do not count, so that 90 days are the most that is kept", () => {
    let history = emptyHistory;
    for (let day = 0; day < 400; day++) history = withWrongCode(history, now + day * dayMs);
    expect(history.wrongCodes).toHaveLength(90);
    expect(wrongCodesOf(history, now + 399 * dayMs)).toBe(90);
  });

  test("noted while the clock is back are kept in their own day", () => {
    const history = withWrongCode(withWrongCodes(2), now - dayMs);
    expect(wrongCodesOf(history, now)).toBe(3);
  });
});

describe("a success forgives", () => {
  test("as many as its own request had, the latest first, across days", () => {
    const history = { ...emptyHistory, wrongCodes: [[today - 1, 5] as const, [today, 3] as const] };
    expect(forgive(history, 0)).toEqual(history);
    expect(forgive(history, 2).wrongCodes).toEqual([
      [today - 1, 5],
      [today, 1],
    ]);
    expect(forgive(history, 4).wrongCodes).toEqual([[today - 1, 4]]);
    expect(forgive(history, 8).wrongCodes).toEqual([]);
    expect(forgive(history, 100).wrongCodes).toEqual([]);
  });

  test("and leaves an attacker's: a daily sign-in with one typo does not win him a short code", () => {
    let history = withWrongCodes(20);
    for (let day = 0; day < 89; day++) {
      history = forgive(withWrongCode(history, now + day * dayMs), 1);
      expect(nextCodeLength(defaults, history, 0, now + day * dayMs)).toBe(8);
    }
  });
});

describe("messages are given back", () => {
  test("up to ten in any 24 hours", () => {
    const [first, once] = withRefunds(emptyHistory, now, 3);
    const [second, twice] = withRefunds(once, now + hourMs, 6);
    const [third, full] = withRefunds(twice, now + 2 * hourMs, 6);
    const [none] = withRefunds(full, now + 3 * hourMs, 6);
    expect([first, second, third, none]).toEqual([3, 6, 1, 0]);
  });

  test("again from 24 hours after each on", () => {
    const [, full] = withRefunds(emptyHistory, now, refundsPerDayMax);
    expect(withRefunds(full, now + dayMs - 1, 1)[0]).toBe(0);
    expect(withRefunds(full, now + dayMs, 4)[0]).toBe(4);
  });

  test("never more than ten in a window of 24 hours, in any order of events", () => {
    const random = seededRandom(7);
    let [history, at] = [emptyHistory, now];
    const given: number[] = [];
    for (let i = 0; i < 2_000; i++) {
      at += Math.floor(random() * 4 * hourMs);
      const [count, next] = withRefunds(history, at, 1 + Math.floor(random() * 6));
      history = next;
      given.push(...Array<number>(count).fill(at));
      expect(history.refunds.length).toBeLessThanOrEqual(refundsPerDayMax);
    }
    const inDay = given.map((from, i) => given.slice(i).filter((each) => each < from + dayMs).length);
    expect(Math.max(...inDay)).toBe(refundsPerDayMax);
  });

  test("not at all where two merged histories hold more than ten between them", () => {
    const merged = { ...emptyHistory, refunds: Array<number>(14).fill(now) };
    expect(withRefunds(merged, now + hourMs, 3)).toEqual([0, merged]);
  });
});

describe("a history", () => {
  test("can be forgotten once neither wrong codes nor refunds count", () => {
    const [, history] = withRefunds(withWrongCodes(1), now, 1);
    const midnight = today * dayMs;
    expect(isForgettable(emptyHistory, now)).toBe(true);
    expect(isForgettable(history, now)).toBe(false);
    expect(isForgettable(history, midnight + 90 * dayMs - 1)).toBe(false);
    expect(isForgettable(history, midnight + 90 * dayMs)).toBe(true);
    expect(isForgettable({ ...history, wrongCodes: [] }, now + dayMs - 1)).toBe(false);
    expect(isForgettable({ ...history, wrongCodes: [] }, now + dayMs)).toBe(true);
  });
});

describe("phone limits", () => {
  test("apply where a phone has buckets, and not in the sandbox, where it has none", () => {
    expect(limitsFor(defaults, [0, 0])).toEqual(defaults.phoneLimits);
    expect(limitsFor(defaults, [])).toEqual([]);
  });
});
