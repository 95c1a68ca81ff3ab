/**
 * The texts that come with the service, word for word, and which text a verification gets.
 */
import { describe, expect, test } from "vitest";
import type { Code } from "../../../src/otp/message/code.ts";
import { Secret } from "../../../src/otp/keys/secret.ts";
import { builtInCountries, builtInTemplates } from "../../../src/otp/template/built-in.ts";
import { bytesForAndroid, measure } from "../../../src/otp/template/encoding.ts";
import type { AndroidAppHash, WebOrigin } from "../../../src/otp/template/last-line.ts";
import { createTemplates } from "../../../src/otp/template/choice.ts";
import { renderText, type Filling, type Template } from "../../../src/otp/template/template.ts";
import { parsePhoneNumber } from "../../../src/otp/phone-number.ts";

const code = (digits: string) => new Secret(digits) as Code;
const minute = 60_000;

function render(template: Template, filling: Partial<Filling> = {}): string {
  return renderText(template, {
    code: code("123456"),
    brand: "Acme",
    purpose: "",
    lifeLeftMs: 10 * minute,
    ...filling,
  });
}

const builtIn = (locale: string) => createTemplates().templateFor({ locale, region: "001", purpose: "" });

describe("the text in", () => {
  test.each([
    [
      "en",
      "123456 is your Acme verification code. It expires in 1 minute. Never share it.",
      "123456 is your Acme verification code. It expires in 10 minutes. Never share it.",
    ],
    [
      "de",
      "123456 ist Ihr Bestätigungscode für Acme. Er ist 1 Minute gültig. Geben Sie ihn nie weiter.",
      "123456 ist Ihr Bestätigungscode für Acme. Er ist 10 Minuten gültig. Geben Sie ihn nie weiter.",
    ],
    [
      "es",
      "123456 es tu clave de un solo uso para Acme. Caduca en 1 minuto. No la compartas con nadie.",
      "123456 es tu clave de un solo uso para Acme. Caduca en 10 minutos. No la compartas con nadie.",
    ],
    [
      "fr",
      "123456 est votre code de vérification Acme. Il expire dans 1 minute. Ne le partagez jamais.",
      "123456 est votre code de vérification Acme. Il expire dans 10 minutes. Ne le partagez jamais.",
    ],
    [
      "nl",
      "123456 is je verificatiecode voor Acme. De code verloopt over 1 minuut. Deel hem met niemand.",
      "123456 is je verificatiecode voor Acme. De code verloopt over 10 minuten. Deel hem met niemand.",
    ],
    [
      "pt",
      "123456 é o seu PIN para Acme. Expira em 1 minuto. Nunca o divulgue.",
      "123456 é o seu PIN para Acme. Expira em 10 minutos. Nunca o divulgue.",
    ],
  ])("%s counts one minute and ten", (locale, one, ten) => {
    expect(render(builtIn(locale), { lifeLeftMs: minute })).toBe(one);
    expect(render(builtIn(locale), { lifeLeftMs: 10 * minute })).toBe(ten);
  });

  test.each(builtInTemplates.map(({ locale }) => locale))(
    "%s takes one segment of GSM-7 with a 20-character brand and a 10-digit code, and 140 bytes at most for Android",
    (locale) => {
      const long = { code: code("1234567890"), brand: "Twenty Letters & Son" };
      const text = render(builtIn(locale), long);
      expect(measure(text)).toMatchObject({ encoding: "GSM-7", segments: 1 });
      const forAndroid = render(builtIn(locale), { ...long, appHash: "FA+9qCX9VSu" as AndroidAppHash });
      expect(bytesForAndroid(forAndroid)).toBeLessThanOrEqual(140);
    },
  );
});

test("minutes are what is left to the second, rounded down and at least one", () => {
  const said = (lifeLeftMs: number) => /in (\d+ minutes?)/.exec(render(builtIn("en"), { lifeLeftMs }))?.[1];
  expect(said(10 * minute)).toBe("10 minutes");
  expect(said(10 * minute - 499)).toBe("10 minutes");
  expect(said(10 * minute - 1_000)).toBe("9 minutes");
  expect(said(2 * minute - 1_000)).toBe("1 minute");
  expect(said(1_000)).toBe("1 minute");
});

test("braces and dollar signs in a brand are just characters", () => {
  expect(render(builtIn("en"), { brand: "{code} $& $1" })).toBe(
    "123456 is your {code} $& $1 verification code. It expires in 10 minutes. Never share it.",
  );
});

test("a web origin's last line holds the host and the code, after an empty line, and nothing follows", () => {
  const text = render(builtIn("en"), { webOrigin: "https://shop.example:8443" as WebOrigin });
  expect(text).toBe(`${render(builtIn("en"))}\n\n@shop.example #123456`);
});

test("an app's hash is the last line", () => {
  const text = render(builtIn("en"), { appHash: "FA+9qCX9VSu" as AndroidAppHash });
  expect(text).toBe(`${render(builtIn("en"))}\nFA+9qCX9VSu`);
});

describe("without an operator's texts the language of", () => {
  const templates = createTemplates();
  test.each([
    ["a locale that is known", "fr", "DE", "fr"],
    ["a locale whose language is known", "en-GB", "DE", "en"],
    ["a locale of several subtags", "pt-Latn-BR", "DE", "pt"],
    ["a locale in capitals", "PT-br", "DE", "pt"],
    ["an unknown locale to a known country", "da", "AT", "de"],
    ["an unknown locale to an unknown country", "da", "DK", "en"],
    ["a locale that is none", "-", "ES", "es"],
    ["another locale that is none", "--", "ES", "es"],
    ["a language that only begins alike", "den", "DK", "en"],
    ["no locale to Germany", "", "DE", "de"],
    ["no locale to Switzerland", "", "CH", "de"],
    ["no locale to Belgium", "", "BE", "nl"],
    ["no locale to Mexico", "", "MX", "es"],
    ["no locale to Argentina", "", "AR", "es"],
    ["no locale to France", "", "FR", "fr"],
    ["no locale to Senegal", "", "SN", "fr"],
    ["no locale to Brazil", "", "BR", "pt"],
    ["no locale to Angola", "", "AO", "pt"],
    ["no locale to Canada", "", "CA", "en"],
    ["no locale to Great Britain", "", "GB", "en"],
    ["no locale to a number of no country", "", "001", "en"],
  ])("%s", (_, requested, region, language) => {
    expect(templates.localeFor(requested, region)).toBe(language);
  });

  test("every country of the table is one that a phone can have", () => {
    for (const [country, language] of builtInCountries) {
      expect(country).toMatch(/^[A-Z]{2}$/);
      expect(new Intl.DisplayNames("en", { type: "region", fallback: "none" }).of(country)).toBeDefined();
      expect(templates.localeFor("", country)).toBe(language);
    }
  });

  test("the region comes from the number, not from its calling code", () => {
    const region = (phone: string) => {
      const parsed = parsePhoneNumber(phone);
      return parsed.ok ? templates.localeFor("", parsed.value.region) : undefined;
    };
    expect(region("+41791234567")).toBe("de");
    expect(region("+5511961234567")).toBe("pt");
    expect(region("+590690001234")).toBe("fr");
    expect(region("+15062345678")).toBe("en");
  });
});

describe("of an operator's texts", () => {
  const own = (locale: string, text: string, more: Partial<Template> = {}): Template => ({
    locale,
    country: undefined,
    purposes: undefined,
    forms: { other: text },
    ...more,
  });
  const login = new Map([["login", "signing in"]]);
  const templates = createTemplates(
    [
      own("en", "own en"),
      own("en", "own en login {purpose}", { purposes: login }),
      own("en", "own en IN", { country: "IN" }),
      own("pt-BR", "own pt-BR"),
      own("it", "own it"),
      own("it", "own it CH", { country: "CH" }),
      own("hi", "own hi IN", { country: "IN" }),
      own("hi", "own hi IN login", { country: "IN", purposes: login }),
    ],
    new Map([
      ["IT", "it-IT"],
      ["CH", "it"],
    ]),
  );

  test.each([
    ["one replaces that of the service", "en", "GB", "", "own en"],
    ["the purpose's own comes before the general one", "en", "GB", "login", "own en login signing in"],
    ["a purpose that has none gets the general one", "en", "GB", "payment", "own en"],
    ["the country's own comes before the purpose's", "en", "IN", "login", "own en IN"],
    ["the country's and purpose's own comes before both", "hi", "IN", "login", "own hi IN login"],
    ["a region's tag is found by itself", "pt-br", "PT", "", "own pt-BR"],
    ["a language does not find its region's tag", "pt", "BR", "", /é o seu PIN/],
    ["a country's text is for no other country", "hi", "DE", "", /Bestätigungscode/],
    ["the operator's language of a country falls back too", "", "IT", "", "own it"],
    ["the operator's language of a country wins over the table", "", "CH", "", "own it CH"],
    ["a requested language wins over the operator's of the country", "de", "CH", "", /Bestätigungscode/],
  ])("%s", (_, requested, region, purpose, expected) => {
    const locale = templates.localeFor(requested, region);
    expect(render(templates.templateFor({ locale, region, purpose }), { purpose })).toMatch(expected);
    // What was chosen is chosen again.
    expect(templates.localeFor(locale, region)).toBe(locale);
  });

  test("a language that was taken out since is replaced by what a new send would get", () => {
    expect(createTemplates().templateFor({ locale: "it", region: "CH", purpose: "" }).locale).toBe("de");
  });
});
