/**
 * A budget: how much of something there may be at once, in all and of each address. What is taken of it is a grant. What
 * an address may have is bounded, so that one stranger does not use up what is there for all. Where several do so
 * together, the address that leaves the most undone gives the oldest of that to a newcomer who has less. Where tenants are
 * told apart, that is an address of the tenant who has the most.
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
   * oldest makes room for their next. Where a tenant is given, an address is one of that tenant's,
   * and those whose address many have are one of its addresses.
   */
  take(address?: string, tenant?: string): Grant | Spent;
}

/** The part of a budget that those may have whose address many have. Nobody could take from them what does not yield, as look-ups. */
const manyPart = 3 / 4;

interface Group {
  readonly tenant: string | undefined;
  taken: number;
  /** What a newcomer may have, the oldest first, and what is run then. */
  readonly yielding: Map<Grant, () => void>;
}

const newGroup = (tenant: string | undefined): Group => ({ tenant, taken: 0, yielding: new Map() });
const leftBy = ({ yielding }: Group) => yielding.size;

export function createBudget({ max, perAddressMax = max }: BudgetLimits): Budget {
  const byAddress = new Map<string, Group>();
  /** All whose address many have. */
  const many = newGroup(undefined);
  let taken = 0;

  /** Makes room for one of a group, if another has more: of those whose address many have, else or where they leave most undone. */
  function makeRoom(its: Group): void {
    const byTenant = takenByTenant();
    const lead = (one: Group, other: Group) => (byTenant.get(one.tenant) ?? 0) - (byTenant.get(other.tenant) ?? 0);
    let most: Group | undefined;
    for (const group of byAddress.values()) {
      const hasMore = group.yielding.size > 0 && (lead(group, its) || group.taken - its.taken) > 0;
      if (hasMore && (most === undefined || (lead(group, most) || leftBy(group) - leftBy(most)) > 0)) most = group;
    }
    if ((most === undefined || many.yielding.size > max / 2) && many.taken > its.taken) most = many;
    if (most !== undefined) loseOldest(most);
  }

  function takenByTenant(): ReadonlyMap<string | undefined, number> {
    const sums = new Map<string | undefined, number>();
    for (const group of byAddress.values()) sums.set(group.tenant, (sums.get(group.tenant) ?? 0) + group.taken);
    return sums;
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
    take(address, tenant) {
      const name = tenant === undefined ? address : `${tenant} ${address}`;
      const group = name === undefined ? many : (byAddress.get(name) ?? newGroup(tenant));
      // The address first: whoever has used up his own hears that, whatever others do.
      if (group !== many && group.taken >= perAddressMax) return "address full";
      if (hasItsPart(group)) loseOldest(group);
      else if (taken >= max) makeRoom(group);
      if (taken >= max || hasItsPart(group)) return "full";
      taken += 1;
      if (name !== undefined) byAddress.set(name, group);
      group.taken += 1;
      let isBack = false;
      const grant: Grant = {
        giveBack() {
          if (isBack) return;
          isBack = true;
          taken -= 1;
          group.yielding.delete(grant);
          group.taken -= 1;
          if (name !== undefined && group.taken === 0) byAddress.delete(name);
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
