/**
 * Holds the rules of `rules.ts` over every file of the repository that people write.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { circlesOf } from "./circles.ts";
import { rules, strangersAtTop, type SourceFile } from "./rules.ts";

const root = join(import.meta.dirname, "../..");
const folders = ["src", "test", "tools", "proto", "docs", ".ci", ".github"];
const written = /\.([jt]s|proto|md|ya?ml|service)$|\/Dockerfile$|\/\.ci\/run$/;

const paths = [
  join(root, "README.md"),
  ...folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name)),
  ),
].filter((path) => written.test(path.split(sep).join("/")));

const files: SourceFile[] = paths.map((path) => ({
  path: path
    .slice(root.length + 1)
    .split(sep)
    .join("/"),
  text: readFileSync(path, "utf8"),
}));
const source = files.filter(({ path }) => /^(src|tools)\/.*\.ts$/.test(path));
// A package has no history.
const committed = existsSync(join(root, ".git"))
  ? execFileSync("git", ["ls-files", "-z"], { cwd: root, encoding: "utf8" }).split("\0").filter(Boolean)
  : [];
const breaches = [
  ...files.flatMap((file) => rules.flatMap((rule) => rule(file))),
  ...circlesOf(source),
  ...strangersAtTop(committed),
];

for (const breach of breaches) console.error(breach);
if (breaches.length > 0) process.exitCode = 1;
// A check that looks at nothing passes too.
if (files.filter(({ path }) => path.startsWith("src/")).length < 20) {
  console.error("the house rules found hardly any source to look at");
  process.exitCode = 1;
}
