/**
 * A budget: how many of one thing there may be at once, in all and for each address. The share of an address keeps one
 * stranger from using up what is there for all of them.
 */

export interface BudgetLimits {
  readonly max: number;
  /** For each address; as many as there are, unless given. */
  readonly perAddressMax?: number;
}

/** What is left of nothing: of the whole budget, or of the address's share. */
export type Spent = "full" | "share spent";

/** What a client is told where there is nothing left. */
export function reasonOf(spent: Spent): "STORE_UNAVAILABLE" | "IP_RATE_LIMITED" {
  return spent === "full" ? "STORE_UNAVAILABLE" : "IP_RATE_LIMITED";
}

export interface Budget {
  /**
   * Takes one of it for an address, or for one that has no share to keep to; what it returns gives it back, and is safe to
   * repeat.
   */
  take(address?: string): (() => void) | Spent;
}

export function createBudget({ max, perAddressMax = max }: BudgetLimits): Budget {
  const byAddress = new Map<string, number>();
  let taken = 0;

  return {
    take(address) {
      const its = address === undefined ? 0 : (byAddress.get(address) ?? 0);
      // The share first: whoever has used up his own is told so, whatever others do.
      if (its >= perAddressMax) return "share spent";
      if (taken >= max) return "full";
      taken += 1;
      if (address !== undefined) byAddress.set(address, its + 1);
      let isBack = false;
      return () => {
        if (isBack) return;
        isBack = true;
        taken -= 1;
        if (address === undefined) return;
        const left = (byAddress.get(address) ?? 1) - 1;
        if (left === 0) byAddress.delete(address);
        else byAddress.set(address, left);
      };
    },
  };
}
