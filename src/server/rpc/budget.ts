/**
 * A budget: how much of something there may be at once, in all and of each address. What is taken of it is a grant. What
 * an address may have is bounded, so that one stranger does not use up what is there for all. Where several do so
 * together, the address that leaves the most undone gives the oldest of that to a newcomer who has less.
 */
import type { ForNow } from "./faults.ts";

export interface BudgetLimits {
  readonly max: number;
  /** For each address; as many as there are, unless given. */
  readonly perAddressMax?: number;
}

/** What is used up: the whole budget, or what one address may have of it. */
export type Spent = "full" | "address full";

/** Why a client gets none. */
export function reasonOf(spent: Spent): ForNow {
  return spent === "full" ? "STORE_UNAVAILABLE" : "IP_RATE_LIMITED";
}

/** One of it, as long as somebody has it. */
export interface Grant {
  /** Safe to repeat. */
  giveBack(): void;
  /** From now on a newcomer may have it instead, since we wait for its holder; `onLost` is run then. */
  yieldTo(onLost: () => void): void;
  /** From now on it is its holder's again, who has done his part. */
  keep(): void;
}

export interface Budget {
  /**
   * Takes one of it for an address, or for all whose address many have. No bound of an address holds for those. Unless they
   * leave more than half undone, they are the last to lose it to others. They have three quarters at most: then their own
   * oldest makes room for their next.
   */
  take(address?: string): Grant | Spent;
}

/** The part of a budget that those may have whose address many have. Nobody could take from them what does not yield, as look-ups. */
const manyPart = 3 / 4;

interface Group {
  taken: number;
  /** What a newcomer may have, the oldest first, and what is run then. */
  readonly yielding: Map<Grant, () => void>;
}

export function createBudget({ max, perAddressMax = max }: BudgetLimits): Budget {
  const byAddress = new Map<string, Group>();
  /** All whose address many have. */
  const many: Group = { taken: 0, yielding: new Map() };
  let taken = 0;

  /** Makes room for one of a group, if another has more: of those whose address many have, else or where they leave most undone. */
  function makeRoom(its: Group): void {
    let most: Group | undefined;
    for (const group of byAddress.values()) {
      if (group.yielding.size > (most?.yielding.size ?? 0) && group.taken > its.taken) most = group;
    }
    if ((most === undefined || many.yielding.size > max / 2) && many.taken > its.taken) most = many;
    if (most !== undefined) loseOldest(most);
  }

  function loseOldest({ yielding }: Group): void {
    const [oldest] = yielding;
    if (oldest === undefined) return;
    const [grant, onLost] = oldest;
    grant.giveBack();
    onLost();
  }

  const hasItsPart = (group: Group) => group === many && many.taken >= max * manyPart;

  return {
    take(address) {
      const group = address === undefined ? many : (byAddress.get(address) ?? { taken: 0, yielding: new Map() });
      // The address first: whoever has used up his own hears that, whatever others do.
      if (group !== many && group.taken >= perAddressMax) return "address full";
      if (hasItsPart(group)) loseOldest(group);
      else if (taken >= max) makeRoom(group);
      if (taken >= max || hasItsPart(group)) return "full";
      taken += 1;
      if (address !== undefined) byAddress.set(address, group);
      group.taken += 1;
      let isBack = false;
      const grant: Grant = {
        giveBack() {
          if (isBack) return;
          isBack = true;
          taken -= 1;
          group.yielding.delete(grant);
          group.taken -= 1;
          if (address !== undefined && group.taken === 0) byAddress.delete(address);
        },
        yieldTo(onLost) {
          if (!isBack) group.yielding.set(grant, onLost);
        },
        keep: () => void group.yielding.delete(grant),
      };
      return grant;
    },
  };
}
