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

test.each(["measure.ts", "soak/small.ts", "bench/bench.ts"])(
  "%s says how it is called, and what it does not know",
  (file) => {
    const ask = (option: string) =>
      spawnSync(process.execPath, [join(import.meta.dirname, file), option], { encoding: "utf8" });
    const help = ask("--help");
    expect([help.status, help.stderr]).toEqual([0, ""]);
    expect(help.stdout).toMatch(/^`npm run [^]*npm run [^]* -- --/);
    const odd = ask("--nonsense");
    expect([odd.status, odd.stdout]).toEqual([2, ""]);
    expect(odd.stderr).toContain(`Unknown option '--nonsense'`);
    expect(odd.stderr).not.toMatch(/^ +at /m);
  },
);
