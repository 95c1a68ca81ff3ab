/**
 * What an entry of the audit changed, in a line.
 */
import { expect, test } from "vitest";
import { changeText } from "../../../src/otp/operators/audit-words.ts";

test.each<[string, object | undefined, object | undefined, string]>([
  [
    "a field that changed",
    { settings: { daily_cap: "500", brand: "A" } },
    { settings: { daily_cap: "200", brand: "A" } },
    "settings.daily_cap: 500 → 200",
  ],
  ["one that came and one that went", { a: "x", b: null }, { a: null, b: 2 }, "a: x → –; b: – → 2"],
  [
    "what was made, by its fields that say something",
    undefined,
    { name: "shop", scopes: ["send", "verify"], origins: [], expire_time: null },
    "name: shop; scopes: send, verify",
  ],
  ["what is gone", { verdict: "block" }, undefined, "gone"],
  ["nothing", undefined, undefined, ""],
  ["the same", { a: 1 }, { a: 1 }, ""],
  ["a list of other things", { secrets: [{ at: 1 }] }, { secrets: [{ at: 2 }] }, 'secrets: [{"at":1}] → [{"at":2}]'],
])("tells %s", (_, before, after, line) => {
  const textOf = (story?: object) => (story === undefined ? "" : JSON.stringify(story));
  expect(changeText({ before: textOf(before), after: textOf(after) })).toBe(line);
});

test("is never longer than 200 characters", () => {
  const line = changeText({ before: "", after: JSON.stringify({ url: "x".repeat(5_000) }) });
  expect([line.length, line.endsWith("…")]).toEqual([200, true]);
});

test.each(["x", "xx"])("is cut between characters, not through one, behind %s", (before) => {
  const line = changeText({ before: "", after: JSON.stringify({ [before]: "😀".repeat(150) }) });
  expect([line.isWellFormed(), line.length > 197]).toEqual([true, true]);
});
