/**
 * A budget: how much of something there may be at once, in all and for each address. The share of an address keeps one stranger from using up what
 * is there for all of them. Where several do so together, the address that leaves the most undone gives the oldest of that to
 * a newcomer who has less.
 */
import type { ForNow } from "./faults.ts";

export interface BudgetLimits {
  readonly max: number;
  /** For each address; as many as there are, unless given. */
  readonly perAddressMax?: number;
}

/** What is used up: the whole budget, or the address's share. */
export type Spent = "full" | "share spent";

/** Why a client gets none. */
export function reasonOf(spent: Spent): ForNow {
  return spent === "full" ? "STORE_UNAVAILABLE" : "IP_RATE_LIMITED";
}

/** One of it, as long as somebody has it. */
export interface Share {
  /** Safe to repeat. */
  giveBack(): void;
  /** From now on a newcomer may have it instead, since we wait for its holder; `onLost` is run then. */
  yieldTo(onLost: () => void): void;
  /** From now on it is its holder's again, who has done his part. */
  keep(): void;
}

export interface Budget {
  /** Takes one of it for an address, or for all that many share, who have no share to keep to and are the last to lose what they have. */
  take(address?: string): Share | Spent;
}

interface Group {
  taken: number;
  /** What a newcomer may have, the oldest first, and what is run then. */
  readonly yielding: Map<Share, () => void>;
}

export function createBudget({ max, perAddressMax = max }: BudgetLimits): Budget {
  const byAddress = new Map<string, Group>();
  /** All that many share. */
  const many: Group = { taken: 0, yielding: new Map() };
  let taken = 0;

  /** Makes room for an address that has so many, if another has more, or else at the cost of those that many share. */
  function makeRoom(its: number, isMany: boolean): void {
    let most: Group | undefined;
    for (const group of byAddress.values()) {
      if (group.yielding.size > (most?.yielding.size ?? 0) && group.taken > its) most = group;
    }
    if (most === undefined && !isMany && many.taken > its) most = many;
    const [oldest] = most?.yielding ?? [];
    if (oldest === undefined) return;
    const [share, onLost] = oldest;
    share.giveBack();
    onLost();
  }

  return {
    take(address) {
      const its = address === undefined ? 0 : (byAddress.get(address)?.taken ?? 0);
      // The share first: whoever has used up his own hears that, whatever others do.
      if (its >= perAddressMax) return "share spent";
      if (taken >= max) makeRoom(its, address === undefined);
      if (taken >= max) return "full";
      taken += 1;
      const group = address === undefined ? many : (byAddress.get(address) ?? { taken: 0, yielding: new Map() });
      if (address !== undefined) byAddress.set(address, group);
      group.taken += 1;
      let isBack = false;
      const share: Share = {
        giveBack() {
          if (isBack) return;
          isBack = true;
          taken -= 1;
          group.yielding.delete(share);
          group.taken -= 1;
          if (address !== undefined && group.taken === 0) byAddress.delete(address);
        },
        yieldTo(onLost) {
          if (!isBack) group.yielding.set(share, onLost);
        },
        keep: () => void group.yielding.delete(share),
      };
      return share;
    },
  };
}
