/**
 * The variables that switch channels on.
 */
import { expect, test } from "vitest";
import { configOf, faultsOf } from "../support/service/environment.ts";

test("channels have providers of their own, which take their messages, and need what they need", () => {
  expect(configOf({ OTP_VOICE_PROVIDERS: "console", OTP_WHATSAPP_PROVIDERS: "console" }).providers).toEqual({
    sms: ["console"],
    voice: ["console"],
    whatsapp: ["console"],
  });
  expect(faultsOf({ OTP_VOICE_PROVIDERS: "webhook", OTP_WHATSAPP_PROVIDERS: "pigeon" })).toEqual([
    "OTP_VOICE_PROVIDERS names webhook, which takes no messages of the channel voice.",
    "OTP_WHATSAPP_PROVIDERS must be one of console, messagebird, bird, webhook.",
  ]);
  const twice = faultsOf({ OTP_ENV: "production", OTP_VOICE_PROVIDERS: "console,console" });
  expect(twice).toContain("OTP_VOICE_PROVIDERS must not name console in production: it prints every code.");
  expect(twice).toContain("OTP_VOICE_PROVIDERS names a provider twice.");
});
