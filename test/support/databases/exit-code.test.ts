/**
 * A run of tests that fails ends with a code that says so, also where it has a PostgreSQL of its own.
 */
import { spawnSync } from "node:child_process";
import { pathToFileURL } from "node:url";
import { join } from "node:path";
import { expect, test } from "vitest";

test("what gives tests their PostgreSQL leaves the exit code of the process alone", () => {
  const support = pathToFileURL(join(import.meta.dirname, "project-database.ts")).href;
  const program = `await import(${JSON.stringify(support)}); process.exitCode = 3;`;
  const { status, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
  expect({ status, stderr }).toEqual({ status: 3, stderr: "" });
});
