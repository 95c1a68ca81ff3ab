/**
 * OTP_TEMPLATES_FILE: read at start through the reader that is given, its faults told with all others.
 */
import { expect, test } from "vitest";
import { parseConfig } from "../../src/config/config.ts";

const files = (contents: Record<string, unknown>) => (path: string) => {
  if (!(path in contents)) throw new Error("no such file");
  return JSON.stringify(contents[path]);
};
const good = { texts: [{ locale: "it", text: "{code} per {brand}" }] };
const bad = { texts: [{ locale: "it", text: "{brand}: {code}" }] };

test("without the file there are the texts that come with the service, and nothing to warn of", () => {
  const parsed = parseConfig({}, files({}));
  expect(parsed).toMatchObject({ ok: true, warnings: [] });
  const templates = parsed.ok ? parsed.value.templates : undefined;
  expect(templates?.localeFor("it", "NL")).toBe("nl");
});

test("the file named is the one that is read", () => {
  const parsed = parseConfig({ OTP_TEMPLATES_FILE: "/etc/texts.json" }, files({ "/etc/texts.json": good }));
  expect(parsed).toMatchObject({ ok: true, warnings: [] });
  const templates = parsed.ok ? parsed.value.templates : undefined;
  expect(templates?.localeFor("it", "NL")).toBe("it");
});

test("a file that cannot be read refuses the start", () => {
  expect(parseConfig({ OTP_TEMPLATES_FILE: "/nowhere" }, files({}))).toMatchObject({
    ok: false,
    faults: ["OTP_TEMPLATES_FILE names a file that cannot be read."],
  });
});

test("the file's faults are told beside those of other variables, even when the brand is one of them", () => {
  const env = { OTP_TEMPLATES_FILE: "f", OTP_BRAND: "1st Bank", OTP_PORT: "http" };
  expect(parseConfig(env, files({ f: bad }))).toEqual({
    ok: false,
    warnings: [],
    faults: [
      "OTP_PORT must be a whole number.",
      "OTP_BRAND must be one line of visible text that does not begin with a digit.",
      "OTP_TEMPLATES_FILE texts[0].text (it) must begin with {code}, so that the code shows in a notification.",
    ],
  });
});

test("warnings come with a configuration that is good", () => {
  const texts = [{ locale: "it", text: "{code} è il codice di {brand} – scade presto" }];
  const parsed = parseConfig({ OTP_TEMPLATES_FILE: "f", OTP_BRAND: "Café Łódź" }, files({ f: { texts } }));
  expect(parsed).toMatchObject({
    ok: true,
    warnings: [
      "OTP_BRAND has characters outside GSM-7 (Ł ó ź): every SMS is sent as UCS-2, 70 characters a segment instead of 160",
      "OTP_TEMPLATES_FILE texts[0] (it) has characters outside GSM-7 (–), so it is sent as UCS-2: 1 segment (50 UCS-2 characters) at its longest",
    ],
  });
});
