/**
 * Environments to parse, and what parsing them comes to.
 */
import { parseConfig, type Config } from "../../../src/config/config.ts";
import type { Environment } from "../../../src/config/names.ts";

export const noFiles = (path: string): string => {
  throw new Error(`${path} is not there`);
};

/** All that is wrong with an environment. */
export function faultsOf(env: Environment, readFile = noFiles): readonly string[] {
  const parsed = parseConfig(env, readFile);
  return parsed.ok ? [] : parsed.faults;
}

export function configOf(env: Environment, readFile = noFiles): Config {
  const parsed = parseConfig(env, readFile);
  if (!parsed.ok) throw new Error(parsed.faults.join("\n"));
  return parsed.value;
}

export const keyText = Buffer.alloc(32, 0xa5).toString("base64url");
export const olderKeyText = Buffer.alloc(32, 0x5a).toString("base64url");
export const webhookSecret = `whsec_${Buffer.alloc(32, 0x77).toString("base64")}`;

/** The least that production starts with. */
export const production = {
  OTP_ENV: "production",
  OTP_MASTER_KEY: keyText,
  OTP_ALLOWED_COUNTRIES: "NL,BE",
  OTP_DAILY_MESSAGE_CAP: "5000",
  OTP_PROVIDERS: "webhook",
  OTP_WEBHOOK_URL: "https://example.com/sms",
  OTP_WEBHOOK_SECRET: webhookSecret,
};
