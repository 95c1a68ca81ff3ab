/**
 * Providers describe themselves: whoever configures, examines or documents them reads the descriptions.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { providers } from "../../src/delivery/providers/list.ts";
import { readDocument } from "../support/readers/document.ts";
import { faultsOf } from "../support/service/environment.ts";

const root = join(import.meta.dirname, "../..");
const src = join(root, "src");
const sources = readdirSync(src, { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".ts"))
  .map((path) => ({ path, text: readFileSync(join(src, path), "utf8") }));
const described = providers.flatMap(({ name, variables }) =>
  Object.entries(variables).map(([variable, what]) => ({ provider: name, variable, ...what })),
);

test("the documents' table has each variable of a provider as the provider says it", () => {
  const { table } = readDocument("docs/providers.md");
  const rows = table("variable").filter(([name = ""]) =>
    described.some((each) => name.includes(`\`${each.variable}\``)),
  );
  const meant = described.map(({ variable, isSecret, default: text, otherwise = "none", sentence }) => [
    `\`${variable}\`${isSecret === true ? "*" : ""}`,
    text === undefined ? otherwise : `\`${text}\``,
    sentence,
  ]);
  expect(rows).toEqual(meant);
  const listed = readDocument("README.md")
    .table("variable")
    .find(([name]) => name === "`OTP_PROVIDERS`");
  expect(listed?.at(-1)).toBe(`providers in the order tried: ${providers.map(({ name }) => `\`${name}\``).join(", ")}`);
});

describe.each(providers)("$name", ({ name, variables }) => {
  test("says of what it cannot do without that it requires it, and so does a start", () => {
    const entries = Object.entries(variables);
    const required = entries.filter(([, { isRequired }]) => isRequired === true).map(([variable]) => variable);
    const said = entries.filter(([, { sentence }]) => sentence.startsWith(`required by \`${name}\``));
    expect(said.map(([variable]) => variable)).toEqual(required);
    const faults = faultsOf({ OTP_PROVIDERS: name, OTP_ALLOWED_COUNTRIES: "*" });
    expect(faults).toEqual(required.map((variable) => `${variable} is required by OTP_PROVIDERS=${name}.`));
  });

  test("has variables that nobody names outside this folder: adding one takes a file, and its line in the list", () => {
    for (const variable of Object.keys(variables)) {
      const naming = sources.filter(({ text }) => new RegExp(`\\b${variable}\\b`).test(text)).map(({ path }) => path);
      // One provider may tell of another, such as its successor.
      expect(naming.filter((path) => !path.startsWith("delivery/providers/"))).toEqual([]);
    }
    const lists = sources.filter(({ text }) => new RegExp(`\\b${name}Provider\\b`).test(text)).map(({ path }) => path);
    expect(lists.toSorted()).toEqual(["delivery/providers/list.ts", `delivery/providers/${name}.ts`].toSorted());
  });
});
