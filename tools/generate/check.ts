/**
 * Fails when `gen/` is not what `proto/`, the REST paths and the pages for browsers generate. It generates into a temporary folder
 * and compares, so that the work tree stays as it is; `npm run generate` is what changes it.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { bundleForBrowsers } from "./bundles.ts";

const root = join(import.meta.dirname, "../..");
const bin = join(root, "node_modules/.bin");
const fresh = mkdtempSync(join(tmpdir(), "otpd-generated-"));
try {
  // buf finds its plugin by the PATH, which only npm scripts have set.
  const env = { ...process.env, PATH: `${bin}${delimiter}${process.env["PATH"]}` };
  const { status, stderr, error } = spawnSync(join(bin, "buf"), ["generate", "--output", fresh], { cwd: root, env });
  if (status !== 0) throw new Error(`buf generate failed: ${error?.message ?? stderr.toString("utf8")}`);
  await bundleForBrowsers(join(fresh, "gen"));
  const differences = compare(filesIn(join(root, "gen")), filesIn(join(fresh, "gen")));
  if (differences.length > 0) {
    console.error(
      `gen/ is not what proto/, the REST paths, src/demo/, src/console/ and src/elements/ generate. Run "npm run generate" and commit the result.`,
    );
    for (const difference of differences) console.error(`  ${difference}`);
    process.exitCode = 1;
  }
} finally {
  rmSync(fresh, { recursive: true });
}

/** Every file below a folder, by its path within. */
function filesIn(folder: string): Map<string, string> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = entries.map((entry) => join(entry.parentPath, entry.name));
  return new Map(paths.map((path) => [path.slice(folder.length + 1), readFileSync(path, "utf8")]));
}

function compare(committed: Map<string, string>, generated: Map<string, string>): string[] {
  return [...new Set([...committed.keys(), ...generated.keys()])].toSorted().flatMap((path) => {
    if (!generated.has(path)) return [`gen/${path} is generated from nothing`];
    if (!committed.has(path)) return [`gen/${path} is missing`];
    return committed.get(path) === generated.get(path) ? [] : [`gen/${path} differs`];
  });
}
