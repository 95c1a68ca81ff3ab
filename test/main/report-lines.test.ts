import { expect, test } from "vitest";
import { createReportLines, linesPerMinute } from "../../src/main/report-lines.ts";

test("reports that anybody posts have ten lines a minute and the first of each cause, and the next minute's first tells of the rest", () => {
  const lines: unknown[] = [];
  let now = 30_000;
  const tell = createReportLines({ refusedReport: (...line) => lines.push(line) }, () => now);
  const told = Array.from({ length: 1_000 }, () => tell("acme", "signature"));
  // Whoever watches is told of as many.
  expect(told.filter(Boolean)).toHaveLength(linesPerMinute);
  expect(lines).toEqual(Array.from({ length: linesPerMinute }, () => ["acme", "signature", 0]));
  expect([tell("acme", "unsigned"), tell("acme", "unsigned"), tell("other", "signature")]).toEqual([true, false, true]);
  expect(lines.splice(linesPerMinute)).toEqual([
    ["acme", "unsigned", 990],
    ["other", "signature", 1],
  ]);
  tell("acme", "unsigned");
  now = 60_000;
  tell("acme", "timestamp");
  tell("acme", "unsigned");
  expect(lines.slice(linesPerMinute)).toEqual([
    ["acme", "timestamp", 1],
    ["acme", "unsigned", 0],
  ]);
});
