/**
 * The console provider, for development: it prints the message where a phone would show it. The message stands verbatim
 * on a line of its own, never wrapped and without escape codes, so that a script can read the code from the output.
 */
import { maskPhone } from "../otp/phone-number.ts";
import type { Provider } from "./provider.ts";

/** Makes the provider; `write` puts text on standard output. */
export function createConsoleProvider(write: (text: string) => void): Provider {
  return {
    name: "console",
    async send(sms) {
      const lines = sms.text.split("\n");
      const title = ` SMS to ${maskPhone(sms.to)} `;
      const width = Math.max(title.length + 2, ...lines.map((line) => line.length + 2));
      const box = [
        `┌─${title}${"─".repeat(width - title.length - 1)}┐`,
        ...lines.map((line) => `│ ${line.padEnd(width - 2)} │`),
        `└${"─".repeat(width)}┘`,
      ];
      write(`${box.join("\n")}\n\n`);
      return { kind: "accepted" };
    },
  };
}
