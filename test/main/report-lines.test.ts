import { expect, test } from "vitest";
import { createReportLines, linesPerMinute } from "../../src/main/report-lines.ts";

test("reports that anybody posts have ten lines a minute, and the next minute's first tells of the rest", () => {
  const lines: unknown[] = [];
  let now = 30_000;
  const tell = createReportLines({ refusedReport: (...line) => lines.push(line) }, () => now);
  for (let i = 0; i < 1_000; i++) tell("acme", "signature");
  expect(lines).toEqual(Array.from({ length: linesPerMinute }, () => ["acme", "signature", 0]));
  now = 60_000;
  tell("acme", "timestamp");
  tell("acme", "unsigned");
  expect(lines.slice(linesPerMinute)).toEqual([
    ["acme", "timestamp", 990],
    ["acme", "unsigned", 0],
  ]);
});
