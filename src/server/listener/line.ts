/**
 * Connections that wait to be read from, addresses in turn: of IPv6 the first 48 bits, since whoever has one such network
 * has 65,536 of what is an address elsewhere. The address that last used up a turn is passed over three times of four
 * while others wait: behind one of its connections nobody else is read from in a turn. Within an address three kinds take
 * turns: the latest that was never read from, the one of those that waits longest, and the one that waits longest of
 * those that were read from before. Of these, one that is known to have sent something comes first, but every second time: thousands
 * may have begun TLS and say no more. If the latest always came first, whoever was not read from at once would wait for as
 * long as others come. One that leaves is forgotten, at the latest when as many have left as wait.
 */
import type { Connection } from "./connection.ts";

export interface Line {
  add(connection: Connection): void;
  /** The same for one that was never read from. */
  addFresh(connection: Connection): void;
  /** Notes that a connection which was read from before has sent something. */
  came(connection: Connection): void;
  has(connection: Connection): boolean;
  /** Keeps what a connection that waits is to go on with. */
  keep(connection: Connection, run: () => void): void;
  /** Takes a connection out, and returns what was kept for it. Safe to repeat. */
  remove(connection: Connection): (() => void) | undefined;
  /** Finds whose turn it is, who has to be removed then. */
  next(): Connection | undefined;
  /** The same among other addresses than the one that last used up a turn; undefined where there is no such address. */
  nextBesideGreedy(): Connection | undefined;
  /** Whether a connection is of that address. */
  isOfGreedy(connection: Connection): boolean;
  /** One of that address that has had a turn before, and of which nothing is in memory. */
  nextEmptyOfGreedy(): Connection | undefined;
  /** Puts a connection's address, which has used up a turn, behind all others. */
  putLast(connection: Connection): void;
  readonly size: number;
}

/** Those of an address, in the order in which they came. */
interface Group {
  /** The first `gone` of them are no longer here, and `left` of those behind have left. */
  fresh: Connection[];
  gone: number;
  left: number;
  /** Of those that were read from before the ones that have sent something since, as far as that is known, and all others. */
  readonly ready: Set<Connection>;
  readonly others: Set<Connection>;
  turn: number;
}

/** How often in a row the address that last used up a turn is passed over. */
const passesMax = 3;
/** So many of its connections are looked at for one of which nothing is in memory. */
const looksMax = 1_000;

// Longer than 80 lines: short acts on the same two maps, which two functions would only hand to each other.
export function createLine(): Line {
  const byAddress = new Map<string, Group>();
  const waiting = new Map<Connection, (() => void) | undefined>();
  /** The address that last used up a turn, and how often it was passed over since its own. */
  let greedy: string | undefined;
  let passes = 0;

  function groupOf(connection: Connection): Group {
    const address = networkOf(connection);
    let its = byAddress.get(address);
    if (its === undefined) {
      its = { fresh: [], gone: 0, left: 0, ready: new Set(), others: new Set(), turn: 0 };
      byAddress.set(address, its);
    }
    return its;
  }

  function latest(its: Group): Connection | undefined {
    for (; its.left > 0 && !waiting.has(its.fresh.at(-1) as Connection); its.left -= 1) its.fresh.pop();
    return freshCount(its) > 0 ? its.fresh.at(-1) : undefined;
  }

  function earliest(its: Group): Connection | undefined {
    for (; its.left > 0 && !waiting.has(its.fresh[its.gone] as Connection); its.left -= 1) its.gone += 1;
    return its.fresh[its.gone];
  }

  function leave(its: Group, connection: Connection): void {
    if (its.ready.delete(connection) || its.others.delete(connection)) return;
    if (its.fresh.at(-1) === connection) its.fresh.pop();
    else if (its.fresh[its.gone] === connection) its.gone += 1;
    else its.left += 1;
    if (2 * (its.gone + its.left) <= its.fresh.length) return;
    its.fresh = its.fresh.filter((each, i) => i >= its.gone && waiting.has(each));
    its.gone = 0;
    its.left = 0;
  }

  function choose(its: Group): Connection | undefined {
    its.turn = (its.turn + 1) % 6;
    const before = its.turn < 3 ? (oldest(its.ready) ?? oldest(its.others)) : (oldest(its.others) ?? oldest(its.ready));
    if (its.turn % 3 === 1) return latest(its) ?? before;
    if (its.turn % 3 === 2) return before ?? earliest(its);
    return earliest(its) ?? before;
  }

  /** Chooses one of an address, which is last from now on. */
  function turnOf(address: string, its: Group): Connection | undefined {
    byAddress.delete(address);
    byAddress.set(address, its);
    return choose(its);
  }

  return {
    add(connection) {
      waiting.set(connection, undefined);
      groupOf(connection).others.add(connection);
    },
    addFresh(connection) {
      waiting.set(connection, undefined);
      groupOf(connection).fresh.push(connection);
    },
    came(connection) {
      const its = byAddress.get(networkOf(connection));
      if (its?.others.delete(connection) === true) its.ready.add(connection);
    },
    has: (connection) => waiting.has(connection),
    keep(connection, run) {
      waiting.set(connection, run);
    },
    remove(connection) {
      const run = waiting.get(connection);
      const address = networkOf(connection);
      const its = byAddress.get(address);
      if (!waiting.delete(connection) || its === undefined) return undefined;
      if (waiting.size === 0) greedy = undefined;
      leave(its, connection);
      if (its.fresh.length - its.gone + its.ready.size + its.others.size === 0) byAddress.delete(address);
      return run;
    },
    next() {
      for (const [address, its] of byAddress) {
        if (address === greedy && byAddress.size > 1 && passes < passesMax) {
          passes += 1;
          continue;
        }
        if (address === greedy) passes = 0;
        return turnOf(address, its);
      }
      return undefined;
    },
    isOfGreedy: (connection) => networkOf(connection) === greedy,
    nextEmptyOfGreedy() {
      if (greedy === undefined) return undefined;
      let looks = looksMax;
      for (const each of byAddress.get(greedy)?.others ?? []) {
        if (waiting.get(each) === undefined && each.socket.readableLength === 0) return each;
        if ((looks -= 1) === 0) return undefined;
      }
      return undefined;
    },
    nextBesideGreedy() {
      if (greedy === undefined) return undefined;
      for (const [address, its] of byAddress) if (address !== greedy) return turnOf(address, its);
      return undefined;
    },
    putLast(connection) {
      greedy = networkOf(connection);
      const its = byAddress.get(greedy);
      if (its === undefined) return;
      byAddress.delete(greedy);
      byAddress.set(greedy, its);
    },
    get size() {
      return waiting.size;
    },
  };
}

/** Whose turn a connection takes: its address's, or of IPv6 that of the first 48 bits. */
export function networkOf({ address }: Connection): string {
  return address.replace(/^((?:[\da-f]{1,4}:){3})[\da-f]{1,4}::\/64$/, "$1");
}

function freshCount({ fresh, gone, left }: Group): number {
  return fresh.length - gone - left;
}

function oldest(others: ReadonlySet<Connection>): Connection | undefined {
  const [first] = others;
  return first;
}
