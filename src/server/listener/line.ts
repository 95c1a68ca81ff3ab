/**
 * Connections that wait to be read from, addresses in turn: of each the latest that was never read from takes turns with the one
 * that waits for longest.
 */
import type { Connection } from "./connection.ts";

export interface Line {
  add(connection: Connection): void;
  /** The same for one that was never read from. */
  addFresh(connection: Connection): void;
  has(connection: Connection): boolean;
  /** Keeps what a connection that waits is to go on with. */
  keep(connection: Connection, run: () => void): void;
  /** Takes a connection out, and returns what was kept for it. Safe to repeat. */
  remove(connection: Connection): (() => void) | undefined;
  /** Finds whose turn it is, who has to be removed then. */
  next(): Connection | undefined;
  /** Puts a connection's address behind all others. */
  putLast(connection: Connection): void;
  readonly size: number;
}

/** Those of an address, in the order in which they came. */
interface Group {
  /** Some may have left. */
  readonly fresh: Connection[];
  readonly others: Set<Connection>;
  isForOthers: boolean;
}

export function createLine(): Line {
  const byAddress = new Map<string, Group>();
  const waiting = new Map<Connection, (() => void) | undefined>();

  function groupOf({ holder }: Connection): Group {
    let its = byAddress.get(holder);
    if (its === undefined) byAddress.set(holder, (its = { fresh: [], others: new Set(), isForOthers: false }));
    return its;
  }

  function latest(fresh: Connection[]): Connection | undefined {
    let last = fresh.pop();
    while (last !== undefined && !waiting.has(last)) last = fresh.pop();
    return last;
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
    has: (connection) => waiting.has(connection),
    keep(connection, run) {
      waiting.set(connection, run);
    },
    remove(connection) {
      const run = waiting.get(connection);
      waiting.delete(connection);
      byAddress.get(connection.holder)?.others.delete(connection);
      if (waiting.size === 0) byAddress.clear();
      return run;
    },
    next() {
      for (const [address, its] of byAddress) {
        byAddress.delete(address);
        const next = its.isForOthers
          ? (oldest(its.others) ?? latest(its.fresh))
          : (latest(its.fresh) ?? oldest(its.others));
        if (next === undefined) continue;
        its.isForOthers = !its.isForOthers;
        byAddress.set(address, its);
        return next;
      }
      return undefined;
    },
    putLast({ holder }) {
      const its = byAddress.get(holder);
      if (its === undefined) return;
      byAddress.delete(holder);
      byAddress.set(holder, its);
    },
    get size() {
      return waiting.size;
    },
  };
}

function oldest(others: ReadonlySet<Connection>): Connection | undefined {
  const [first] = others;
  return first;
}
