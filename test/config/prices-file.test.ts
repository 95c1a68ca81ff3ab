/**
 * OTP_PRICES_FILE and OTP_DAILY_SPEND_CAP at a start, and a tenant's caps of its own.
 */
import { describe, expect, test } from "vitest";
import { parseConfig } from "../../src/config/config.ts";
import { readTenant, recordedSettings, type TenantSettings } from "../../src/config/tenant-settings.ts";
import { production } from "../support/service/environment.ts";

const file = (prices: unknown) => () => JSON.stringify({ currency: "EUR", prices });
const all = [{ country: "*", per_segment: "0.08" }];
const dutch = [{ country: "NL", per_segment: "0.07" }];

function parsed(env: Record<string, string>, readFile: () => string = file(all)) {
  const result = parseConfig({ OTP_PRICES_FILE: "prices.json", ...env }, readFile);
  return result.ok ? { policy: result.value.policy, config: result.value, faults: [] } : { faults: result.faults };
}

describe("a cap on money", () => {
  test("is in millionths of the file's currency", () => {
    expect(parsed({ OTP_DAILY_SPEND_CAP: "250.5" }).policy?.dailySpend).toEqual({ max: 250_500_000, currency: "EUR" });
    expect(parsed({}).policy).not.toHaveProperty("dailySpend");
  });

  test.each(["0", "0.00", "-1", "1,5", "ten", "1.0000001"])("is no %j", (cap) => {
    expect(parsed({ OTP_DAILY_SPEND_CAP: cap }).faults).toEqual([
      "OTP_DAILY_SPEND_CAP must be a decimal of more than 0, with at most 6 places, such as 250.00.",
    ]);
  });

  test("needs the file", () => {
    expect(parsed({ OTP_DAILY_SPEND_CAP: "1", OTP_PRICES_FILE: "" }).faults).toEqual([
      "OTP_DAILY_SPEND_CAP needs OTP_PRICES_FILE.",
    ]);
  });

  test("needs a price for every country, channel and provider, and names those that lack one", () => {
    const env = { ...production, OTP_DAILY_SPEND_CAP: "100" };
    expect(parsed(env).faults).toEqual([]);
    expect(parsed(env, file(dutch)).faults).toEqual([
      "OTP_DAILY_SPEND_CAP needs a price in OTP_PRICES_FILE for BE by sms through webhook.",
    ]);
    expect(parsed({ ...env, OTP_ALLOWED_COUNTRIES: "*" }, file(dutch)).faults).toEqual([
      "OTP_DAILY_SPEND_CAP needs a price in OTP_PRICES_FILE for * by sms through webhook.",
    ]);
    const many = "NL,BE,DE,FR,ES,PT,IT,AT,CH,PL,CZ,SK,HU";
    expect(parsed({ ...env, OTP_ALLOWED_COUNTRIES: many }, file(dutch)).faults[0]).toMatch(/ FR by .*, and 2 more\.$/);
    const other = [{ country: "*", provider: "bird", per_segment: "1" }];
    expect(parsed(env, file(other)).faults[0]).toContain("NL by sms through webhook, BE by sms through webhook.");
  });
});

test("the file's faults are told at the start, with all others", () => {
  const { faults } = parsed({ OTP_MAX_ATTEMPTS: "0" }, file([{ country: "XX" }]));
  expect(faults.join("\n")).toContain("OTP_PRICES_FILE /prices/0/country must be a country");
  expect(faults.join("\n")).toContain("OTP_PRICES_FILE /prices/0/per_segment is missing.");
  expect(faults.join("\n")).toContain("OTP_MAX_ATTEMPTS must be at least 1.");
  const again = '{"currency":"EUR","currency":"USD","prices":[{"country":"*","per_segment":"1","per_segment":"2"}]}';
  expect(parsed({}, () => again).faults).toEqual([
    "OTP_PRICES_FILE /currency is given twice.",
    "OTP_PRICES_FILE /prices/0/per_segment is given twice.",
  ]);
  const gone = parsed({}, () => {
    throw Object.assign(new Error("no"), { code: "ENOENT" });
  });
  expect(gone.faults).toEqual([expect.stringMatching(/^OTP_PRICES_FILE names a file that [a-z ]+\.$/)]);
});

describe("a tenant", () => {
  function read(settings: TenantSettings, env: Record<string, string> = {}, prices: unknown = all) {
    const { config } = parsed({ ...production, ...env }, file(prices));
    if (config === undefined) throw new Error("the operator's configuration is good");
    const record = { id: "acme", settings: recordedSettings(settings), disableMs: null };
    const { tenant, faults } = readTenant(record, config);
    return { policy: tenant.policy, faults: faults.map(({ setting, rest }) => `${setting} ${rest}`) };
  }

  test("has caps of countries, 0 among them", () => {
    const { policy, faults } = read({ country_caps: "NG=50,ke=0" });
    expect([policy.countryCaps, faults]).toEqual([
      new Map([
        ["NG", 50],
        ["KE", 0],
      ]),
      [],
    ]);
  });

  test.each(["NG", "NG=", "NG=-1", "XX=5", "NG=100000001", "NG=5;KE=1", "=5"])("has no cap that is %j", (text) => {
    const { policy, faults } = read({ country_caps: text });
    expect([policy.countryCaps, faults]).toEqual([
      undefined,
      [expect.stringMatching(/^country_caps must be a list such as NG=50,KE=0/)],
    ]);
  });

  test("has the operator's cap on money, or its own in place of it", () => {
    const cap = { OTP_DAILY_SPEND_CAP: "100" };
    expect(read({}, cap).policy.dailySpend?.max).toBe(100_000_000);
    expect(read({ daily_spend_cap: "5" }, cap).policy.dailySpend).toEqual({ max: 5_000_000, currency: "EUR" });
    expect(read({ daily_spend_cap: "5" }).policy.dailySpend).toEqual({ max: 5_000_000, currency: "EUR" });
  });

  test("is told of a price that its cap or its countries lack, and the cap holds all the same", () => {
    const own = read({ daily_spend_cap: "5" }, {}, dutch);
    expect(own.faults).toEqual(["daily_spend_cap needs a price in OTP_PRICES_FILE for BE by sms through webhook"]);
    expect(own.policy.dailySpend?.max).toBe(5_000_000);
    const env = { OTP_DAILY_SPEND_CAP: "100", OTP_ALLOWED_COUNTRIES: "NL" };
    const wider = read({ countries: "NL,DE" }, env, dutch);
    expect(wider.faults).toEqual([
      "countries under a daily spend cap needs a price in OTP_PRICES_FILE for DE by sms through webhook",
    ]);
    expect(wider.policy.allowedCountries).toEqual(new Set(["NL"]));
  });
});
