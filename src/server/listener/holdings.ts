/**
 * What we hold in memory for strangers, in bytes by estimate: answers that nobody takes, requests that are not whole.
 * All of them together have a budget. When it is spent, the address that has the most of it loses connections: those
 * that have the most, the oldest first. Nobody loses any for having many neighbours that hold little, or for what another
 * address has that may not go.
 */

export interface HoldingsOptions<Holder> {
  /** Bytes that all may hold together. */
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

interface AddressHoldings<Holder> {
  bytes: number;
  /** In the order in which they came. */
  readonly byHolder: Map<Holder, number>;
}

/** Once the budget is spent this part of it is made free, so that one look at all holders serves for many evictions. */
const freedPart = 1 / 8;
export function createHoldings<Holder extends object>(options: HoldingsOptions<Holder>): Holdings<Holder> {
  const { bytesMax, mayGo, evict } = options;
  const byAddress = new Map<string, AddressHoldings<Holder>>();
  const enough = bytesMax * (1 - freedPart);
  let bytes = 0;
  /** Where nobody may go, looking again is worth it only when there is more. */
  let nextLookBytes = bytesMax;

  function remove(holder: Holder, address: string): number {
    const its = byAddress.get(address);
    const held = its?.byHolder.get(holder);
    if (its === undefined || held === undefined) return 0;
    its.byHolder.delete(holder);
    its.bytes -= held;
    bytes -= held;
    if (its.byHolder.size === 0) byAddress.delete(address);
    return held;
  }

  function makeRoom(): void {
    if (bytes <= bytesMax) return;
    const leavers: [Holder, bytes: number][] = [];
    /** What addresses have left of which nothing may go. */
    let staying = 0;
    // Who has the most is last; of those who have as much, who came first.
    const addresses = [...byAddress].toReversed().toSorted(([, a], [, b]) => a.bytes - b.bytes);
    while (bytes - staying > enough) {
      const most = addresses.pop();
      if (most === undefined) break;
      const [address, its] = most;
      // Of many who have little, those who have less than an equal part are not to go for the others.
      if (its.bytes <= bytesMax / byAddress.size) break;
      // Down to the next address, and somewhat further, lest two of them take turns.
      const leave = (addresses.at(-1)?.[1].bytes ?? 0) * (1 - freedPart);
      for (const [holder, held] of [...its.byHolder].toSorted(([, a], [, b]) => b - a)) {
        if (bytes - staying <= enough || its.bytes < leave) break;
        if (!mayGo(holder, held)) continue;
        leavers.push([holder, remove(holder, address)]);
      }
      if (its.byHolder.size === 0) continue;
      if (its.bytes >= leave) staying += its.bytes;
      else addresses.splice(addresses.findLastIndex(([, other]) => other.bytes <= its.bytes) + 1, 0, most);
    }
    nextLookBytes = Math.max(bytesMax, bytes + bytesMax * freedPart);
    for (const [holder, held] of leavers) evict(holder, held);
  }

  return {
    add(holder, address, more) {
      let its = byAddress.get(address);
      if (its === undefined) byAddress.set(address, (its = { bytes: 0, byHolder: new Map() }));
      its.byHolder.set(holder, (its.byHolder.get(holder) ?? 0) + more);
      its.bytes += more;
      bytes += more;
      if (its.byHolder.get(holder) === 0) remove(holder, address);
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
