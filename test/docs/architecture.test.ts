/**
 * The map leads to places that there are: every file that docs/architecture.md and docs/databases.md name.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");

test.each(["docs/architecture.md", "docs/databases.md"])("%s names what there is", (document) => {
  const text = readFileSync(join(root, document), "utf8");
  const linked = [...text.matchAll(/\]\(([^)#]+)[^)]*\)/g)].map(([, path = ""]) => join(dirname(document), path));
  const quoted = [...text.matchAll(/`((?:src|test|tools|proto)\/[\w./-]+)`/g)]
    .map(([, path = ""]) => path)
    .filter((path) => !path.includes("NAME"));
  const named = [...linked, ...quoted];
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});
