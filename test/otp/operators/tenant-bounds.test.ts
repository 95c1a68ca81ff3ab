/**
 * What an admin of one tenant may change of its settings, as a table: from what holds, to what it asks for.
 */
import { describe, expect, test } from "vitest";
import { readTenant, settingNames, type SettingName } from "../../../src/config/tenant-settings.ts";
import { loosened } from "../../../src/otp/operators/tenant-bounds.ts";
import { configOf } from "../../support/service/environment.ts";

const operator = configOf({ OTP_DAILY_MESSAGE_CAP: "500", OTP_ALLOWED_COUNTRIES: "NL,BE,DE", OTP_CODE_LENGTH: "7" });
const unbounded = configOf({});
const free: readonly SettingName[] = ["brand", "texts"];

type Settings = Partial<Record<SettingName, string>>;

const tenantWith = (settings: Settings, of = operator) => {
  const { tenant, faults } = readTenant({ id: "acme", settings: JSON.stringify(settings), disableMs: null }, of);
  expect(faults).toEqual([]);
  return tenant;
};

const stricter: readonly (readonly [name: SettingName, before: Settings, after: Settings])[] = [
  ["countries", {}, { countries: "NL,BE" }],
  ["phone_limits", {}, { phone_limits: "4@10m,6@5h" }],
  ["phone_limits", {}, { phone_limits: "5@10m,6@4h,1@1m" }],
  ["resend_gaps", {}, { resend_gaps: "40s" }],
  ["code_length", {}, { code_length: "8" }],
  ["code_length_max", {}, { code_length_max: "10" }],
  ["ttl_seconds", {}, { ttl_seconds: "300" }],
  ["max_attempts", {}, { max_attempts: "3" }],
  ["daily_cap", {}, { daily_cap: "499" }],
  ["daily_cap", { daily_cap: "900" }, {}],
  ["country_caps", {}, { country_caps: "NL=5" }],
  ["country_caps", { country_caps: "NL=5" }, { country_caps: "NL=0,BE=7" }],
  ["limits", {}, { limits: "user=5@1h" }],
  ["limits", { limits: "user=5@1h" }, { limits: "user=4@1h,page=3@1m" }],
  ["fraud_guard", {}, { fraud_guard: "enforce" }],
  ["origins", {}, { origins: "https://a.example" }],
  ["origins", { origins: "https://a.example,https://b.example" }, { origins: "https://b.example" }],
];

const looser: readonly (readonly [name: SettingName, before: Settings, after: Settings])[] = [
  ["countries", {}, { countries: "NL,FR" }],
  ["countries", {}, { countries: "*" }],
  ["countries", { countries: "NL" }, {}],
  ["phone_limits", {}, { phone_limits: "5@10m" }],
  ["phone_limits", {}, { phone_limits: "5@9m,6@4h" }],
  ["phone_limits", {}, { phone_limits: "6@10m,6@4h" }],
  ["resend_gaps", {}, { resend_gaps: "30s,60s,60s" }],
  ["resend_gaps", {}, { resend_gaps: "30s,59s" }],
  ["code_length", {}, { code_length: "6" }],
  ["code_length_max", {}, { code_length_max: "7" }],
  ["ttl_seconds", { ttl_seconds: "300" }, { ttl_seconds: "301" }],
  ["max_attempts", {}, { max_attempts: "6" }],
  ["daily_cap", {}, { daily_cap: "501" }],
  ["daily_cap", { daily_cap: "100" }, {}],
  ["country_caps", { country_caps: "NL=5" }, { country_caps: "NL=6" }],
  ["country_caps", { country_caps: "NL=5" }, { country_caps: "BE=1" }],
  ["country_caps", { country_caps: "NL=5" }, {}],
  ["limits", { limits: "user=5@1h" }, { limits: "user=6@1h" }],
  ["limits", { limits: "user=5@1h,page=3@1m" }, { limits: "page=3@1m" }],
  ["fraud_guard", { fraud_guard: "enforce" }, { fraud_guard: "observe" }],
  ["audience", {}, { audience: "another" }],
  ["origins", { origins: "https://a.example" }, { origins: "https://a.example,https://b.example" }],
  ["origins", { origins: "https://a.example" }, {}],
];

describe("an admin of one tenant", () => {
  test.each(stricter)("makes %s stricter: %j to %j", (_, before, after) => {
    expect(loosened(tenantWith(before), tenantWith(after))).toEqual([]);
  });

  test.each(looser)("does not loosen %s: %j to %j", (name, before, after) => {
    expect(loosened(tenantWith(before), tenantWith(after))).toContain(name);
  });

  test("puts a cap where there is none, and does not take it away again", () => {
    const [none, some] = [tenantWith({}, unbounded), tenantWith({ daily_cap: "10" }, unbounded)];
    expect(loosened(none, some)).toEqual([]);
    expect(loosened(some, none)).toEqual(["daily_cap"]);
  });

  test("does not loosen a cap on money", () => {
    const withSpend = (max: number | undefined) => {
      const tenant = tenantWith({});
      const dailySpend = max === undefined ? undefined : { max, currency: "EUR" };
      return { ...tenant, policy: { ...tenant.policy, dailySpend } };
    };
    expect(loosened(withSpend(5), withSpend(4))).toEqual([]);
    expect(loosened(withSpend(undefined), withSpend(4))).toEqual([]);
    expect(loosened(withSpend(5), withSpend(6))).toEqual(["daily_spend_cap"]);
    expect(loosened(withSpend(5), withSpend(undefined))).toEqual(["daily_spend_cap"]);
  });

  test("has words of its own", () => {
    const texts = JSON.stringify({ texts: [{ locale: "en", text: "{code} {brand}" }] });
    expect(loosened(tenantWith({}), tenantWith({ brand: "Acme", texts }))).toEqual([]);
  });

  test("is judged on every setting but its words", () => {
    const judged = new Set([...looser.map(([name]) => name), "daily_spend_cap", ...free]);
    expect(judged).toEqual(new Set(settingNames));
  });
});
