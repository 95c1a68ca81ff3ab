/**
 * The operator's file of texts: what it may say, and every fault and warning it can earn.
 */
import { describe, expect, test } from "vitest";
import type { Code } from "../../../src/otp/message/code.ts";
import { Secret } from "../../../src/otp/keys/secret.ts";
import { parseTemplates } from "../../../src/otp/template/file.ts";
import { warningsOfBrand } from "../../../src/otp/template/lint.ts";
import { renderText } from "../../../src/otp/template/template.ts";

const parse = (file: unknown, brand = "Acme") => parseTemplates(JSON.stringify(file), brand);
const ofTexts = (...texts: unknown[]) => parse({ texts });
const good = "{code} is your {brand} code.";

describe("a good file", () => {
  const file = {
    countries: { IT: "it", CH: "fr" },
    texts: [
      {
        locale: "pl",
        text: {
          one: "{code} to kod {brand}. Wygasa za {minutes} minute.",
          few: "{code} to kod {brand}. Wygasa za {minutes} minuty.",
          many: "{code} to kod {brand}. Wygasa za {minutes} minut.",
        },
      },
      { locale: "it", text: "{code} per {brand}" },
      { locale: "it", text: "{code} per {purpose} in {brand}", purposes: { login: "accedere", pay: "pagare" } },
      {
        locale: "en",
        country: "IN",
        text: "{code} is your code for {brand}.",
        dlt_template_id: "1107161234567890123",
        dlt_entity_id: "1101234567890123456",
      },
    ],
  };
  const parsed = parse(file);
  const said = (requested: string, region: string, purpose = "", minutes = 10) => {
    const locale = parsed.templates.localeFor(requested, region);
    const template = parsed.templates.templateFor({ locale, region, purpose });
    const code = new Secret("123456") as Code;
    return renderText(template, { code, brand: "Acme", purpose, lifeLeftMs: minutes * 60_000 });
  };

  test("has neither faults nor warnings", () => {
    expect(parsed).toMatchObject({ faults: [], warnings: [] });
  });

  test("counts minutes as its language does", () => {
    expect([1, 2, 5].map((minutes) => said("pl", "PL", "", minutes))).toEqual([
      "123456 to kod Acme. Wygasa za 1 minute.",
      "123456 to kod Acme. Wygasa za 2 minuty.",
      "123456 to kod Acme. Wygasa za 5 minut.",
    ]);
  });

  test("says what the code is for in its own words, and nothing of a purpose it has no words for", () => {
    expect(said("", "IT", "login")).toBe("123456 per accedere in Acme");
    expect(said("", "IT", "pay")).toBe("123456 per pagare in Acme");
    expect(said("", "IT", "visit http://evil.example")).toBe("123456 per Acme");
    expect(said("", "IT")).toBe("123456 per Acme");
  });

  test("chooses the language of a country", () => {
    expect(said("", "CH")).toMatch(/^123456 est votre code/);
    expect(said("", "AT")).toMatch(/^123456 ist Ihr/);
  });

  test("keeps the ids of its registered texts", () => {
    expect(parsed.templates.templateFor({ locale: "en", region: "IN", purpose: "" })).toMatchObject({
      dltTemplateId: "1107161234567890123",
      dltEntityId: "1101234567890123456",
    });
    expect(parsed.templates.templateFor({ locale: "en", region: "GB", purpose: "" })).not.toHaveProperty(
      "dltTemplateId",
    );
  });

  test("has no text that is not registered where texts are, whatever language is asked for", () => {
    for (const requested of ["de", "pl", "en-GB", "hi", ""])
      expect(said(requested, "IN")).toBe("123456 is your code for Acme.");
    expect(said("de", "GB")).toMatch(/^123456 ist Ihr/);
    // A call may be in any language.
    expect(parsed.templates.localeFor("de", "IN")).toBe("de");
    const hindi = { locale: "HI", country: "IN", text: "{code} - {brand}", dlt_template_id: "1107161234567890124" };
    const languages = (texts: readonly object[], ...asked: string[]) => {
      const { templates, faults } = parse({ texts });
      expect(faults).toEqual([]);
      return asked.map((locale) => templates.templateFor({ locale, region: "IN", purpose: "" }).locale);
    };
    expect(languages([hindi], "de", "en", "")).toEqual(["HI", "HI", "HI"]);
    expect(languages([...file.texts, hindi], "hi", "de", "en")).toEqual(["HI", "en", "en"]);
    // A text for a purpose makes its language one of those.
    const login = { ...hindi, text: "{code} {brand}: {purpose}", purposes: { login: "लॉग इन" } };
    const general = { locale: "hi", text: "{code} {brand}" };
    expect(languages([...file.texts, login, general], "hi", "de", "")).toEqual(["hi", "en", "en"]);
  });

  test("may be empty, and may begin with a byte order mark", () => {
    expect(parse({})).toMatchObject({ faults: [], warnings: [] });
    expect(parseTemplates('\uFEFF{"texts":[]}', "Acme")).toMatchObject({ faults: [], warnings: [] });
  });
});

describe("a file is refused that", () => {
  test.each([
    ["is cut short", '{"texts": [', ["is not JSON"]],
    ["has a comma too many", '{"texts": [],}', ["is not JSON (line 1 column 14)"]],
    ["is a list", "[]", ['must be an object such as {"texts": []}']],
    ["is null", "null", ['must be an object such as {"texts": []}']],
    ["has its texts twice", '{"texts":[],"texts":[]}', ["/texts is given twice"]],
    ["misspells texts", '{"text":[]}', ['has the unknown entry "text"']],
    ["has texts by name", '{"texts":{}}', ["texts must be a list"]],
    ["is larger than 256 KiB", `{"texts":[]${" ".repeat(262_144)}}`, ["is larger than 256 KiB"]],
  ])("%s", (_, json, faults) => {
    expect(parseTemplates(json, "Acme").faults).toEqual(faults);
  });

  test("holds no JSON, and nothing of it is quoted: it may be the file of a key", () => {
    const [fault] = parseTemplates("c2VjcmV0LXNlY3JldC1zZWNyZXQ", "Acme").faults;
    expect(fault).toBe("is not JSON");
  });
});

describe("an entry is refused that", () => {
  test.each<[string, unknown, string[]]>([
    ["is no object", 1, ["texts[0] must be an object"]],
    ["is empty", {}, ["texts[0] lacks locale", "texts[0] lacks text"]],
    ["has an unknown key", { locale: "it", text: good, dlt: "1" }, ['texts[0] (it) has the unknown entry "dlt"']],
    [
      "has no such locale",
      { locale: "english", text: good },
      ["texts[0].locale (english) must be a BCP 47 tag such as pt or pt-BR"],
    ],
    [
      "has a locale without plural rules",
      { locale: "xx", text: good },
      ["texts[0].locale (xx) is a language whose plurals are not known here"],
    ],
    [
      "has no such country",
      { locale: "it", country: "ZZ", text: good },
      ["texts[0].country (it, ZZ) must be a country in ISO 3166-1 alpha-2, such as AT"],
    ],
    [
      "has a text that is none",
      { locale: "it", text: 5 },
      ["texts[0].text (it) must be a text, or a text for each plural form (zero, one, two, few, many, other)"],
    ],
    [
      "gives an id as a number, which would lose digits",
      { locale: "it", text: good, dlt_template_id: 1107 },
      ["texts[0].dlt_template_id (it) must be in quotes"],
    ],
    [
      "does not begin with the code",
      { locale: "it", text: "{brand}: {code}" },
      ["texts[0].text (it) must begin with {code}, so that the code shows in a notification"],
    ],
    [
      "has no code",
      { locale: "it", text: "Hello from {brand}" },
      ["texts[0].text (it) must begin with {code}, so that the code shows in a notification"],
    ],
    [
      "has the code twice",
      { locale: "it", text: "{code} {brand} {code}" },
      ["texts[0].text (it) must hold {code} only once"],
    ],
    [
      "runs on after the code",
      { locale: "it", text: "{code}{minutes} {brand}" },
      ["texts[0].text (it) must have a space or a mark after {code}, or the code cannot be told apart"],
    ],
    [
      "does not name the brand",
      { locale: "it", text: "{code} is your code" },
      ["texts[0].text (it) must hold {brand}, so that the reader knows who sent it"],
    ],
    [
      "has an unknown placeholder",
      { locale: "it", text: "{code} {brand} {Minutes}" },
      ["texts[0].text (it) has the unknown placeholder {Minutes}; there are {code}, {brand}, {minutes}, {purpose}"],
    ],
    [
      "has a lone brace",
      { locale: "it", text: "{code} {brand} }" },
      ["texts[0].text (it) has a brace that belongs to no placeholder"],
    ],
    [
      "has a control character",
      { locale: "it", text: "{code} {brand}\u0000." },
      ["texts[0].text (it) has a control character or half a character"],
    ],
    [
      "has an invisible character",
      { locale: "it", text: "{code} {brand}\u200b." },
      ["texts[0].text (it) has a control character or half a character"],
    ],
    [
      "has half a character",
      { locale: "it", text: "{code} {brand} \ud83d." },
      ["texts[0].text (it) has a control character or half a character"],
    ],
    [
      "ends in an empty line",
      { locale: "it", text: "{code} {brand}\n" },
      ["texts[0].text (it) must not have white space at the end of a line"],
    ],
    [
      "is longer than 500 characters",
      { locale: "it", text: `${good}${"a".repeat(500)}` },
      ["texts[0].text (it) must have at most 500 characters"],
    ],
    [
      "takes 4 segments",
      { locale: "it", text: `${good}${"a".repeat(440)}` },
      ["texts[0] (it) takes 4 segments (469 GSM-7 characters) at its longest; at most 3 are allowed"],
    ],
    [
      "lacks plural forms",
      { locale: "pl", text: { one: good, other: good } },
      [
        "texts[0] (pl) lacks the plural form few, which pl has within 1 to 10 minutes",
        "texts[0] (pl) lacks the plural form many, which pl has within 1 to 10 minutes",
      ],
    ],
    [
      "has a plural form of another language",
      { locale: "en", text: { one: good, few: good, other: good } },
      ["texts[0] (en) has the plural form few, which en does not know"],
    ],
    [
      "has a fault in one plural form",
      { locale: "en", text: { one: "1 {brand}", other: good } },
      ["texts[0].text.one (en) must begin with {code}, so that the code shows in a notification"],
    ],
    [
      "has a purpose's place without purposes",
      { locale: "it", text: "{code} {brand} {purpose}" },
      ["texts[0] (it) has {purpose}, so it must list its purposes and the words for each"],
    ],
    [
      "has a purpose that no object gives back",
      { locale: "it", text: good, purposes: { login: "x", constructor: "y" } },
      ["texts[0].purposes (it) must not have the name constructor in it"],
    ],
    [
      "has no words for its purposes",
      { locale: "en", text: good, purposes: ["login"] },
      ["texts[0].purposes (en) must be an object of words by purpose"],
    ],
    [
      "names no purpose",
      { locale: "en", text: good, purposes: {} },
      ["texts[0].purposes (en) must name at least one purpose"],
    ],
    [
      "has words of two lines",
      { locale: "en", text: good, purposes: { login: "a\nb" } },
      ["texts[0].purposes.login (en) must be one line of 1 to 40 visible characters"],
    ],
    [
      "leaves a send without that purpose without a text",
      { locale: "it", text: good, purposes: { login: "x" } },
      [
        "texts[0] (it) needs a text in the same locale without purposes beside it, for a send with another purpose or none",
      ],
    ],
  ])("%s", (_, entry, faults) => {
    expect(ofTexts(entry)).toMatchObject({ faults, warnings: [] });
  });

  test("is for the same locale, country and purpose as another, however it is spelt", () => {
    const { faults } = ofTexts(
      { locale: "pt-BR", text: good },
      { locale: "pt-br", text: good },
      { locale: "pt-BR", country: "BR", text: good },
      { locale: "pt-BR", text: good, purposes: { a: "a", b: "b" } },
      { locale: "pt-BR", text: good, purposes: { b: "b", c: "c" } },
    );
    expect(faults).toEqual([
      "texts[1] (pt-br) is for the same locale, country and purpose as texts[0] (pt-BR)",
      "texts[4] (pt-BR) is for the same locale, country and purpose as texts[3] (pt-BR)",
    ]);
  });
});

test("a country's language must be one that there is a text in for that country", () => {
  const { faults } = parse({
    countries: { IT: "it-IT", SM: "it", CH: "de-CH", at: "de", NO: "no!" },
    texts: [{ locale: "it", country: "SM", text: good }],
  });
  expect(faults).toEqual([
    "countries.at must be a country in ISO 3166-1 alpha-2, such as AT",
    "countries.NO must be a BCP 47 tag such as pt or pt-BR",
  ]);
  const languages = {
    countries: { IT: "it-IT", SM: "it", CH: "de-CH" },
    texts: [{ locale: "it", country: "SM", text: good }],
  };
  expect(parse(languages).faults).toEqual(["countries.IT names it-IT, in which there is no text"]);
});

test("all faults of all entries are told together, and the warnings of the good ones with them", () => {
  const { faults, warnings } = parse({
    countries: { IT: "it" },
    texts: [
      { locale: "de", country: "AT", text: "Ihr Code: {code} {foo}" },
      { locale: "english", text: good, country: "Austria" },
      { locale: "es", text: "{code} es tu código de {brand}." },
      { locale: "fr", text: good },
      { locale: "fr", text: good },
    ],
  });
  expect(faults).toEqual([
    "texts[0].text (de, AT) must begin with {code}, so that the code shows in a notification",
    "texts[0].text (de, AT) must hold {brand}, so that the reader knows who sent it",
    "texts[0].text (de, AT) has the unknown placeholder {foo}; there are {code}, {brand}, {minutes}, {purpose}",
    "texts[1].locale (english, Austria) must be a BCP 47 tag such as pt or pt-BR",
    "texts[1].country (english, Austria) must be a country in ISO 3166-1 alpha-2, such as AT",
    "texts[4] (fr) is for the same locale, country and purpose as texts[3] (fr)",
    "countries.IT names it, in which there is no text",
  ]);
  expect(warnings).toEqual([
    "texts[2] (es) has characters outside GSM-7 (ó), so it is sent as UCS-2: 1 segment (32 UCS-2 characters) at its longest",
  ]);
});

describe("an operator is warned of a text that", () => {
  const warningsOf = (text: unknown, brand = "Acme", more = {}) =>
    parse(
      {
        texts: [
          { locale: "en", text: good },
          { locale: "en", country: "GB", text, ...more },
        ],
      },
      brand,
    ).warnings;
  test.each<[string, string, string[]]>([
    [
      "takes UCS-2 for one apostrophe",
      "{code} is {brand}’s code",
      ["has characters outside GSM-7 (’), so it is sent as UCS-2: 1 segment (25 UCS-2 characters) at its longest"],
    ],
    [
      "takes UCS-2 for a space that looks like any other",
      "{code} {brand}\u00a0code",
      ["has characters outside GSM-7 (U+00A0), so it is sent as UCS-2: 1 segment (20 UCS-2 characters) at its longest"],
    ],
    [
      "takes two segments",
      `${good}${"a".repeat(132)}`,
      [
        "takes 2 segments (161 GSM-7 characters) at its longest, each of which is paid for",
        "takes 173 bytes at its longest with an android_app_hash below it; Android apps are handed at most 140",
      ],
    ],
    [
      "leaves no room for an app's hash",
      `${good}${"a".repeat(100)}`,
      ["takes 141 bytes at its longest with an android_app_hash below it; Android apps are handed at most 140"],
    ],
    [
      "holds another number",
      "{code} {brand}. Call 0800 555",
      ["has a number of 4 or more digits, which a phone may offer instead of the code"],
    ],
    ["is just right", `${good}${"a".repeat(99)}`, []],
    ["has lines and minutes and short numbers", "{code} {brand}\n\nValid {minutes} min, 24/7.", []],
  ])("%s", (_, text, warnings) => {
    expect(warningsOf(text)).toEqual(warnings.map((rest) => `texts[1] (en, GB) ${rest}`));
  });

  test("grows too long by its longest plural form, its longest words or the brand", () => {
    const other = `${good}${"a".repeat(132)}`;
    const two = "texts[1] (en, GB) takes 2 segments";
    expect(warningsOf({ one: good, other })[0]).toContain(two);
    expect(
      warningsOf(`{code} {brand} {purpose}${"a".repeat(120)}`, "Acme", { purposes: { a: "a", b: "b".repeat(40) } })[0],
    ).toContain(two);
    expect(warningsOf(`${good}${"a".repeat(98)}`, "A".repeat(38))[0]).toContain(two);
    expect(warningsOf(`${good}${"a".repeat(42)}`, "Łódź")[0]).toContain(`${two} (71 UCS-2 characters)`);
  });
});

test("the brand is measured with the texts that come with the service", () => {
  expect(warningsOfBrand("A".repeat(32))).toEqual([]);
  expect(warningsOfBrand("A".repeat(33))).toEqual([
    "OTP_BRAND is long: the texts in de no longer fit one segment, or Android's 140 bytes with an android_app_hash",
  ]);
  expect(warningsOfBrand("Łódź Café")).toEqual([
    "OTP_BRAND has characters outside GSM-7 (Ł ó ź): every SMS is sent as UCS-2, 70 characters a segment instead of 160",
  ]);
});
