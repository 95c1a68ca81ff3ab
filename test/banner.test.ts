/**
 * The banner's example: whoever pastes it must not be refused, nor text somebody.
 */
import { expect, test } from "vitest";
import { banner } from "../src/main/first-start.ts";
import { configOf } from "./support/service/world.ts";

const address = { scheme: "http", host: "127.0.0.1", port: 8080 } as const;
const beside = { demoUrl: undefined, consoleUrl: undefined };

test.each([
  [undefined, "+14155552671"],
  ["NL,US", "+14155552671"],
  ["NL", "+31612345678"],
  ["CH,AT", "+41781234567"],
])("with OTP_ALLOWED_COUNTRIES %s sends to %s", (countries, phone) => {
  const config = configOf(countries === undefined ? {} : { OTP_ALLOWED_COUNTRIES: countries });
  expect(banner(address, undefined, config, beside)).toContain(`-d '{"phone":"${phone}"}'`);
});

test("names no number beside a provider that sends", () => {
  const { policy } = configOf({});
  expect(
    banner(address, undefined, { providers: { sms: ["webhook"], voice: [], whatsapp: [] }, policy }, beside),
  ).toContain(`-d '{"phone":"YOUR_NUMBER"}'`);
});
