/**
 * Clients who have asked and ended their side while they wait for their turn, over TLS behind the last word of a handshake. Next
 * to all of them have left, which shows only once something is written to them. Some end their own side alone, and are to be
 * answered: so each address has a few of them, and the one that has waited longest makes room for the next.
 */
import type { Connection } from "./connection.ts";
import { destroy } from "./farewells.ts";
import { networkOf } from "./line.ts";

/** As many as may ask in a turn. */
const endedMax = 64;

export interface EndedAhead {
  /** Takes in one that waits. Safe to repeat. */
  add(connection: Connection): void;
  /** It waits no more. Safe to repeat. */
  remove(connection: Connection): void;
}

export function createEndedAhead(): EndedAhead {
  const byAddress = new Map<string, Set<Connection>>();

  function remove(connection: Connection): void {
    const address = networkOf(connection);
    const its = byAddress.get(address);
    if (its?.delete(connection) === true && its.size === 0) byAddress.delete(address);
  }

  return {
    add(connection) {
      const address = networkOf(connection);
      const its = byAddress.get(address) ?? new Set();
      byAddress.set(address, its.add(connection));
      if (its.size <= endedMax) return;
      const [first = connection] = its;
      remove(first);
      destroy(first);
    },
    remove,
  };
}
