/**
 * A clone runs what was built as long as it is of the very files that lie there, and its sources else: a start may not run what
 * somebody has changed since.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { builtPath, isBuilt, stampOf } from "../src/built.js";
import { buildServer, bundle } from "../tools/build/server.ts";
import { folderOf, noticesOf } from "../tools/build/notices.ts";

const repository = join(import.meta.dirname, "..");

let clone: string;
beforeEach(() => {
  clone = mkdtempSync(join(tmpdir(), "otpd-clone-"));
  const made = clone;
  onTestFinished(() => rmSync(made, { recursive: true }));
  const program = (text: string) => `export const run = async () => console.log("${text}");\n`;
  for (const path of ["src/otpd.js", "src/built.js"]) cpSync(join(repository, path), join(clone, path));
  write("package.json", `{"type":"module"}`);
  write("src/cli.ts", program("the sources"));
  write("src/rule.ts", "export const max = 5;\n");
  write("dist/src/cli.js", program("what was built"));
  note("src/cli.ts", "src/rule.ts");
});

function write(path: string, text: string): void {
  mkdirSync(dirname(join(clone, path)), { recursive: true });
  writeFileSync(join(clone, path), text);
}

/** Notes that it was built of these files as they are. */
function note(...paths: string[]): void {
  const stamps = paths.map((path) => [path, stampOf(join(clone, path))]);
  write(builtPath, JSON.stringify(Object.fromEntries(stamps)));
}

const started = () => execFileSync(process.execPath, [join(clone, "src/otpd.js")], { encoding: "utf8" }).trim();

test("what was built runs while all it was built of is unchanged", () => {
  expect(started()).toBe("what was built");
});

test.each<[what: string, change: () => void]>([
  ["a source has changed", () => write("src/rule.ts", "export const max = 50;\n")],
  [
    "a source was written anew, of the same length",
    () => {
      const { atime, mtimeMs } = statSync(join(clone, "src/rule.ts"));
      write("src/rule.ts", "export const max = 7;\n");
      utimesSync(join(clone, "src/rule.ts"), atime, new Date(mtimeMs + 1));
    },
  ],
  [
    "a source is older than the one it was built of, as another branch has it",
    () => utimesSync(join(clone, "src/rule.ts"), new Date(0), new Date(0)),
  ],
  ["a source is gone", () => rmSync(join(clone, "src/rule.ts"))],
  ["the build was broken off", () => rmSync(join(clone, builtPath))],
  ["its note is not whole", () => write(builtPath, '{"src/cli.ts"')],
  ["there is none", () => rmSync(join(clone, "dist"), { recursive: true })],
])("the sources run where %s", (_, change) => {
  change();
  expect(started()).toBe("the sources");
});

test("a package, which has no sources, runs what was built without a note", () => {
  for (const path of ["src/cli.ts", "src/rule.ts", "src/built.js", builtPath]) rmSync(join(clone, path));
  expect(started()).toBe("what was built");
});

test("the build's note names each file of ours that went in or is read", async () => {
  await buildServer();
  expect(isBuilt(repository)).toBe(true);
  const named = Object.keys(JSON.parse(readFileSync(join(repository, builtPath), "utf8")) as object);
  const { inputs } = await bundle();
  const ours = inputs.filter((path) => folderOf(path) === undefined);
  expect(ours.length).toBeGreaterThan(100);
  expect(ours.filter((path) => !named.includes(path))).toEqual([]);
  const besides = ["package.json", "gen/openapi.json", "src/demo/index.html", "node_modules/.package-lock.json"];
  expect(named).toEqual(expect.arrayContaining(besides));
});

test("only packages of the service go in, and each is named with its licence", async () => {
  const { inputs } = await bundle();
  const { packages } = JSON.parse(readFileSync(join(repository, "package-lock.json"), "utf8")) as {
    packages: Readonly<Record<string, { readonly version: string; readonly dev?: boolean }>>;
  };
  const folders = [...new Set(inputs.map(folderOf).filter((folder) => folder !== undefined))];
  expect(folders.length).toBeGreaterThan(20);
  // Else whoever looks through the packages of the service alone would not see it.
  expect(folders.filter((folder) => packages[folder]?.dev !== undefined)).toEqual([]);
  const notices = noticesOf(repository, inputs);
  for (const folder of folders) {
    expect(notices).toContain(`\n${folder.replace(/^.*node_modules\//, "")} ${packages[folder]?.version} (`);
  }
});
