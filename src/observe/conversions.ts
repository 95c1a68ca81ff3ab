/**
 * Which provider had the message of a verification that was verified. A verify reads no row that says so, and is not to read
 * more for a metric. So this process remembers for a while what it handed over. Only what it cannot know (another instance
 * sent it, or it was restarted) is read, after the answer.
 */
import type { Message } from "../otp/message.ts";

/** Verifications in each of the two maps: 5 MB at most. */
const mapMax = 16_384;
/** Reads at once. Beyond that the provider stays unknown: a metric must not keep the database busy. */
const readsMax = 4;

export interface Conversions {
  /** A provider has taken a verification's message. */
  handedOver(verificationId: string, provider: string): void;
  /** Calls `use`, at once or later, with the provider that had the message; undefined where that is not known. */
  providerOf(verificationId: string, use: (provider: string | undefined) => void): void;
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
      if (young.size >= mapMax) {
        old = young;
        young = new Map();
      }
      young.set(verificationId, provider);
    },
    providerOf(verificationId, use) {
      const known = young.get(verificationId) ?? old.get(verificationId);
      if (known === undefined) void read(verificationId).then(use);
      else use(known);
    },
  };
}
