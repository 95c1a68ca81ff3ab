/**
 * The variables that switch channels on.
 */
import { expect, test } from "vitest";
import { channelsOn, lacksVoiceCap } from "../../src/config/config.ts";
import { configOf, faultsOf } from "../support/service/environment.ts";

test("channels have providers of their own, which take their messages, and need what they need", () => {
  expect(configOf({ OTP_VOICE_PROVIDERS: "console", OTP_WHATSAPP_PROVIDERS: "console" }).providers).toEqual({
    sms: ["console"],
    voice: ["console"],
    whatsapp: ["console"],
  });
  expect(faultsOf({ OTP_VOICE_PROVIDERS: "webhook", OTP_WHATSAPP_PROVIDERS: "pigeon" })).toEqual([
    "OTP_VOICE_PROVIDERS names webhook, which takes no messages of the channel voice.",
    "OTP_WHATSAPP_PROVIDERS must be one of console, messagebird, bird, webhook, or an entry of OTP_HTTP_PROVIDERS_FILE.",
  ]);
  const twice = faultsOf({ OTP_ENV: "production", OTP_VOICE_PROVIDERS: "console,console" });
  expect(twice).toContain("OTP_VOICE_PROVIDERS must not name console in production: it prints every code.");
  expect(twice).toContain("OTP_VOICE_PROVIDERS names a provider twice.");
});

test("what speaks the code unasked needs the operator's word, since a voicemail may keep it", () => {
  const voice = {
    OTP_VOICE_PROVIDERS: "messagebird",
    OTP_MESSAGEBIRD_ACCESS_KEY: "k",
    OTP_MESSAGEBIRD_ORIGINATOR: "Acme",
  };
  const env = { ...voice, OTP_ALLOWED_COUNTRIES: "NL" };
  expect(faultsOf(env)).toEqual([
    "OTP_VOICE_UNATTENDED must be on for messagebird, which speaks the code without waiting for a key: a voicemail may keep it.",
  ]);
  expect(configOf({ ...env, OTP_VOICE_UNATTENDED: "on" }).providers.voice).toEqual(["messagebird"]);
});

test("a country has one sender, in whatever letters", () => {
  expect(faultsOf({ OTP_ORIGINATORS: "nl=Acme,BE=Acme,NL=Other" })).toEqual(["OTP_ORIGINATORS gives NL two senders."]);
});

test("nobody is called until there is a cap on calls; what the console prints has none", () => {
  const env = {
    OTP_VOICE_PROVIDERS: "messagebird",
    OTP_VOICE_UNATTENDED: "on",
    OTP_MESSAGEBIRD_ACCESS_KEY: "k",
    OTP_MESSAGEBIRD_ORIGINATOR: "Acme",
    OTP_ALLOWED_COUNTRIES: "NL",
  };
  expect(channelsOn(configOf(env))).toEqual(["sms"]);
  expect(lacksVoiceCap(configOf(env))).toBe(true);
  const capped = configOf({ ...env, OTP_VOICE_DAILY_CAP: "50" });
  expect([channelsOn(capped), lacksVoiceCap(capped)]).toEqual([["sms", "voice"], false]);
  expect(channelsOn(configOf({ OTP_VOICE_PROVIDERS: "console" }))).toEqual(["sms", "voice"]);
});
