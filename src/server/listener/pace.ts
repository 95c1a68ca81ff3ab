/**
 * How much a turn of the event loop does for strangers. A turn reads from every connection that has sent something, and each
 * may have sent 100 requests: what 1,000 of them ask for at once made turns of seconds, for which everybody else waited.
 * So once strangers have asked for so much in a turn, nobody without a key is read from in it any more. Then a few
 * connections are read from in each turn, addresses in turn, until nobody waits. Pages, preflights, refusals and calls all count.
 *
 * Whatever else it does, a turn takes one of the connections that wait to be taken, and those wait in one line of the
 * system's, whoever opened them. So they come first as long as there are some: none has its turn before, and whoever
 * made such a turn long waits with them. Then those that wait are read from (line.ts), but only a few while there are
 * more to take: it is better that they wait here, by their addresses. Those that have not asked for anything yet have
 * lines of their own, and every second turn: a key is shown with a request, a handshake takes two or three reads before
 * it, and none of these should stand behind what the address's others ask for. Whoever only opens connections takes no
 * more than that.
 *
 * As long as callers with a key have calls under way, strangers rest after each turn that they made long (strangers-rest.ts).
 * Newcomers, of whom a caller's new connection is one, rest only after a turn that they made long themselves.
 */
import { manyCallers, readerOf, type Connection } from "./connection.ts";
import { stopwatchMs } from "../../system.ts";
import { createEndedAhead } from "./ended-ahead.ts";
import { createLine, networkOf, type Line } from "./line.ts";
import { handleOf } from "./handle.ts";
import { createRest } from "./strangers-rest.ts";
import { createTakingTurns } from "./taking-turns.ts";

export interface Pace {
  /** A connection was taken from the system, whatever becomes of it: others may wait there behind it. */
  taken(): void;
  /** Takes a stranger in. */
  opened(connection: Connection): void;
  /** Notes that a connection has brought a request, and so many bytes that are not noted otherwise. */
  asked(connection: Connection, bytes: number): void;
  /** Notes what a connection has cost beside its requests, in bytes. */
  cost(connection: Connection, bytes: number): void;
  /** Runs what goes on with what a connection has sent, in a turn of its own. */
  goOn(connection: Connection, run: () => void): void;
  /** Whether strangers are not read from until the next turn, since connections are taken. */
  isTaking(): boolean;
  /** Whether a connection waits for its turn. */
  isWaiting(connection: Connection): boolean;
  /** How many that have not asked for anything yet wait for their turn. */
  newcomersWaiting(): number;
  /** A connection is nobody's any more, or no stranger's. Safe to repeat. */
  letGo(connection: Connection): void;
  /** So many calls of callers with a key began, or were found to have one. */
  callsBegan(count: number): void;
  /** One of these is over. */
  callEnded(): void;
}

/** What strangers may cost in a turn, in bytes: 64 requests, some 6 ms. What one connection has sent comes on top, up to 100 requests. */
const turnCostMax = 262_144;
const requestsMax = 64;
const requestCost = turnCostMax / requestsMax;
/** A turn that has taken a connection and cost so much is long: eight requests take as long as to take ten connections. */
const takingTurnCostMax = turnCostMax / 8;
/**
 * How many are read from again in a turn: at first, and in any case this part of those that wait, though no more than use up the turn with
 * a request each. The others would be stopped unread, and stand behind all again.
 */
const resumedMin = 4;
const resumedPart = 1 / 16;
/**
 * And before these, where an address has used up a turn, so many of all others: a turn that it uses up is long, and a caller who opens
 * connections as he needs them opens several in that time. Most of those that were read from before have nothing to say.
 */
const newcomersBesideGreedy = 16;
const othersBesideGreedy = 256;
/** In so many turns a newcomer may have sent something. A handshake takes two or three, and a first request as many. */
const newcomerTurnsMax = 8;

/** A clock that only advances. */
export interface Clock {
  readonly nowMs: () => number;
  /** Runs `act` when so much time has passed, unless what it returns is run before. */
  readonly after: (ms: number, act: () => void) => () => void;
}

const realClock: Clock = {
  nowMs: stopwatchMs,
  after(ms, act) {
    const timer = setTimeout(act, ms);
    return () => clearTimeout(timer);
  },
};

/** Those that wait for turns of one kind, how many are read from in the next one, and how many at most of all addresses but one before these. */
interface Queue {
  readonly line: Line;
  readonly besideGreedy: number;
  resumed: number;
}

// Longer than 80 lines: short acts on one count of the turn, which two functions would only hand to each other.
export function createPace(clock: Clock = realClock): Pace {
  const rest = createRest(clock.nowMs);
  const takingTurns = createTakingTurns(clock.nowMs);
  const reading = new Set<Connection>();
  /** Those of them that have cost something in this turn. */
  const active = new Set<Connection>();
  /** Those that are read from ahead of their turn, and how much that was in this one. */
  const ahead = new Set<Connection>();
  let bytesAhead = 0;
  /** Those that are kept beside what the greedy address has in memory, of those that were told to go on in this turn, and what they have cost in it. */
  const beside = new Set<Connection>();
  let costBeside = 0;
  const ended = createEndedAhead();
  const newcomers: Queue = { line: createLine(), besideGreedy: newcomersBesideGreedy, resumed: resumedMin };
  const others: Queue = { line: createLine(), besideGreedy: othersBesideGreedy, resumed: resumedMin };
  /** Whose turn it was last. */
  let whose = others;
  /** Whose the last one was that was long. */
  let whoseWasLong = others;
  /** What this turn has cost by what was read in it, and by what was read before. */
  let cost = 0;
  let costLater = 0;
  let isGoingOn = false;
  let isDue = false;
  let cancelWaking = () => {};
  let hasTaken = false;
  let isTaking = false;
  let wasBusy = false;

  const lineOf = (connection: Connection) => [newcomers.line, others.line].find((line) => line.has(connection));
  const nobodyWaits = () => newcomers.line.size + others.line.size === 0;

  function turn(): void {
    isDue = false;
    if (cost >= turnCostMax) for (const each of beside) if (reading.has(each)) wait(each);
    beside.clear();
    costBeside = 0;
    const isLong = cost + costLater >= takingTurnCostMax;
    const restMs = rest.turnEnded({ isLong });
    if (isLong && (hasTaken || restMs > 0)) for (const each of active) wait(each);
    active.clear();
    wasBusy ||= cost >= turnCostMax;
    cost = 0;
    costLater = 0;
    bytesAhead = 0;
    isTaking = takingTurns.turnEnded({ isMoreToTake: hasTaken && !nobodyWaits() });
    hasTaken = false;
    if (nobodyWaits()) return;
    if (isLong) whoseWasLong = whose;
    const whoseNext = restMs === 0 ? [newcomers, others] : !isLong && whoseWasLong === others ? [newcomers] : [];
    const isReading = !isTaking && whoseNext.some(({ line }) => line.size > 0);
    if (isReading) resumeSome(whoseNext);
    else if (!isTaking && restMs >= 1) return wakeIn(restMs);
    plan();
  }

  function wakeIn(ms: number): void {
    cancelWaking();
    cancelWaking = clock.after(ms, plan);
  }

  function plan(): void {
    if (!isDue) setImmediate(turn);
    isDue = true;
  }

  function resumeSome(queues: readonly Queue[]): void {
    const areMoreToTake = takingTurns.readingBegins();
    whose.resumed = wasBusy || areMoreToTake ? resumedMin : 2 * whose.resumed;
    wasBusy = false;
    const next = whose === others ? newcomers : others;
    if (next.line.size > 0 && queues.includes(next)) whose = next;
    const { line, resumed } = whose;
    const most = areMoreToTake
      ? resumedMin
      : Math.min(requestsMax, Math.max(resumed, Math.ceil(line.size * resumedPart)));
    const networks = new Set<string>();
    for (const queue of queues)
      resumeUpTo(queue.besideGreedy, queue.line, queue.line.nextBesideGreedy, (connection) => {
        const network = networkOf(connection);
        // Of each network one, but of those that have many callers all: a second one that is greedy would use up what is for all.
        if (networks.has(network) && network !== manyCallers) return;
        networks.add(network);
        beside.add(connection);
      });
    let hasItsTurn = false;
    resumeUpTo(most, line, line.next, (connection) => {
      if (hasItsTurn || !line.isOfGreedy(connection)) return;
      hasItsTurn = true;
      // One of its own that has nothing in memory: what is there goes on first, and would use up the turn before it is read from.
      resumeUpTo(1, line, line.nextEmptyOfGreedy, (own) => beside.add(own));
    });
  }

  function resumeUpTo(count: number, line: Line, next: Line["next"], told?: (connection: Connection) => void): void {
    for (let left = count; left > 0 && costLater < turnCostMax; left -= 1) {
      const connection = next();
      if (connection === undefined) return;
      told?.(connection);
      resume(connection, line);
    }
  }

  function wait(connection: Connection): void {
    const { line } = isNewcomer(connection) ? newcomers : others;
    line.add(connection);
    // What comes once TLS has begun to speak stays with the system, and nobody knows of it.
    const { wire } = connection;
    if (wire !== undefined && (wire.isHandshakeDone || wire.bytesWaiting > 0)) line.came(connection);
    stop(connection);
  }

  function stop(connection: Connection): void {
    reading.delete(connection);
    active.delete(connection);
    const reader = readerOf(connection);
    if (reader === undefined) handleOf(connection.socket)?.readStop();
    else reader.stop();
    if (reader?.ahead.isOver === false) {
      ahead.add(connection);
      if (reader.ahead.hasClientEnded) ended.add(connection);
    }
    plan();
  }

  function resume(connection: Connection, line: Line): void {
    const run = line.remove(connection);
    reading.add(connection);
    ahead.delete(connection);
    ended.remove(connection);
    readerOf(connection)?.goOn();
    const handle = handleOf(connection.wire?.socket ?? connection.socket);
    const isPastSocket = connection.session !== undefined && connection.wire === undefined;
    // Where HTTP/1 or TLS have enough for now, they start again by themselves.
    if (isPastSocket || handle?.reading === true) handle?.readStart();
    if (run !== undefined) goOnNow(run);
  }

  /** What waits is held, and a thousand may send at once: then it stays with the system until their turns. */
  function cameAhead(bytes: number): void {
    bytesAhead += bytes;
    if (bytesAhead < turnCostMax) return;
    for (const each of ahead) readerOf(each)?.ahead.rest();
    ahead.clear();
  }

  function goOnNow(run: () => void): void {
    isGoingOn = true;
    run();
    isGoingOn = false;
  }

  function spend(connection: Connection, bytes: number): void {
    if (connection.hasBroughtKey) return;
    plan();
    rest.costBegan();
    if (reading.has(connection)) active.add(connection);
    if (isGoingOn) {
      costLater += bytes;
      return;
    }
    cost += bytes;
    const isBeside = beside.has(connection);
    if (isBeside) costBeside += bytes;
    if (cost < turnCostMax) return;
    // What was read before goes on first, and may use up the turn before the system is asked for what those beside have sent.
    const areBesideDone = costBeside >= turnCostMax;
    for (const each of reading) if (each === connection || areBesideDone || !beside.has(each)) wait(each);
    if (isBeside && !areBesideDone) return;
    // Those that were to be read from after it come first the next time, or they would never be.
    whose.line.putLast(connection);
  }

  return {
    taken() {
      hasTaken = true;
      plan();
    },
    opened(connection) {
      const reader = readerOf(connection);
      if (reader !== undefined) {
        reader.ahead.onCame = (bytes) => {
          lineOf(connection)?.came(connection);
          cameAhead(bytes);
        };
        reader.ahead.onClientEnded = () => ended.add(connection);
      }
      newcomers.line.addFresh(connection);
      stop(connection);
    },
    asked(connection, bytes) {
      connection.hasAsked = true;
      spend(connection, requestCost + bytes);
    },
    cost: spend,
    goOn(connection, run) {
      setImmediate(() => {
        const isStranger = !connection.hasBroughtKey && !connection.socket.destroyed;
        if (isStranger && costLater >= turnCostMax && lineOf(connection) === undefined) wait(connection);
        const line = lineOf(connection);
        if (line === undefined) goOnNow(run);
        else line.keep(connection, run);
      });
    },
    isTaking: () => isTaking,
    isWaiting: (connection) => lineOf(connection) !== undefined,
    newcomersWaiting: () => newcomers.line.size,
    letGo(connection) {
      const line = lineOf(connection);
      if (line !== undefined) resume(connection, line);
      reading.delete(connection);
      active.delete(connection);
    },
    callsBegan: rest.callsBegan,
    callEnded() {
      if (rest.callEnded() && !nobodyWaits()) plan();
    },
  };
}

/** Whether a connection may still be about to bring its first request. Notes whether it has sent anything in its turn. */
function isNewcomer(connection: Connection): boolean {
  if (connection.hasAsked) return false;
  const { bytesRead } = connection.wire ?? connection.socket;
  if (bytesRead !== connection.bytesReadInTurns) connection.turnsRead += 1;
  connection.bytesReadInTurns = bytesRead;
  return connection.turnsRead < newcomerTurnsMax;
}
