/**
 * The console provider, for development: it prints the message where a phone would show it. The message stands verbatim
 * on a line of its own, never wrapped and without escape codes, so that a script can read the code from the output. The
 * inbox of the demo page has copies of it.
 */
import { channels, type Channel } from "../../otp/channel.ts";
import { maskPhone, type E164 } from "../../otp/phone-number.ts";
import type { Instant } from "../../system.ts";
import type { Provider } from "../provider.ts";
import { describeProvider } from "./description.ts";

const lengthened = " longer: many codes, to this number or to others, are not verified yet or were typed wrong ";

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
  const cure = `otpd phones reset ${maskPhone(phone)}${whose}`;
  return `No SMS to ${maskPhone(phone)}: PHONE_RATE_LIMITED. For a fresh start, with the whole number: ${cure}\n\n`;
}

// ---- the inbox ------------------------------------------------------------------------------------------------------

// For a newcomer who would rather see a phone than a terminal. It holds codes in clear, so it is for development only and
// kept in memory. server/pages/demo.ts decides who may read it.

/** One SMS as it arrived. */
export interface InboxMessage {
  /** Counts from 1, without a gap. */
  readonly number: number;
  /** The number it went to, masked as on the console. */
  readonly to: string;
  readonly text: string;
  readonly time: Instant;
}

export interface Inbox {
  /** The provider, with a copy kept of each SMS that it accepts. */
  copying(provider: Provider): Provider;
  /** What came after the message of that number, oldest first, and the number of the latest of all; 0 before any. */
  since(number: number): { readonly latest: number; readonly messages: readonly InboxMessage[] };
}

/** Messages kept; the oldest make room. */
const inboxMessagesMax = 50;

/** Makes an empty inbox; `now` is a clock in milliseconds. */
export function createInbox(now: () => Instant): Inbox {
  const messages: InboxMessage[] = [];
  let latest = 0;
  return {
    copying: (provider) => ({
      ...provider,
      async send(sms, signal, onStatus) {
        const outcome = await provider.send(sms, signal, onStatus);
        if (outcome.kind === "accepted") {
          latest += 1;
          messages.push({ number: latest, to: maskPhone(sms.to), text: sms.text, time: now() });
          if (messages.length > inboxMessagesMax) messages.shift();
        }
        return outcome;
      },
    }),
    since: (number) => ({ latest, messages: messages.filter((message) => message.number > number) }),
  };
}
