/**
 * What each provider has taken in 24 hours, on all instances: for the operators' service and `otpd providers list`.
 */
import { channels, type Channel } from "../../otp/channel.ts";
import type { Store } from "../../store/store.ts";
import { moneyOf, readStats, type Money } from "./statistics.ts";

export interface ProviderShare {
  readonly name: string;
  readonly channel: Channel;
  /** Its place in the order of the channel, from 1 on; 0 for one that took messages and is not configured for it now. */
  readonly order: number;
  /** Of the messages of its channel, 0 to 1. */
  readonly share: number;
  readonly messages: number;
  readonly delivered: number;
  /** Undefined where no price is known. */
  readonly cost: Money | undefined;
}

/** Sums are by the hour: with the running one, 24 of them. */
const sumsMs = 23 * 3_600_000;

/** Reads what providers have taken. `namesOf` gives those of a channel in the order they are tried. */
export async function readProviderShares(
  store: Pick<Store, "statistics" | "now">,
  namesOf: (channel: Channel) => readonly string[],
): Promise<ProviderShare[]> {
  const now = store.now();
  const asked = { fromMs: Math.max(0, now - sumsMs), toMs: now, interval: "all" } as const;
  const read = await readStats(store, { ...asked, groupBy: ["provider", "channel"] });
  if (!read.ok) throw new Error(read.sentence);
  return channels.flatMap((channel) => {
    const rows = read.rows.filter((row) => row.channel === channel);
    const total = rows.reduce((sum, { sums }) => sum + (sums.messages ?? 0), 0);
    const names = namesOf(channel);
    const others = rows.filter(({ provider, sums }) => (sums.messages ?? 0) > 0 && !names.includes(provider));
    return [...names, ...others.map(({ provider }) => provider)].map((name) => {
      const row = rows.find(({ provider }) => provider === name);
      const messages = row?.sums.messages ?? 0;
      return {
        name,
        channel,
        order: names.indexOf(name) + 1,
        share: total === 0 ? 0 : messages / total,
        messages,
        delivered: row?.sums.delivered ?? 0,
        cost: row && moneyOf(row.costs),
      };
    });
  });
}
