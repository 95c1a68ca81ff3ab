/**
 * How much a turn of the event loop does for strangers. A turn reads from every connection that has sent something, and each
 * may have sent 100 requests: what 1,000 of them ask for at once made turns of seconds, for which everybody else waited.
 * So once strangers have asked for so much in a turn, nobody without a key is read from in it any more. Then a few
 * connections are read from in each turn, addresses in turn, until nobody waits. Pages, preflights, refusals and calls all count.
 *
 * A turn takes one of the connections that wait to be taken. As long as there are some they come first, since nobody knows
 * yet whose they are; then those that wait are read from (line.ts).
 */
import type { Connection } from "./connection.ts";
import { createLine } from "./line.ts";

export interface Pace {
  /** Takes a stranger in. */
  opened(connection: Connection): void;
  /** Notes that a connection has brought a request, and so many bytes that are not noted otherwise. */
  asked(connection: Connection, bytes: number): void;
  /** Notes what a connection has cost beside its requests, in bytes. */
  cost(connection: Connection, bytes: number): void;
  /** Runs what goes on with what a connection has sent, in a turn of its own. */
  goOn(connection: Connection, run: () => void): void;
  /** A connection is nobody's any more, or no stranger's. Safe to repeat. */
  letGo(connection: Connection): void;
}

/** What strangers may cost in a turn, in bytes: 64 requests, some 6 ms. What one connection has sent comes on top, up to 100. */
const turnCostMax = 262_144;
const requestCost = turnCostMax / 64;
/** So many turns in a row do nothing but take connections. */
const takingTurnsMax = 15;
/** How many are read from again in a turn: at first, and in any case this part of those that wait. */
const resumedMin = 4;
const resumedPart = 1 / 16;

// Longer than 80 lines: short acts on one count of the turn, which two functions would only hand to each other.
export function createPace(): Pace {
  const reading = new Set<Connection>();
  const waiting = createLine();
  /** What this turn has cost by what was read in it, and by what was read before. */
  let cost = 0;
  let costLater = 0;
  let isGoingOn = false;
  let isDue = false;
  let hasTaken = false;
  let takingTurns = 0;
  let wasBusy = false;
  let resumed = resumedMin;

  function turn(): void {
    isDue = false;
    wasBusy ||= cost >= turnCostMax;
    cost = 0;
    costLater = 0;
    if (waiting.size === 0) return;
    if (hasTaken && takingTurns < takingTurnsMax) takingTurns += 1;
    else resumeSome();
    hasTaken = false;
    plan();
  }

  function plan(): void {
    if (!isDue) setImmediate(turn);
    isDue = true;
  }

  function resumeSome(): void {
    takingTurns = 0;
    resumed = wasBusy ? resumedMin : 2 * resumed;
    wasBusy = false;
    let left = Math.max(resumed, Math.ceil(waiting.size * resumedPart));
    for (; left > 0 && costLater < turnCostMax; left -= 1) {
      const next = waiting.next();
      if (next === undefined) return;
      resume(next);
    }
  }

  function wait(connection: Connection): void {
    waiting.add(connection);
    stop(connection);
  }

  function stop(connection: Connection): void {
    reading.delete(connection);
    connection.wire?.stop();
    handleOf(connection)?.readStop();
    plan();
  }

  function resume(connection: Connection): void {
    const run = waiting.remove(connection);
    reading.add(connection);
    connection.wire?.goOn();
    const handle = handleOf(connection);
    const isPastSocket = connection.session !== undefined && connection.wire === undefined;
    // Where HTTP/1 or TLS have enough for now, they start again by themselves.
    if (isPastSocket || handle?.reading === true) handle?.readStart();
    if (run !== undefined) goOnNow(run);
  }

  function goOnNow(run: () => void): void {
    isGoingOn = true;
    run();
    isGoingOn = false;
  }

  function spend(connection: Connection, bytes: number): void {
    if (connection.hasBroughtKey) return;
    plan();
    if (isGoingOn) {
      costLater += bytes;
      return;
    }
    cost += bytes;
    if (cost < turnCostMax) return;
    for (const each of reading) wait(each);
    // Those that were to be read from after it come first the next time, or they would never be.
    waiting.putLast(connection);
  }

  return {
    opened(connection) {
      hasTaken = true;
      if (waiting.size === 0) {
        reading.add(connection);
      } else {
        waiting.addFresh(connection);
        stop(connection);
      }
    },
    asked(connection, bytes) {
      spend(connection, requestCost + bytes);
    },
    cost: spend,
    goOn(connection, run) {
      setImmediate(() => {
        if (costLater >= turnCostMax && !waiting.has(connection) && !connection.socket.destroyed) wait(connection);
        if (waiting.has(connection)) waiting.keep(connection, run);
        else goOnNow(run);
      });
    },
    letGo(connection) {
      if (waiting.has(connection)) resume(connection);
      reading.delete(connection);
    },
  };
}

/** What reads from a socket, whoever is handed what it reads. Undocumented; without it turns have no bound. */
function handleOf(connection: Connection): Handle | undefined {
  const socket = connection.wire?.socket ?? connection.socket;
  // oxlint-disable-next-line no-underscore-dangle -- HTTP/2 reads past the socket, which cannot pause it
  return socket.destroyed ? undefined : ((socket as unknown as { _handle?: Handle | null })._handle ?? undefined);
}

interface Handle {
  readonly reading?: boolean;
  readStop(): void;
  readStart(): void;
}
