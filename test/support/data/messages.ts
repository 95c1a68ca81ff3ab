/**
 * A message as a provider is handed it.
 */
import type { OutgoingMessage } from "../../../src/delivery/provider.ts";
import type { E164 } from "../../../src/otp/phone-number.ts";

export const sms: OutgoingMessage = {
  channel: "sms",
  to: "+31612345678" as E164,
  region: "NL",
  text: "123456 is your Acme code.",
  code: "123456",
  locale: "en",
  validitySeconds: 540,
  reference: "AAAAAAAAAAAAAAAAAAAAAA.0",
};
