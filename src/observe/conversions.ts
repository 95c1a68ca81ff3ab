/**
 * Which provider had the message of a verification that was verified. No row that a verify reads says so, and a metric
 * is not worth another read. So this process remembers for a while what it handed over. What it cannot know (another
 * instance sent it, or this one was restarted) is read after the answer.
 */
import type { Channel } from "../otp/channel.ts";
import type { Message } from "../otp/message/message.ts";

/** Verifications in each of the two maps, few of which are verified: 5 MB at most. */
const mapMax = 16_384;
/** Reads at once. Beyond that the provider stays unknown: a metric must not keep the database busy. */
const readsMax = 4;

/** Who had a message, and how it went. */
export interface Holder {
  readonly provider: string;
  readonly channel: Channel;
}

export interface Conversions {
  /** A provider has taken a verification's message. */
  handedOver(verificationId: string, holder: Holder): void;
  /**
   * Calls `use`, at once or later, with the provider that had the message of a verification that was verified; undefined where that is
   * not known. It is forgotten then.
   */
  holderOf(verificationId: string, use: (holder: Holder | undefined) => void): void;
}

export function createConversions(readMessages: (verificationId: string) => Promise<readonly Message[]>): Conversions {
  let young = new Map<string, Holder>();
  let old = new Map<string, Holder>();
  let reads = 0;

  async function read(verificationId: string): Promise<Holder | undefined> {
    if (reads >= readsMax) return undefined;
    reads += 1;
    try {
      const messages = await readMessages(verificationId);
      const latest = messages.findLast(({ provider }) => provider !== null);
      return latest === undefined || latest.provider === null
        ? undefined
        : { provider: latest.provider, channel: latest.channel };
    } catch {
      return undefined;
    } finally {
      reads -= 1;
    }
  }

  return {
    handedOver(verificationId, holder) {
      if (young.size >= mapMax) {
        old = young;
        young = new Map();
      }
      young.set(verificationId, holder);
    },
    holderOf(verificationId, use) {
      const known = young.get(verificationId) ?? old.get(verificationId);
      young.delete(verificationId);
      old.delete(verificationId);
      if (known === undefined) void read(verificationId).then(use);
      else use(known);
    },
  };
}
