/**
 * What we hold in memory for strangers, in bytes by estimate: answers that nobody takes, requests that are not whole.
 * What may go of it has a budget for all of them together. When it is spent, the address that has the most of that loses
 * connections: those that have the most, the oldest first. Nobody loses any for having many neighbours that hold little,
 * or for what may not go of others.
 */

export interface HoldingsOptions<Holder> {
  /** Bytes that all may hold together, beside what may not go. */
  readonly bytesMax: number;
  readonly mayGo: (holder: Holder, bytes: number) => boolean;
  /** Takes everything from a holder, which was so much. It is forgotten already. */
  readonly evict: (holder: Holder, bytes: number) => void;
}

export interface Holdings<Holder extends object> {
  /** Adds to what a holder of an address has; less than nothing gives back. Makes room where that is too much. */
  add(holder: Holder, address: string, bytes: number): void;
  /** Forgets a holder, and tells how much it had. Safe to repeat. */
  remove(holder: Holder, address: string): number;
  /** Evicts until what is left is within the budget, as far as there is anybody who may go. */
  makeRoom(): void;
  readonly bytes: number;
}

/** Once the budget is spent this part of it is made free, so that one look at all holders serves for many evictions. */
const freedPart = 1 / 8;
export function createHoldings<Holder extends object>(options: HoldingsOptions<Holder>): Holdings<Holder> {
  const { bytesMax, mayGo, evict } = options;
  /** What each holder of an address has, in the order in which they came. */
  const byAddress = new Map<string, Map<Holder, number>>();
  const enough = bytesMax * (1 - freedPart);
  let bytes = 0;
  /** Where nobody may go, looking again is worth it only when there is more. */
  let nextLookBytes = bytesMax;

  function remove(holder: Holder, address: string): number {
    const byHolder = byAddress.get(address);
    const held = byHolder?.get(holder);
    if (byHolder === undefined || held === undefined) return 0;
    byHolder.delete(holder);
    bytes -= held;
    if (byHolder.size === 0) byAddress.delete(address);
    return held;
  }

  function makeRoom(): void {
    if (bytes <= bytesMax) return;
    const leavers: [Holder, address: string][] = [];
    // Who has the most is last; of those who have as much, who came first.
    const all = [...byAddress].toReversed().map(([address, byHolder]) => mayGoOf(address, byHolder));
    const addresses = all.toSorted((a, b) => a.bytes - b.bytes);
    let mayGoBytes = all.reduce((sum, its) => sum + its.bytes, 0);
    const leftBytes = mayGoBytes > bytesMax ? enough : bytesMax;
    while (mayGoBytes > leftBytes) {
      const most = addresses.pop();
      // Of many who have little, those who have less than an equal part are not to go for the others.
      if (most === undefined || most.bytes <= bytesMax / all.length) break;
      // Down to the next address, and somewhat further, lest two of them take turns.
      const leave = (addresses.at(-1)?.bytes ?? 0) * (1 - freedPart);
      while (mayGoBytes > leftBytes && most.bytes >= leave) {
        const next = most.holders.pop();
        if (next === undefined) break;
        leavers.push([next[0], most.address]);
        most.bytes -= next[1];
        mayGoBytes -= next[1];
      }
      if (most.holders.length === 0) continue;
      addresses.splice(addresses.findLastIndex((other) => other.bytes <= most.bytes) + 1, 0, most);
    }
    const evicted = leavers.map(([holder, address]) => [holder, remove(holder, address)] as const);
    nextLookBytes = Math.max(bytesMax, bytes + bytesMax * freedPart);
    for (const [holder, held] of evicted) evict(holder, held);
  }

  /** What of an address may go, that which has the most last, and of those that have as much the oldest. */
  function mayGoOf(address: string, byHolder: ReadonlyMap<Holder, number>) {
    const holders = [...byHolder].filter(([holder, held]) => mayGo(holder, held));
    const sorted = holders.toReversed().toSorted(([, a], [, b]) => a - b);
    return { address, holders: sorted, bytes: holders.reduce((sum, [, held]) => sum + held, 0) };
  }

  return {
    add(holder, address, more) {
      let byHolder = byAddress.get(address);
      if (byHolder === undefined) byAddress.set(address, (byHolder = new Map()));
      const held = (byHolder.get(holder) ?? 0) + more;
      byHolder.set(holder, held);
      bytes += more;
      if (held === 0) remove(holder, address);
      else if (bytes > nextLookBytes) makeRoom();
      if (bytes <= bytesMax) nextLookBytes = bytesMax;
    },
    remove,
    makeRoom,
    get bytes() {
      return bytes;
    },
  };
}
