/**
 * Makes each mutant in a copy of the tree and runs the tests against it until one fails. Ends with 1 if one survives.
 * Arguments are parts of mutants' names; without any, every mutant is made.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Mutant } from "./mutant.ts";
import { mutants } from "./mutants.ts";
import { fileOf, withMistake } from "./places.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const wanted = process.argv.slice(2);
/** Where a mutant is looked for that names no other place. */
const simulation = ["test/simulation"];

interface Caught {
  readonly test: string;
  readonly why: string;
}

const folder = mkdtempSync(join(tmpdir(), "otpd-mutants-"));
try {
  for (const part of ["src", "gen", "test", "tools", "docs", "README.md", "package.json", "tsconfig.json"]) {
    cpSync(join(root, part), join(folder, part), { recursive: true });
  }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  const chosen = mutants.filter(({ name }) => wanted.length === 0 || wanted.some((part) => name.includes(part)));
  const unharmed = runTests([...new Set(chosen.flatMap(({ suites = simulation }) => suites))]);
  if (unharmed !== undefined) throw new Error(`the tests fail without any mutant: ${unharmed.test}: ${unharmed.why}`);

  const survivors: Mutant[] = [];
  for (const [i, mutant] of chosen.entries()) {
    const startMs = performance.now();
    const caught = runWith(mutant);
    const seconds = ((performance.now() - startMs) / 1000).toFixed(0);
    const verdict = caught === undefined ? "SURVIVED" : `caught by "${caught.test}"\n     ${caught.why}`;
    console.log(`${String(i + 1).padStart(2)}/${chosen.length} ${mutant.name} (${seconds} s): ${verdict}`);
    if (caught === undefined) survivors.push(mutant);
  }
  console.log(`${chosen.length - survivors.length} of ${chosen.length} mutants caught`);
  for (const { name, breaks } of survivors) console.log(`  survived: ${name}: ${breaks}`);
  process.exitCode = survivors.length === 0 ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function runWith(mutant: Mutant): Caught | undefined {
  const path = join(folder, fileOf(mutant));
  const source = readFileSync(path, "utf8");
  writeFileSync(path, withMistake(source, mutant));
  try {
    return runTests(mutant.suites ?? simulation);
  } finally {
    writeFileSync(path, source);
  }
}

/** Runs these suites; undefined when they pass, else the first test that failed. */
function runTests(suites: readonly string[]): Caught | undefined {
  const report = join(folder, "report.json");
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  const args = [
    "run",
    "--config",
    "test/vitest.config.ts",
    "--bail",
    "1",
    "--reporter",
    "json",
    "--outputFile",
    report,
  ];
  rmSync(report, { force: true });
  const env = { ...process.env, OTPD_TESTS: "full" };
  const run = spawnSync(process.execPath, [vitest, ...args, ...suites], { cwd: folder, encoding: "utf8", env });
  if (run.status === 0) return undefined;
  const { testResults } = JSON.parse(readFileSync(report, "utf8")) as {
    testResults: {
      message: string;
      name: string;
      assertionResults: { status: string; title: string; failureMessages: string[] }[];
    }[];
  };
  for (const { name, message, assertionResults } of testResults) {
    const failed = assertionResults.find(({ status }) => status === "failed");
    if (failed !== undefined) return { test: failed.title, why: firstLine(failed.failureMessages[0] ?? "") };
    if (message !== "") return { test: name, why: firstLine(message) };
  }
  return { test: "vitest itself", why: firstLine(run.stderr) };
}

function firstLine(text: string): string {
  return (text.split("\n", 1)[0] ?? "").slice(0, 160);
}
