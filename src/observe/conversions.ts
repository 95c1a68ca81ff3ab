/**
 * Which provider had the message of a verification that is verified now. No row says so that a verify reads, and a verify
 * is not to read more for the sake of a metric. So what this process handed over is remembered for a while, and only what
 * it cannot know (another instance sent it, or it was restarted) is read, after the answer.
 */
import type { Message } from "../otp/message.ts";

/** Verifications in one of the two halves of what is remembered: 5 MB at most. */
const halfMax = 16_384;
/** Reads at once. Beyond that the provider stays unknown: a metric is no reason to keep the database busy. */
const readsMax = 4;

export interface Conversions {
  /** Notes that a provider has taken a verification's message. */
  handedOver(verificationId: string, provider: string): void;
  /** Tells, at once or later, which provider had the message of a verification; undefined when that is not known. */
  whose(verificationId: string, tell: (provider: string | undefined) => void): void;
}

export function createConversions(readMessages: (verificationId: string) => Promise<readonly Message[]>): Conversions {
  let young = new Map<string, string>();
  let old = new Map<string, string>();
  let reads = 0;

  async function read(verificationId: string): Promise<string | undefined> {
    if (reads >= readsMax) return undefined;
    reads += 1;
    try {
      const messages = await readMessages(verificationId);
      return messages.findLast(({ provider }) => provider !== null)?.provider ?? undefined;
    } catch {
      return undefined;
    } finally {
      reads -= 1;
    }
  }

  return {
    handedOver(verificationId, provider) {
      if (young.size >= halfMax) {
        old = young;
        young = new Map();
      }
      young.set(verificationId, provider);
    },
    whose(verificationId, tell) {
      const known = young.get(verificationId) ?? old.get(verificationId);
      if (known === undefined) void read(verificationId).then(tell);
      else tell(known);
    },
  };
}
