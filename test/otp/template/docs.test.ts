/**
 * What docs/templates.md shows is true: its example is a good file, and its table is the one in use.
 */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { builtInCountries } from "../../../src/otp/template/built-in.ts";
import { parseTemplates } from "../../../src/otp/template/file.ts";

const page = readFileSync(new URL("../../../docs/templates.md", import.meta.url), "utf8");

test("the example file has neither faults nor warnings", () => {
  const [, example] = /```json\n(.*?)```/s.exec(page) ?? [];
  expect(parseTemplates(String(example), "Acme")).toMatchObject({ faults: [], warnings: [] });
});

test("the table of countries is the one in use", () => {
  const tags = { German: "de", Spanish: "es", French: "fr", Dutch: "nl", Portuguese: "pt" };
  const rows = Object.entries(tags).flatMap(([language, tag]) => {
    const [, countries = ""] = new RegExp(`^\\| ${language} +\\| ([A-Z ]+)\\|$`, "m").exec(page) ?? [];
    return countries
      .trim()
      .split(" ")
      .map((country) => [country, tag]);
  });
  expect(new Map(rows as [string, string][])).toEqual(builtInCountries);
});
