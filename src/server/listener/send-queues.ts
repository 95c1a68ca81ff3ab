/**
 * What strangers leave unread in the system's send queues, up to megabytes of a connection, in memory that counts as ours
 * where that is limited. No bound of Node's sees it, so the system is asked once strangers were given so much that it may be
 * too much. Together they have a budget. When it is spent, whoever has the most is cut, until all who were cut have as much.
 * To cut is to reset, since the system keeps what is closed, and sends it for minutes. Closed connections have a budget of
 * their own: when that is spent, connections that end are reset too.
 */
import type { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { processorMs, stopwatchMs } from "../../system.ts";
import { addressOrMany, type Connection } from "./connection.ts";
import { handleOf } from "./handle.ts";
import { addressIn, bytesHandedOver, inodeOf, readQueues, type SystemQueue } from "./system-queues.ts";

export interface SendQueues {
  /** Notes a connection that is open, and a stranger's for now. */
  opened(connection: Connection): void;
  /** Notes that a stranger may have been given something. */
  given(connection: Connection): void;
  /** Looks at everybody. To be run now and then. */
  tick(): void;
  /** A connection is nobody's any more, or no stranger's. Safe to repeat. */
  letGo(connection: Connection): void;
  /** Takes room for a document of so many bytes; where there is none, resolves once it is worth to ask again. */
  untilRoom(bytes: number): Promise<void> | undefined;
}

export interface SendQueuesOptions {
  /** Finds the address that a connection counts for, by its peer; undefined for one that many callers have. */
  readonly ownAddressOf: (peer: string | undefined) => string | undefined;
  /** Reads the system's tables of connections, with pauses. A step throws where they cannot be read just now. */
  readonly read?: () => Iterator<void, readonly SystemQueue[]>;
}

/** What strangers may leave unread in open connections, and in closed ones. The system may take four times that for small answers. */
const bytesMax = 8_388_608;
/** What is left of it once somebody was cut, so that one look serves for many. */
const bytesEnough = 7_340_032;
/** Where much is queued, so much more is worth a look. */
const moreBytesMin = 2_097_152;
/** Whoever leaves less is not reset at the end, unless closed ones have twice their budget. */
const leftBytesMin = 16_384;
/**
 * So much, a document, each address may leave in closed ones, until these have twice their budget: whoever reads slowly
 * loses none because of many others.
 */
const shareMin = 262_144;
/** The next look waits for so many times as long as the last one took the processor, and no longer than that. */
const [restTimes, restMsMax] = [10, 1_000];
/** Where a look failed, the next one waits for so long. */
const retryMs = 500;
/** At so many times the budget the next look waits for no longer than the last one took. */
const hastyTimes = 2;
/** A look that takes the processor so long is dear: documents wait for the next one then. */
const dearMs = 40;

/** What is known of one connection. */
interface Stranger {
  readonly connection: Connection;
  /** What brings its bytes to the system, TLS or not. */
  readonly socket: Socket;
  inode: string | undefined;
  /** What the system was handed; how much of it before the last look began; and how much was surely taken. */
  bytesHanded: number;
  bytesAtLook: number;
  bytesTaken: number;
  isToBeReset: boolean;
}

/** Whoever has one, and how much is in it. */
type Queue = readonly [stranger: Stranger, bytes: number];

/** Longer than 80 lines: short acts on the same counts, which two functions would only hand to each other. */
export function createSendQueues({ ownAddressOf, read = () => readQueues() }: SendQueuesOptions): SendQueues {
  const strangers = new Map<Connection, Stranger>();
  /** Those who may have been given something in this turn. */
  const recent = new Set<Stranger>();
  const closed = createClosed();
  const ports = new Set<number>();
  let [bytesQueued, bytesSince, hastyFromMs] = [0, 0, 0];
  let [isLooking, isDear] = [false, false];
  /** Of documents that were let through since the last look. They reach the system over many turns. */
  let bytesPromised = 0;
  const rest = createRest(lookIfDue);

  function noteRecent(): void {
    for (const stranger of recent) bytesSince += handedSince(stranger);
    recent.clear();
    lookIfDue();
  }

  function lookIfDue(): void {
    if (bytesSince < Math.max(bytesMax - bytesQueued, moreBytesMin)) return;
    const isHasty = bytesSince >= hastyTimes * bytesMax && stopwatchMs() >= hastyFromMs;
    if (!rest.isOn || isHasty) void look();
  }

  /** A short look has one step, and nobody is given more meanwhile. Between the steps of a long one others have their turn. */
  async function look(): Promise<void> {
    if (isLooking) return;
    isLooking = true;
    const startMs = stopwatchMs();
    let [startProcessorMs, workedMs] = [processorMs(), 0];
    for (const stranger of strangers.values()) {
      bytesSince += handedSince(stranger);
      stranger.bytesAtLook = stranger.bytesHanded;
    }
    const [bytesLookedAt, bytesPromisedThen] = [bytesSince, bytesPromised];
    closed.lookBegan();
    let queues: readonly SystemQueue[] | undefined;
    try {
      const reading = read();
      let step = reading.next();
      while (step.done !== true) {
        workedMs += processorMs() - startProcessorMs;
        await nextTurn();
        startProcessorMs = processorMs();
        step = reading.next();
      }
      queues = step.value;
    } catch {
      // Where nobody can tell, nobody is reset.
    }
    isLooking = false;
    if (queues === undefined) {
      closed.found(new Map());
    } else {
      bytesSince -= bytesLookedAt;
      bytesPromised -= bytesPromisedThen;
      const ofClosed = queues.filter(({ inode, port }) => inode === "0" && ports.has(port));
      closed.found(sumsByAddress(ofClosed, ownAddressOf));
      bytesQueued = closed.bytes + cutDown(queuesOf(strangers.values(), queues));
    }
    workedMs += processorMs() - startProcessorMs;
    hastyFromMs = queues === undefined ? Number.POSITIVE_INFINITY : 2 * stopwatchMs() - startMs;
    // Where the last look failed nobody waits for the next one, which may fail as well.
    isDear = queues !== undefined && workedMs >= dearMs;
    rest.begin(queues === undefined ? retryMs : Math.min(restTimes * workedMs, restMsMax));
  }

  return {
    opened(connection) {
      const socket = connection.wire?.socket ?? connection.socket;
      const stranger = {
        connection,
        socket,
        inode: undefined,
        bytesHanded: 0,
        bytesAtLook: 0,
        bytesTaken: 0,
        isToBeReset: false,
      };
      strangers.set(connection, stranger);
      if (socket.localPort !== undefined) ports.add(socket.localPort);
      resetWhere(socket, () => {
        if (connection.hasBroughtKey) return false;
        bytesSince += handedSince(stranger);
        if (stranger.isToBeReset) return true;
        return !closed.mayTake(connection.address, stranger.bytesHanded - stranger.bytesTaken);
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
      if (closed.isFull && !rest.isOn) void look();
      else lookIfDue();
    },
    letGo: (connection) => strangers.delete(connection),
    untilRoom(bytes) {
      const isToWait = isLooking || (isDear && rest.isOn);
      if (isToWait && Math.max(bytesSince, bytesPromised) >= bytesMax) return rest.ended();
      bytesPromised += bytes;
      return undefined;
    },
  };
}

/** The time until the next look, and whoever waits for its end. */
function createRest(onOver: () => void) {
  let timer: NodeJS.Timeout | undefined;
  let ended = Promise.withResolvers<void>();

  function end(): void {
    ended.resolve();
    ended = Promise.withResolvers();
  }

  function over(): void {
    timer = undefined;
    onOver();
    // Whether or not a look was due.
    end();
  }

  return {
    get isOn() {
      return timer !== undefined;
    },
    /** A look was made. */
    begin(ms: number) {
      clearTimeout(timer);
      timer = setTimeout(over, ms).unref();
      end();
    },
    /** Resolves once it is over, or another begins. */
    ended: () => ended.promise,
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
    if (stranger.bytesTaken >= stranger.bytesAtLook) continue;
    if (byInode.size > 0) stranger.inode ??= inodeOf(stranger.socket);
    const bytes = byInode.get(stranger.inode ?? "") ?? 0;
    // What it was given during the look may be among them.
    stranger.bytesTaken = Math.max(stranger.bytesTaken, stranger.bytesAtLook - bytes);
    if (bytes > 0) found.push([stranger, bytes]);
  }
  return found;
}

function sumsByAddress(
  queues: readonly SystemQueue[],
  ownAddressOf: SendQueuesOptions["ownAddressOf"],
): Map<string, number> {
  const byAddress = new Map<string, number>();
  for (const [peer, its] of Map.groupBy(queues, (queue) => queue.peer)) {
    add(byAddress, addressOrMany(ownAddressOf(addressIn(peer))), sumOf(its.map(({ bytes }) => bytes)));
  }
  return byAddress;
}

/** Cuts whoever has the most unread until there is room again, and tells how much is left. */
function cutDown(queues: readonly Queue[]): number {
  const byAddress = Map.groupBy(queues, ([{ connection }]) => connection.address);
  const sums = new Map([...byAddress].map(([address, its]) => [address, sumOf(its.map(([, bytes]) => bytes))]));
  const all = sumOf([...sums.values()]);
  if (all <= bytesMax) return all;
  const level = levelOf([...sums.values()], bytesEnough);
  let left = 0;
  for (const [address, its] of byAddress) {
    let rest = sums.get(address) ?? 0;
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
  /** A look begins. What ends from now on, it may have read as open. */
  lookBegan(): void;
  /** Takes over what was found in closed connections. */
  found(byAddress: Map<string, number>): void;
  /** Takes a connection that ends with so much unread, at most, and says false where it has to be reset. */
  mayTake(address: string, bytes: number): boolean;
  readonly bytes: number;
  readonly isFull: boolean;
}

/** What is left unread in closed connections: as found at the last look, with those that were closed since. */
function createClosed(): Closed {
  let byAddress = new Map<string, number>();
  /** What was left since the last look began. */
  let meanwhile = new Map<string, number>();
  let bytes = 0;
  let level = Number.POSITIVE_INFINITY;
  return {
    lookBegan: () => void (meanwhile = new Map()),
    found(found) {
      byAddress = found;
      for (const [address, more] of meanwhile) add(byAddress, address, more);
      const sums = [...byAddress.values()];
      bytes = sumOf(sums);
      level = bytes > bytesMax ? Math.max(shareMin, levelOf(sums, bytesMax)) : Number.POSITIVE_INFINITY;
    },
    mayTake(address, more) {
      if (more === 0) return true;
      const all = (byAddress.get(address) ?? 0) + more;
      const isFarTooMuch = bytes + more > 2 * bytesMax;
      const share = isFarTooMuch ? Math.min(level, bytesMax / (byAddress.size + 1)) : level;
      if (all > share && (isFarTooMuch || more >= leftBytesMin)) return false;
      add(byAddress, address, more);
      add(meanwhile, address, more);
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

/** The most that each may have for all to have `most` together. What those with less leave is shared by the others. */
function levelOf(sizes: readonly number[], most: number): number {
  let rest = most;
  for (const [i, size] of sizes.toSorted((a, b) => a - b).entries()) {
    const level = rest / (sizes.length - i);
    if (size > level) return level;
    rest -= size;
  }
  return Number.POSITIVE_INFINITY;
}

const add = (byAddress: Map<string, number>, address: string, bytes: number): unknown =>
  byAddress.set(address, (byAddress.get(address) ?? 0) + bytes);

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
