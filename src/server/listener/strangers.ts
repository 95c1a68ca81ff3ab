/**
 * Strangers by their address, and which of them goes when a newcomer finds no room: the oldest idle one of the address
 * that has the most. Nobody whom we owe an answer goes. One who owes us the rest of a request, or does not take an
 * answer, or watches, goes when that address has no idle one: otherwise whoever never ends a request could not be
 * closed.
 *
 * Each act is O(1), and nothing is searched at 10,000 strangers: addresses stand in a set of their own for each count, and
 * a count changes by one at a time; the members of an address are in the order in which they went idle, or busy.
 */

export interface Strangers<Member> {
  /** Takes a newcomer in, as idle; without an address where many share it. */
  add(member: Member, address?: string): void;
  /** Forgets a member. Safe to repeat. */
  remove(member: Member): void;
  /** Notes that a member has something under way. One that is not here is left alone, as below. */
  becameBusy(member: Member): void;
  /** Notes that a member has nothing under way any more: it is the last one to go from now on. */
  becameIdle(member: Member): void;
  /**
   * Finds who has to go. While there still is room, as opposed to when it `isFull`, newcomers stay, and so does everybody of
   * an address that has few. Of those who share theirs with many one goes when it is full, if every other address has few.
   */
  leaver(room: { readonly isFull: boolean }): Member | undefined;
}

export interface StrangersOptions<Member> {
  /** Whether an idle member has come, or went idle, only just now. */
  readonly isNewcomer: (member: Member) => boolean;
  /** Whether a busy member waits for us, rather than we for it. */
  readonly isOwed: (member: Member) => boolean;
}

/** The members of one address. Both sets begin with those that have been so for longest. */
interface Group<Member> {
  readonly address: string;
  readonly idle: Set<Member>;
  readonly busy: Set<Member>;
}

/** As long as there is room, an address keeps so many: a browser opens six. */
const shareMin = 8;
/** Busy members that are looked at, each with up to 100 streams: 0.1 ms. */
const looksMax = 8;

export function createStrangers<Member>({ isNewcomer, isOwed }: StrangersOptions<Member>): Strangers<Member> {
  const byAddress = new Map<string, Group<Member>>();
  const groupOf = new Map<Member, Group<Member>>();
  const shared: Group<Member> = { address: "", idle: new Set(), busy: new Set() };
  /** Addresses by how many members they have; the first set stays empty. */
  const bySize: Set<Group<Member>>[] = [new Set()];
  let largestSize = 0;

  const sizeOf = ({ idle, busy }: Group<Member>) => idle.size + busy.size;

  function groupAt(address: string): Group<Member> {
    let group = byAddress.get(address);
    if (group === undefined) byAddress.set(address, (group = { address, idle: new Set(), busy: new Set() }));
    return group;
  }

  /** Puts an address where it belongs, after its count went up or down by one. */
  function moved(group: Group<Member>, before: number): void {
    if (group === shared) return;
    const size = sizeOf(group);
    bySize[before]?.delete(group);
    if (size === 0) byAddress.delete(group.address);
    else (bySize[size] ??= new Set()).add(group);
    if (size > largestSize) largestSize = size;
    else if (before === largestSize && bySize[before]?.size === 0) largestSize = size;
  }

  /** Finds one whom we owe nothing. Those whom we do are looked at last the next time. */
  function findNotOwed(busy: Set<Member>): Member | undefined {
    for (let looks = 0; looks < looksMax; looks += 1) {
      const [member] = busy;
      if (member === undefined || !isOwed(member)) return member;
      busy.delete(member);
      busy.add(member);
    }
    return undefined;
  }

  return {
    add(member, address) {
      const group = address === undefined ? shared : groupAt(address);
      groupOf.set(member, group);
      group.idle.add(member);
      moved(group, sizeOf(group) - 1);
    },
    remove(member) {
      const group = groupOf.get(member);
      if (group === undefined) return;
      groupOf.delete(member);
      if (!group.idle.delete(member)) group.busy.delete(member);
      moved(group, sizeOf(group) + 1);
    },
    becameBusy(member) {
      const group = groupOf.get(member);
      if (group?.idle.delete(member) === true) group.busy.add(member);
    },
    becameIdle(member) {
      const group = groupOf.get(member);
      if (group === undefined) return;
      group.busy.delete(member);
      group.idle.delete(member);
      group.idle.add(member);
    },
    leaver({ isFull }) {
      if (!isFull && largestSize <= shareMin) return undefined;
      const isOfShared = largestSize <= shareMin && sizeOf(shared) > largestSize;
      const [group] = isOfShared ? [shared] : (bySize[largestSize] ?? []);
      if (group === undefined) return undefined;
      const [oldest] = group.idle;
      if (isFull) return oldest ?? findNotOwed(group.busy);
      return oldest === undefined || isNewcomer(oldest) ? undefined : oldest;
    },
  };
}
