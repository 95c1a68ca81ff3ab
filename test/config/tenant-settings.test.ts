/**
 * A tenant's settings: read by the operator's own shapes, told of with the operator's own sentences, and given up one by
 * one for the operator's where they cannot be read.
 */
import { describe, expect, test } from "vitest";
import { parseConfig } from "../../src/config/config.ts";
import {
  readTenant,
  recordedSettings,
  settingNames,
  settingsOf,
  settingVariables,
  warningsOf,
  type TenantSettings,
} from "../../src/config/tenant-settings.ts";
import { configOf } from "../support/service/world.ts";

const operator = configOf({ OTP_BRAND: "Operator", OTP_ALLOWED_COUNTRIES: "DE", OTP_CODE_LENGTH: "7" });

function read(settings: TenantSettings | string, disableMs: number | null = null) {
  const text = typeof settings === "string" ? settings : recordedSettings(settings);
  const { tenant, faults } = readTenant({ id: "acme", settings: text, disableMs }, operator);
  return { tenant, faults: faults.map(({ setting, rest }) => `${setting} ${rest}`) };
}

test("a tenant that sets nothing has what the operator has, and its name for an audience", () => {
  expect(read({})).toEqual({
    tenant: {
      id: "acme",
      policy: operator.policy,
      brand: "Operator",
      templates: operator.templates,
      audience: "acme",
      origins: undefined,
      isDisabled: false,
    },
    faults: [],
  });
});

test("every setting takes the place of the operator's, and leaves the rest", () => {
  const { tenant, faults } = read({
    brand: "Acme",
    texts: '{"texts":[{"locale":"en","text":"{code} for {brand}"}]}',
    countries: "nl, be",
    phone_limits: "1@1m",
    resend_gaps: "10s",
    code_length: "6",
    code_length_max: "10",
    ttl_seconds: "300",
    max_attempts: "3",
    daily_cap: "500",
    fraud_guard: "enforce",
    audience: "https://acme.example",
    origins: "https://Acme.example:443,http://localhost:5173",
  });
  expect(faults).toEqual([]);
  const { policy } = tenant;
  expect(policy).toEqual({
    ...operator.policy,
    allowedCountries: new Set(["NL", "BE"]),
    phoneLimits: [{ burst: 1, intervalMs: 60_000 }],
    resendGapsMs: [10_000],
    codeLength: 6,
    codeLengthMax: 10,
    ttlMs: 300_000,
    attemptsMax: 3,
    dailyMessagesMax: 500,
    fraudGuard: "enforce",
  });
  expect(tenant).toMatchObject({ brand: "Acme", audience: "https://acme.example" });
  expect(tenant.origins).toEqual(new Set(["https://acme.example", "http://localhost:5173"]));
  expect(tenant.templates.templateFor({ locale: "en", region: "GB", purpose: "" }).forms).toEqual({
    other: "{code} for {brand}",
  });
});

test("* opens all countries to a tenant", () => {
  expect(read({ countries: "*" }).tenant.policy.allowedCountries).toBeUndefined();
});

test("a daily cap of 0 is none where the operator has none, and else the operator's", () => {
  expect(read({ daily_cap: "0" }).tenant.policy).toHaveProperty("dailyMessagesMax", undefined);
  const capped = { ...operator, policy: { ...operator.policy, dailyMessagesMax: 5_000 } };
  const { tenant, faults } = readTenant({ id: "acme", settings: '{"daily_cap":"0"}', disableMs: null }, capped);
  expect(tenant.policy.dailyMessagesMax).toBe(5_000);
  expect(faults).toEqual([{ setting: "daily_cap", rest: "must be at least 1, since OTP_DAILY_MESSAGE_CAP is set" }]);
});

test("a tenant with longer codes has them, whatever the operator's maximum", () => {
  expect(read({ code_length: "10" }).tenant.policy).toMatchObject({ codeLength: 10, codeLengthMax: 10 });
});

test("a moment at which it was disabled disables it", () => {
  expect(read({}, 1).tenant.isDisabled).toBe(true);
});

describe("a setting that cannot be read", () => {
  const wrong: [keyof TenantSettings, string][] = [
    ["brand", "1st"],
    ["brand", "x".repeat(41)],
    ["countries", "NL,XX"],
    ["phone_limits", "5@10m,6"],
    ["phone_limits", "1@1s,2@1s,3@1s,4@1s,5@1s"],
    ["resend_gaps", "1h"],
    ["code_length", "5"],
    ["code_length_max", "11"],
    ["ttl_seconds", "601"],
    ["max_attempts", "many"],
    ["fraud_guard", "off"],
  ];

  test.each(wrong)("%s %j is told of as the operator's is at start", (name, value) => {
    const { faults } = read({ [name]: value });
    const variable = String(settingVariables[name]);
    const parsed = parseConfig({ [variable]: value }, () => "");
    const said = (parsed.ok ? [] : parsed.faults).map((fault) => fault.replace(variable, name).replace(/\.$/, ""));
    expect(faults).toEqual(said);
    expect(faults).toHaveLength(1);
  });

  test.each(wrong)("%s %j leaves the operator's, and keeps what else is set", (name, value) => {
    const plain = read({ audience: "aud" }).tenant;
    expect(read({ audience: "aud", [name]: value }).tenant).toEqual(plain);
  });

  test.each<[string, TenantSettings, string]>([
    ["an audience of two words", { audience: "a b" }, "audience must be 1 to 255 visible ASCII characters"],
    ["no audience", { audience: "" }, "audience must be 1 to 255 visible ASCII characters"],
    ["an origin with a path", { origins: "https://a.example/" }, "origins must be a list such as https://shop.example"],
    ["an insecure origin", { origins: "http://a.example" }, "origins must be a list such as https://shop.example"],
    [
      "texts without a code",
      { texts: '{"texts":[{"locale":"en","text":"Hi"}]}' },
      "texts texts[0].text (en) must begin",
    ],
    ["texts that are no JSON", { texts: "{code}" }, "texts is not JSON"],
    ["texts of more than 32 KiB", { texts: " ".repeat(32_769) }, "texts must have at most 32 KiB"],
    ["a maximum below the operator's length", { code_length_max: "6" }, "code_length_max must be at least the code"],
    ["its own maximum below its own length", { code_length: "9", code_length_max: "8" }, "code_length_max must be at"],
  ])("is told of: %s", (_, settings, sentence) => {
    const { tenant, faults } = read(settings);
    expect(faults[0]).toContain(sentence);
    expect(tenant).toMatchObject({ audience: "acme", origins: undefined, templates: operator.templates });
    expect(tenant.policy.codeLengthMax).toBeGreaterThanOrEqual(tenant.policy.codeLength);
  });

  test("is measured with the tenant's brand, not with the operator's", () => {
    const text = `{code} {brand}${" {brand}".repeat(11)}`;
    const texts = JSON.stringify({ texts: [{ locale: "en", text }] });
    expect(read({ texts, brand: "Acme" }).faults).toEqual([]);
    expect(read({ texts, brand: "A".repeat(40) }).faults).toEqual([
      expect.stringMatching(/^texts texts\[0\] .* takes/),
    ]);
  });
});

describe("a record", () => {
  test("keeps settings as they were written, in one order", () => {
    const settings = { audience: "x", brand: "Acme" } as const;
    expect(recordedSettings(settings)).toBe('{"brand":"Acme","audience":"x"}');
    expect(settingsOf({ settings: recordedSettings(settings) })).toEqual({ settings, faults: [] });
  });

  test.each([
    ["no JSON", "{", ["settings must be a JSON object"]],
    ["nothing", "", ["settings must be a JSON object"]],
    ["a list", "[]", ["settings must be a JSON object"]],
    ["null", "null", ["settings must be a JSON object"]],
    ["a setting of a later version", '{"colour":"red","audience":"x"}', ["colour is not a known setting"]],
    ["a number", '{"code_length":8}', ["code_length must be a text"]],
    ["a name of every object's", '{"__proto__":{"brand":"x"}}', ["__proto__ is not a known setting"]],
  ])("that holds %s makes a tenant all the same", (_, record, faults) => {
    const result = read(record);
    expect(result.faults).toEqual(faults);
    expect(result.tenant).toMatchObject({ id: "acme", brand: "Operator", policy: operator.policy });
  });
});

test("every setting but country caps, limits, audience and origins stands in for a variable of the operator's", () => {
  const own = settingNames.filter((name) => settingVariables[name] === undefined);
  expect(own).toEqual(["country_caps", "limits", "audience", "origins"]);
});

test("a brand outside GSM-7 and a dear text are warned of", () => {
  const texts = JSON.stringify({ texts: [{ locale: "en", text: "{code} {brand} 5000" }] });
  expect(warningsOf({ brand: "Açme☃", texts }, operator)).toEqual([
    expect.stringMatching(/^brand has characters outside GSM-7/),
    expect.stringMatching(/^texts texts\[0\] \(en\) has a number/),
  ]);
});
