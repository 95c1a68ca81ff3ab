/**
 * The list of mutants fits the tree it stands in.
 */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { mutants } from "./mutants.ts";

test.each(mutants)("the mutant '$name' changes one place", ({ file, text, replacement }) => {
  const source = readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");
  expect(source.split(text)).toHaveLength(2);
  expect(replacement).not.toBe(text);
});
