/**
 * What strangers leave unread in the system's send queues, up to megabytes of a connection, in memory that counts as ours
 * where that is limited. No bound of Node's sees it, so the system is asked once strangers were given so much that it may be
 * too much. All of them together have a budget, and who has the most is cut, down to what leaves everybody as much. It is cut
 * by a reset, since the system keeps what is closed and sends it for minutes. Closed ones have a budget of their own: where
 * that is spent, connections that end are reset too.
 */
import type { Socket } from "node:net";
import { stopwatchMs } from "../../system.ts";
import { holderAt, type Connection } from "./connection.ts";
import { handleOf } from "./reading.ts";
import { bytesHandedOver, inodeOf, peerOf, queuesIn, readTables, type SystemQueue } from "./system-queues.ts";

export interface SendQueues {
  /** Notes a connection that is open, and a stranger's for now. */
  opened(connection: Connection): void;
  /** Notes that a stranger may have been given something. */
  given(connection: Connection): void;
  /** Looks at everybody. To be run now and then. */
  tick(): void;
  /** A connection is nobody's any more, or no stranger's. Safe to repeat. */
  letGo(connection: Connection): void;
}

export interface SendQueuesOptions {
  /** Finds the address that a connection counts for, by its peer; undefined for one that many callers have. */
  readonly ownAddressOf: (peer: string | undefined) => string | undefined;
  /** Reads the system's tables of connections; undefined where they cannot be read just now. */
  readonly read?: () => string | undefined;
}

/** What strangers may leave unread in open connections, and in closed ones. The system may take four times that for small answers. */
const bytesMax = 8_388_608;
/** What is left of it once somebody was cut, so that one look serves for many. */
const bytesEnough = 7_340_032;
/** Where much is queued, so much more is worth a look. */
const moreBytesMin = 2_097_152;
/** Who may leave less is not reset at the end, but where closed ones have twice their budget. */
const leftBytesMin = 16_384;
/** Each address may leave a document in closed ones, until they have twice their budget: who reads slowly loses none to many others. */
const shareMin = 262_144;
/** How many times what a look takes it is until the next one, and how long where it failed. */
const [restTimes, retryMs] = [10, 500];
/** At so many times the budget the next look waits for no longer than the last one took. */
const hastyTimes = 2;

/** What is known of one connection. */
interface Stranger {
  readonly connection: Connection;
  /** What brings its bytes to the system, TLS or not. */
  readonly socket: Socket;
  inode: string | undefined;
  /** What the system was handed, and what of that was taken at the last look. */
  bytesHanded: number;
  bytesTaken: number;
  isToBeReset: boolean;
}

/** Whoever has one, and how much is in it. */
type Queue = readonly [stranger: Stranger, bytes: number];

export function createSendQueues({ ownAddressOf, read = readTables }: SendQueuesOptions): SendQueues {
  const strangers = new Map<Connection, Stranger>();
  /** Those who may have been given something in this turn. */
  const recent = new Set<Stranger>();
  const closed = createClosed();
  const ports = new Set<number>();
  let [bytesQueued, bytesSince, hastyFromMs] = [0, 0, 0];
  let resting: NodeJS.Timeout | undefined;

  function noteRecent(): void {
    for (const stranger of recent) bytesSince += handedSince(stranger);
    recent.clear();
    lookIfDue();
  }

  function lookIfDue(): void {
    if (bytesSince < Math.max(bytesMax - bytesQueued, moreBytesMin)) return;
    const isHasty = bytesSince >= hastyTimes * bytesMax && stopwatchMs() >= hastyFromMs;
    if (resting === undefined || isHasty) look();
  }

  /** Not in the background: who asks for much would be given a hundred megabytes meanwhile. */
  function look(): void {
    const startMs = stopwatchMs();
    for (const stranger of strangers.values()) bytesSince += handedSince(stranger);
    const queues = queuesIn(read());
    if (queues === undefined) {
      // Where nobody can tell, nobody is reset.
      closed.found(new Map());
    } else {
      bytesSince = 0;
      const ofClosed = queues.filter(({ inode, port }) => inode === "0" && ports.has(port));
      closed.found(sumsByHolder(ofClosed, ownAddressOf));
      bytesQueued = closed.bytes + cutDown(queuesOf(strangers.values(), queues));
    }
    const tookMs = stopwatchMs() - startMs;
    hastyFromMs = queues === undefined ? Number.POSITIVE_INFINITY : startMs + 2 * tookMs;
    clearTimeout(resting);
    resting = setTimeout(goOn, queues === undefined ? retryMs : restTimes * tookMs).unref();
  }

  function goOn(): void {
    resting = undefined;
    lookIfDue();
  }

  return {
    opened(connection) {
      const socket = connection.wire?.socket ?? connection.socket;
      const stranger = { connection, socket, inode: undefined, bytesHanded: 0, bytesTaken: 0, isToBeReset: false };
      strangers.set(connection, stranger);
      if (socket.localPort !== undefined) ports.add(socket.localPort);
      resetWhere(socket, () => {
        if (connection.hasBroughtKey) return false;
        bytesSince += handedSince(stranger);
        if (stranger.isToBeReset) return true;
        return !closed.mayTake(connection.holder, stranger.bytesHanded - stranger.bytesTaken);
      });
    },
    given(connection) {
      const stranger = strangers.get(connection);
      if (stranger === undefined) return;
      bytesSince += handedSince(stranger);
      lookIfDue();
      // What TLS and HTTP/2 write comes behind the end of an answer.
      if (recent.size === 0) setImmediate(noteRecent);
      recent.add(stranger);
    },
    tick() {
      for (const stranger of strangers.values()) bytesSince += handedSince(stranger);
      // Until it is known that they have room again, whoever ends may be reset.
      if (closed.isFull && resting === undefined) look();
      else lookIfDue();
    },
    letGo: (connection) => strangers.delete(connection),
  };
}

/** How much a stranger was given since it was last asked. */
function handedSince(stranger: Stranger): number {
  const bytes = bytesHandedOver(stranger.socket) ?? stranger.bytesHanded;
  const more = bytes - stranger.bytesHanded;
  stranger.bytesHanded = bytes;
  return more;
}

/** What was found in open connections. */
function queuesOf(strangers: Iterable<Stranger>, queues: readonly SystemQueue[]): Queue[] {
  const byInode = new Map(queues.map(({ inode, bytes }) => [inode, bytes]));
  const found: Queue[] = [];
  for (const stranger of strangers) {
    if (stranger.bytesTaken === stranger.bytesHanded) continue;
    if (byInode.size > 0) stranger.inode ??= inodeOf(stranger.socket);
    const bytes = byInode.get(stranger.inode ?? "") ?? 0;
    stranger.bytesTaken = stranger.bytesHanded - bytes;
    if (bytes > 0) found.push([stranger, bytes]);
  }
  return found;
}

function sumsByHolder(
  queues: readonly SystemQueue[],
  ownAddressOf: SendQueuesOptions["ownAddressOf"],
): Map<string, number> {
  const byHolder = new Map<string, number>();
  for (const [peer, its] of Map.groupBy(queues, (queue) => queue.peer)) {
    const holder = holderAt(ownAddressOf(peerOf(peer)));
    byHolder.set(holder, (byHolder.get(holder) ?? 0) + sumOf(its.map(({ bytes }) => bytes)));
  }
  return byHolder;
}

/** Cuts whoever has the most unread until there is room again, and tells how much is left. */
function cutDown(queues: readonly Queue[]): number {
  const byHolder = Map.groupBy(queues, ([{ connection }]) => connection.holder);
  const sums = new Map([...byHolder].map(([holder, its]) => [holder, sumOf(its.map(([, bytes]) => bytes))]));
  const all = sumOf([...sums.values()]);
  if (all <= bytesMax) return all;
  const level = levelOf([...sums.values()], bytesEnough);
  let left = 0;
  for (const [holder, its] of byHolder) {
    let rest = sums.get(holder) ?? 0;
    for (const [stranger, bytes] of its.toSorted(([, a], [, b]) => b - a)) {
      if (rest <= level) break;
      rest -= bytes;
      stranger.isToBeReset = true;
      stranger.socket.destroy();
    }
    left += rest;
  }
  return left;
}

interface Closed {
  /** Takes over what was found in closed connections. */
  found(byHolder: Map<string, number>): void;
  /** Takes a connection that ends with so much unread, at most, and says false where it has to be reset. */
  mayTake(holder: string, bytes: number): boolean;
  readonly bytes: number;
  readonly isFull: boolean;
}

/** What is left unread in closed connections: as found at the last look, with those that were closed since. */
function createClosed(): Closed {
  let byHolder = new Map<string, number>();
  let bytes = 0;
  let level = Number.POSITIVE_INFINITY;
  return {
    found(found) {
      byHolder = found;
      bytes = sumOf([...found.values()]);
      const isFull = bytes > bytesMax;
      level = isFull ? Math.max(shareMin, levelOf([...found.values()], bytesMax)) : Number.POSITIVE_INFINITY;
    },
    mayTake(holder, more) {
      if (more === 0) return true;
      const all = (byHolder.get(holder) ?? 0) + more;
      const isFarTooMuch = bytes + more > 2 * bytesMax;
      const share = isFarTooMuch ? Math.min(level, bytesMax / (byHolder.size + 1)) : level;
      if (all > share && (isFarTooMuch || more >= leftBytesMin)) return false;
      byHolder.set(holder, all);
      bytes += more;
      return true;
    },
    get bytes() {
      return bytes;
    },
    get isFull() {
      return bytes > bytesMax;
    },
  };
}

/** What each may have for all to have `most`, where whoever has less leaves the rest to others. */
function levelOf(sizes: readonly number[], most: number): number {
  let rest = most;
  for (const [i, size] of sizes.toSorted((a, b) => a - b).entries()) {
    const level = rest / (sizes.length - i);
    if (size > level) return level;
    rest -= size;
  }
  return Number.POSITIVE_INFINITY;
}

const sumOf = (sizes: readonly number[]): number => sizes.reduce((sum, size) => sum + size, 0);

/** Has a socket reset its connection as it ends, where that is to be. Whoever ends it, Node's own included, destroys it. */
function resetWhere(socket: Socket, isToBe: () => boolean): void {
  const { destroy } = socket;
  socket.destroy = (error) => {
    socket.destroy = destroy;
    // What waits for its shutdown cannot be reset, and would never be closed.
    const isShutting = socket.writableEnded && !socket.writableFinished && socket.writableLength === 0;
    if (handleOf(socket) === undefined || !isToBe() || isShutting) return destroy.call(socket, error);
    return socket.resetAndDestroy();
  };
}
