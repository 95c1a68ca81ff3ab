/**
 * What the form says: a sentence for every refusal there is in six languages, times in words, and numbers with their countries.
 */
import { readFileSync } from "node:fs";
import { getExampleNumber, getCountries, getCountryCallingCode, type CountryCode } from "libphonenumber-js/max";
import { describe, expect, test } from "vitest";
import { Reason } from "../../gen/otp/v1/otp_service_pb.ts";
import { troubleOf } from "../../src/elements/client.ts";
import { onTheClock } from "../../src/elements/countdown.ts";
import { callingCodeOf, countries, countriesOf, countryOfLocale } from "../../src/elements/countries.ts";
import { explain, type Trouble } from "../../src/elements/refusals.ts";
import { speechFor } from "../../src/elements/speech.ts";
import { en } from "../../src/elements/words/en.ts";
import { bindableOrigin } from "../../src/elements/web-otp.ts";
import { builtInTemplates } from "../../src/otp/template/built-in.ts";
import { parsePhoneNumber } from "../../src/otp/phone-number.ts";

const languages = builtInTemplates.map(({ locale }) => locale);
const english = speechFor(["en"]);
const say = (trouble: Trouble) => explain(trouble, english).sentence;
const general = "That did not work, and the server did not say why. Try again in a moment.";

describe.each(languages)("in %s", (language) => {
  const speech = speechFor([language]);

  test("the form speaks it, and everything in it", () => {
    expect(speech.language).toBe(language);
    expect(Object.keys(speech.words)).toEqual(Object.keys(en));
    for (const [name, said] of Object.entries(speech.words)) {
      expect([name, said]).toEqual([name, expect.stringMatching(/\S/)]);
      // What is filled in is the same as in English, in each of the forms for a count.
      const holes = (text: string) => text.split("|").map((form) => form.match(/\{\w+\}/g));
      expect([name, holes(said)]).toEqual([name, holes(en[name as keyof typeof en])]);
    }
  });

  const reasons = Object.keys(Reason).filter((name) => /^[A-Z_]+$/.test(name) && name !== "UNSPECIFIED");
  test.each(reasons)("%s is a sentence", (reason) => {
    const unknown = explain({ reason: "OF_THE_FUTURE" }, speech).sentence;
    for (const trouble of [{ reason }, { reason, waitSeconds: 30 }, { reason, attemptsLeft: 2 }]) {
      const said = explain(trouble, speech).sentence;
      expect(said).toMatch(/^\p{Lu}[^_{}|]+\.$/u);
      expect(said).not.toContain(reason);
      expect(said).not.toBe(unknown);
      expect(said).not.toMatch(/undefined|NaN/);
    }
  });
});

describe("a refusal", () => {
  test.each<[string, Trouble]>([
    ["a reason of the future", { reason: "OF_THE_FUTURE" }],
    ["no reason", troubleOf({ code: "internal", message: "<img src=x onerror=alert(1)>" })],
    ["markup for a reason", troubleOf({ reason: "<b>x</b>" })],
    ["what is no object", troubleOf("secret words")],
    ["a reason that is no text", troubleOf({ reason: { a: 1 } })],
    ["a name that only looks like a reason", { reason: "constructor" }],
  ])("%s gets the general sentence", (_, trouble) => expect(say(trouble)).toBe(general));

  test("a wrong code says how many attempts are left", () => {
    const wrong = (attempts_remaining: number) =>
      explain(troubleOf({ reason: "CODE_MISMATCH", attempts_remaining }), english);
    expect(wrong(4)).toEqual({ about: "code", sentence: "That is not the code. 4 attempts left." });
    expect(wrong(1)).toEqual({ about: "code", sentence: "That is not the code. 1 attempt left." });
    expect(wrong(0)).toMatchObject({ about: "over" });
  });

  test("a limit says how long to wait", () => {
    const limited = (retry_after_seconds: number) => say(troubleOf({ reason: "IP_RATE_LIMITED", retry_after_seconds }));
    expect(limited(1)).toBe("There were too many tries from your network. Try again in 1 second.");
    expect(limited(540)).toBe("There were too many tries from your network. Try again in about 9 minutes.");
  });

  test("no connection and no answer have their own", () => {
    expect(say({ reason: undefined, silence: "unreachable" })).toMatch(/cannot be reached/);
    expect(say({ reason: undefined, silence: "late" })).toMatch(/took too long/);
  });

  test("Connect's are read by their detail", () => {
    const said = { code: "not_found", details: [{ type: "x" }, { debug: { reason: "REASON_REQUEST_NOT_FOUND" } }] };
    expect(troubleOf(said).reason).toBe("REQUEST_NOT_FOUND");
  });
});

describe("times in words", () => {
  test.each([
    [0, "1 second"],
    [0.2, "1 second"],
    [28.1, "29 seconds"],
    [90, "90 seconds"],
    [91, "about 2 minutes"],
    [5_400, "about 90 minutes"],
    [5_401, "about 2 hours"],
    [86_400, "about 24 hours"],
  ])("%d seconds are %s", (seconds, words) => expect(english.inWords(seconds)).toBe(words));

  test("in another language", () => expect(speechFor(["de-AT"]).inWords(540)).toBe("etwa 9 Minuten"));
  test("and on the clock", () => expect([600, 65, 9, 0].map(onTheClock)).toEqual(["10:00", "1:05", "0:09", "0:00"]));
});

test.each([
  [["nl-BE"], "nl"],
  [["xx", "pt_BR"], "pt"],
  [["DE"], "de"],
  [["constructor"], "en"],
  [["<b>"], "en"],
  [[], "en"],
])("of the tags %j the form speaks %s", (tags, language) => expect(speechFor(tags).language).toBe(language));

describe("countries", () => {
  const path = new URL("../../node_modules/libphonenumber-js/examples.mobile.json", import.meta.url);
  const examples = JSON.parse(readFileSync(path, "utf8")) as Parameters<typeof getExampleNumber>[1];

  test("all that the server knows are there, with their calling codes", () => {
    expect(countries.toSorted()).toEqual(getCountries().toSorted());
    for (const country of countries) expect(callingCodeOf(country)).toBe(getCountryCallingCode(country as CountryCode));
  });

  test("a number as it is written in each is read by the server", () => {
    const read = countries.map((country) => {
      const example = getExampleNumber(country as CountryCode, examples);
      const parsed = parsePhoneNumber(`+${callingCodeOf(country)} ${example?.formatNational() ?? ""}`);
      return [country, example?.number, parsed.ok ? parsed.value.e164 : parsed.refusal.reason];
    });
    expect(read.filter(([, expected, got]) => expected !== got)).toEqual([]);
  });

  test("a number with + is of those that share its calling code, the main one first", () => {
    expect([countriesOf("+31 6 12")[0], countriesOf("+1415")[0], countriesOf("+7 701")[0]]).toEqual(["NL", "US", "RU"]);
    expect(countriesOf("+44")).toEqual(["GB", "GG", "IM", "JE"]);
    expect([countriesOf("+"), countriesOf("+999"), countriesOf("+21")]).toEqual([[], [], []]);
  });

  test("a language has the country of its tag, or the one where most speak it", () => {
    expect(["nl-BE", "de", "pt-BR", "en", "x", "<b>", ""].map(countryOfLocale)).toEqual([
      "BE",
      "DE",
      "BR",
      "US",
      undefined,
      undefined,
      undefined,
    ]);
  });
});

test.each([
  ["http://localhost:8080", "http://localhost:8080"],
  ["https://shop.example", "https://shop.example"],
  ["http://127.0.0.1:8080", ""],
  ["https://127.0.0.1", ""],
  ["http://[::1]:8080", ""],
  ["https://[::1]", ""],
  ["http://shop.example", ""],
])("at %s the SMS is bound to %j", (at, bound) =>
  expect(bindableOrigin(new URL(at) as unknown as Location)).toBe(bound),
);

test("the form can be imported where there are no elements, as where a web page is rendered by a server", async () => {
  expect("HTMLElement" in globalThis).toBe(false);
  const { OtpForm } = await import("../../src/elements/otp-form.ts");
  expect(OtpForm.observedAttributes).toEqual(["locale", "phone"]);
});
