/**
 * The house can be measured: a real server is called, and every figure is there.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

test("the measurement of the house gives a figure for everything", () => {
  const { stdout, stderr } = spawnSync(process.execPath, [join(import.meta.dirname, "measure.ts")], {
    encoding: "utf8",
  });
  const [first = "", ...others] = stdout.split("\n\n");
  const figures = [...first.matchAll(/^\| (.+) \| (\d+) \|$/gm)].map(([, what, figure]) => [what, Number(figure)]);
  expect(figures, stderr).toHaveLength(9);
  const [sendFiles = 0, sendFunctions = 0, verifyFiles = 0, verifyFunctions = 0] = figures.map(([, figure]) =>
    Number(figure),
  );
  expect(sendFiles).toBeGreaterThan(10);
  expect(sendFunctions).toBeGreaterThan(sendFiles);
  expect(verifyFiles).toBeGreaterThan(10);
  expect(verifyFunctions).toBeGreaterThan(verifyFiles);
  expect(others.join("\n")).toContain("| src/otp | ");
});
