/**
 * The inbox of the demo page: copies of what the console provider printed, for a newcomer who would rather see a phone
 * than a terminal. It holds codes in clear, so it is for development only and kept in memory. server/pages/demo.ts
 * decides who may read it.
 */
import { maskPhone } from "../otp/phone-number.ts";
import type { Instant } from "../system.ts";
import type { Provider } from "./provider.ts";

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
