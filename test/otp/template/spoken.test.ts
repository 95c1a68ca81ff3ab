/**
 * What calls say: in each language the digits one by one, twice, and the code never before a key was pressed.
 */
import { describe, expect, test } from "vitest";
import { Secret } from "../../../src/otp/keys/secret.ts";
import { spokenFor, spokenLanguages } from "../../../src/otp/template/spoken.ts";

const spoken = (locale: string, region: string, code = "102345", brand = "Acme") =>
  spokenFor({ locale, region }, { brand, code: new Secret(code) });

test.each<[locale: string, region: string, voice: string]>([
  ["en", "GB", "en-GB"],
  ["en", "US", "en-US"],
  ["de", "AT", "de-DE"],
  ["es", "ES", "es-ES"],
  ["es", "AR", "es-MX"],
  ["fr", "SN", "fr-FR"],
  ["nl", "NL", "nl-NL"],
  ["pt", "PT", "pt-PT"],
  ["pt-BR", "BR", "pt-BR"],
  ["it", "IT", "en-GB"],
  ["it", "AT", "de-DE"],
  ["zh-Hant", "TW", "en-GB"],
])("a verification in %s to a phone of %s is spoken with the voice %s", (locale, region, voice) => {
  expect(spoken(locale, region).locale).toBe(voice);
});

describe.each(spokenLanguages)("in %s", (language) => {
  const { prompt, text } = spoken(language, "");

  test("the digits are said one by one in words, with a pause after each half, and all of it twice", () => {
    const [digits = ""] = /: ([^:]+)\. [^:]*:/.exec(text)?.slice(1) ?? [];
    expect(digits.split(". ").map((half) => half.split(", ").length)).toEqual([3, 3]);
    expect(new Set(digits.split(/, |\. /)).size).toBe(6);
    expect(text.split(digits)).toHaveLength(3);
    expect(`${prompt}${text}`).not.toMatch(/\d|[{}]/);
  });

  test("the code is not in what is said before a key was pressed", () => {
    expect(spoken(language, "", "777777").prompt).toBe(prompt);
    expect(prompt).toContain("Acme");
  });

  test("each digit has a word of its own", () => {
    const words = Array.from("0123456789", (digit) => spoken(language, "", digit.repeat(6)).text);
    expect(new Set(words).size).toBe(10);
  });
});

test("a brand with braces of its own is said as it stands", () => {
  const { prompt, text } = spoken("en", "GB", "111111", "{digits}");
  expect(prompt).toBe("This is {digits}. Press any key to hear your verification code.");
  expect(text).toMatch(/^Your \{digits\} verification code is: one, one, one\. one, one, one\. Once more: one,/);
});

test.each([
  ["1234567", [4, 3]],
  ["12345678", [4, 4]],
  ["1234567890", [5, 5]],
])("a code of the length of %s is halved", (code, halves) => {
  const [digits = ""] = /is: ([^:]+)\. Once/.exec(spoken("en", "GB", code).text)?.slice(1) ?? [];
  expect(digits.split(". ").map((half) => half.split(", ").length)).toEqual(halves);
});
