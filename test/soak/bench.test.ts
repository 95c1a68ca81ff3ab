/**
 * The whole bench, as small as it gets: no section stands in the way of the next. better-auth is left out, since it would be
 * installed first.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const bench = join(import.meta.dirname, "../../tools/bench/bench.ts");

test("the bench measures all of its sections in one run", async () => {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [bench, "--smoke", "--without", "peer"], {
    maxBuffer: 2 ** 24,
  });
  expect(stderr).not.toContain("not measured");
  for (const section of ["compare", "growth", "scarce", "rest", "operators"]) expect(stderr).toContain(`${section}: `);
  expect(stdout).toContain("### What is asked");
}, 1_800_000);
