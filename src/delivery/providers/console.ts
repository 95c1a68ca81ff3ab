/**
 * The console provider, for development: it prints the message where a phone would show it. The message stands verbatim
 * on a line of its own, never wrapped and without escape codes, so that a script can read the code from the output.
 */
import { channels, type Channel } from "../../otp/channel.ts";
import { maskPhone, type E164 } from "../../otp/phone-number.ts";
import type { Provider } from "../provider.ts";
import { describeProvider } from "./description.ts";

const lengthened = " longer: many codes to this number are not verified yet, or were typed wrong ";

const called: Readonly<Record<Channel, string>> = { sms: "SMS to", voice: "Call to", whatsapp: "WhatsApp to" };

export const consoleProvider = describeProvider({
  name: "console",
  channels,
  variables: {},
  create: (_, { print }) => createConsoleProvider(print),
});

/** Makes the provider; `write` puts text on standard output. */
export function createConsoleProvider(write: (text: string) => void): Provider {
  return {
    name: "console",
    async send(sms) {
      const lines = sms.text.split("\n");
      const title = ` ${called[sms.channel]} ${maskPhone(sms.to)} `;
      const why = sms.isLengthened === true ? lengthened : "";
      const width = Math.max(...[title, why, ...lines].map((line) => line.length + 2));
      const box = [
        `┌─${title}${"─".repeat(width - title.length - 1)}┐`,
        ...lines.map((line) => `│ ${line.padEnd(width - 2)} │`),
        `└─${why}${"─".repeat(width - why.length - 1)}┘`,
      ];
      write(`${box.join("\n")}\n\n`);
      return { kind: "accepted" };
    },
    async examine() {
      return [{ ok: true, sentence: "Messages are printed on the console, and sent to nobody." }];
    },
  };
}

/** Says, where its SMS would be printed, that a phone gets none, and how it gets some again. */
export function limitedLine(phone: E164, tenant: string): string {
  const whose = tenant === "default" ? "" : ` --tenant ${tenant}`;
  return `No SMS to ${maskPhone(phone)}: PHONE_RATE_LIMITED. For a fresh start: otpd phones reset ${maskPhone(phone)}${whose}\n\n`;
}
