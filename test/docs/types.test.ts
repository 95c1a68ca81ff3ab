/**
 * The TypeScript of the documents has no type error, under the settings of this repository.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readDocument } from "../support/readers/document.ts";

const root = join(import.meta.dirname, "../..");
const documents = ["docs/integrate.md", "docs/better-auth.md"].map(readDocument);

test("the programs in TypeScript compile", () => {
  const folder = mkdtempSync(join(tmpdir(), "otpd-types-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const write = (file: string, text: string) => writeFileSync(join(folder, file), text);
  for (const name of ["gen", "node_modules"]) symlinkSync(join(root, name), join(folder, name));
  const all = documents.flatMap(({ blocks }) => blocks).filter(({ language }) => language === "ts");
  // Compiled against the package that it imports: packages.test.ts.
  const files = all.filter(({ file }) => file !== "first.ts");
  for (const { file, text } of files) write(file ?? "unnamed", text);
  // What they import and no document has in TypeScript.
  write("receipts.js", readDocument("docs/receipts.md").only("js"));
  write(
    "database.ts",
    'import { memoryAdapter } from "better-auth/adapters/memory";\nexport const database = memoryAdapter({});',
  );
  write("package.json", '{"type":"module"}');
  const { compilerOptions } = JSON.parse(readFileSync(join(root, "tsconfig.json"), "utf8")) as Record<string, object>;
  const names = files.map(({ file }) => file);
  write("tsconfig.json", JSON.stringify({ compilerOptions: { ...compilerOptions, allowJs: true }, files: names }));

  const { stdout, status } = spawnSync(process.execPath, [join(root, "node_modules/.bin/tsc")], { cwd: folder });
  expect({ said: stdout.toString(), status, names }).toEqual({
    said: "",
    status: 0,
    names: ["calls.ts", "client.ts", "page.ts", "otpd-hooks.ts", "auth.ts"],
  });
});
