/**
 * What tests of declared providers stand on: providers made of a declaration, and a message to send.
 */
import { createHttpProvider, type HttpOptions } from "../../../src/delivery/providers/http/provider.ts";
import { readHttpProviders } from "../../../src/delivery/providers/http/file.ts";
import type { Provider } from "../../../src/delivery/provider.ts";
import { sms as message } from "../../support/data/messages.ts";

export const sms = { ...message, text: "123456 is your Acme code — één.\nNever share it.", locale: "nl" };

/** A signal that never comes to it in a test that goes well. */
export const patience = () => AbortSignal.timeout(20_000);

export const publicUrl = "https://otp.example.com";

/** What a declaration has that a test says nothing of. */
const plain = { name: "acme", content: "json", body: { to: "{to}", text: "{text}" }, accepted: { status: [200] } };

/** Makes the provider of a declaration, which is read as a file is. Throws with its faults. */
export function declared(entry: object, options: Partial<HttpOptions> = {}): Provider {
  const { declarations, faults } = readHttpProviders(JSON.stringify({ providers: [{ ...plain, ...entry }] }), []);
  const [declaration] = declarations;
  if (declaration === undefined) throw new Error(faults.join("\n"));
  const given = { secret: "s3cret", reportSecret: "r3port", publicUrl, originators: new Map<string, string>() };
  return createHttpProvider({ declaration, ...given, now: Date.now, ...options });
}
