/**
 * What the tests need of the machine is said in one place, and told to people as it is there.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tools } from "./machine.ts";

const root = join(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(root, path), "utf8");

test("CONTRIBUTING names the packages that are installed, and no other", () => {
  const [, listed = ""] =
    /Debian\s+has\s+it\s+in\s+(.*?), which `\.ci\/run`/s.exec(read(".github/CONTRIBUTING.md")) ?? [];
  const named = [...listed.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
  expect(new Set(named)).toEqual(new Set(Object.values(tools).flatMap(({ packages }) => [...packages])));
});

test(".ci/run asks this list, and keeps none of its own", () => {
  const ci = read(".ci/run");
  expect(ci).toContain("node test/support/machine.ts");
  expect(ci).not.toMatch(/command -v (?!apt-get)/);
});

test("no test is skipped for want of a tool but by this list", () => {
  const files = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".test.ts"),
  );
  // What a run was asked to leave out is no matter of the machine.
  const byOrder = /runIf\((only|onlyProtocol) [!=]== undefined\)/g;
  const others = files.filter((path) =>
    /\b(skipIf|runIf)\((?!lacks)/.test(read(join("test", path)).replaceAll(byOrder, "")),
  );
  expect(files.length).toBeGreaterThan(100);
  expect(others.filter((path) => path !== "support/machine.test.ts")).toEqual([]);
});
