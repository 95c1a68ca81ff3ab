/**
 * The list of mutants fits the tree it stands in.
 */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { mutants } from "./mutants.ts";
import { fileOf, withMistake } from "./places.ts";

test.each(mutants)("the mutant '$name' changes one place", (mutant) => {
  const source = readFileSync(new URL(`../../${fileOf(mutant)}`, import.meta.url), "utf8");
  expect(withMistake(source, mutant)).not.toBe(source);
});

test("every mutant has a name of its own", () => {
  expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
});
