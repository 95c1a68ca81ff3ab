/**
 * Calls that take too long, found by the ticks of the connections. All calls may take equally long, so those that began
 * in one tick end with one, and a call costs a place in a map instead of a timer.
 */
import type { Connection } from "./connection.ts";
import type { Request } from "./exchange.ts";

/** Calls that began in one tick. Whoever ends takes his own out. */
export type Calls = Map<Request, Connection>;

export interface CallTicks {
  /** Notes a call, and returns those among which it is. */
  begin(connection: Connection, request: Request): Calls;
  /** Ends the tick, and returns the calls that have lasted for so many whole ones. */
  end(): Iterable<readonly [Request, Connection]>;
}

const none: Calls = new Map();

export function createCallTicks(ticks: number): CallTicks {
  let latest: Calls = new Map();
  /** One for each tick before, the oldest first. */
  const earlier: Calls[] = [];
  return {
    begin: (connection, request) => latest.set(request, connection),
    end() {
      earlier.push(latest.size === 0 ? none : latest);
      if (latest.size > 0) latest = new Map();
      return earlier.length > ticks ? (earlier.shift() ?? none) : none;
    },
  };
}
