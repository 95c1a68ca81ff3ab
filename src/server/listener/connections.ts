/**
 * The connections that are open, and when each has to go. A stranger gets little: a connection that never brought a
 * request is closed after 15 s, one that never brought a valid key after 60 s without a call. One that did may stay idle
 * for long, since internal callers keep theirs. A connection past its age is told to go (GOAWAY, or `Connection: close`)
 * and finishes its calls first, so that a load balancer gets to spread callers over new instances. One that sends a lot
 * and asks for nothing (pings, settings, frames that mean nothing, header bombs) is cut.
 *
 * A newcomer gets room at the cost of whoever holds the most without having shown a secret key. Above three quarters of
 * all connections the address that has the most strangers gives its oldest idle one for each newcomer. Nobody whom we
 * owe an answer goes; one who owes us the rest of a request, or does not take an answer, or watches, goes when there is
 * no idle one. held.ts bounds what we hold in memory for strangers.
 *
 * Time is counted in ticks of one timer for all of them: a timer per connection would cost more than the connection.
 */
import type { ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { isOwed, untaken } from "./answers-due.ts";
import { createCallTicks, type CallTicks } from "./call-ticks.ts";
import { allowedTicks, inTicks, quietMs, type ConnectionLimits } from "./connection-limits.ts";
import {
  charge,
  controlFrameBytes,
  createConnection,
  creditCall,
  creditTick,
  droppedStreamBytes,
  isNoise,
  isSpentOn,
  moveTo,
  takePieces,
  type Connection,
  type NewcomerReader,
} from "./connection.ts";
import { isOver, type Request, type Response } from "./exchange.ts";
import { close, cut, cutCall, cutStream, destroy, dismiss, endUndone, finish, retire } from "./farewells.ts";
import { wasRead } from "./heap.ts";
import { createHeld, type Held } from "./held.ts";
import type { Pace } from "./pace.ts";
import { headerBytes, takenFor, takenForLasting, trailerBytes } from "./request-bytes.ts";
import { createSendQueues } from "./send-queues.ts";
import { createStrangers, type Strangers } from "./strangers.ts";

export interface ConnectionsOptions extends ConnectionLimits {
  /** Finds the address that a connection counts for, by its peer; undefined for one that many callers have. */
  readonly ownAddressOf: (peer: string | undefined) => string | undefined;
  /** Whether a peer is a proxy, whose connections carry calls of many. */
  readonly isProxy: (peer: string | undefined) => boolean;
  /** Shared by all listeners of the process: they share its turns. */
  readonly pace: Pace;
}

/** A call of a connection. */
export interface CallUnderWay {
  /** To be run once the call was answered, or its client has gone. */
  ended(): void;
  /** Its answer lasts, and is not cut for taking long. To be run once the bound on such answers has let it in, and counts it. */
  lasts(): void;
}

export interface Connections {
  /** Takes a new connection into the book, or destroys it and says false where there is no room. */
  opened(socket: Socket, by: NewcomerReader): boolean;
  /** Notes that a connection goes on by TLS, or destroys what nobody knows of. */
  secured(socket: Socket | undefined, secure: Socket): void;
  /** Notes that a connection has brought something, of any size, or so many chunks within that. Cuts it where that was too much. */
  brought(socket: Socket, chunks?: number): void;
  /** Whether a connection is a trusted proxy's, and carries calls of many. */
  isProxys(socket: Socket): boolean;
  /** Notes that a connection speaks HTTP/2. */
  upgraded(socket: Socket, session: ServerHttp2Session): void;
  /** Notes that a call has come. On an HTTP/1 connection that is to go, the call's answer says so. */
  callBegan(request: Request, response: Response): CallUnderWay;
  /** Notes that a request has come, whatever becomes of it. */
  asked(request: Request): void;
  /** Runs what goes on with what an HTTP/1 connection has sent, in a turn of its own. */
  goOn(socket: Socket, run: () => void): void;
  /** Tells whether a request's client is a stranger who leaves so many answers untaken that it is to get no further one. */
  isSated(request: Request): boolean;
  /** Takes room for a document of so many bytes, as all but strangers have always; else resolves once it is worth to ask again. */
  untilRoom(request: Request, bytes: number): Promise<void> | undefined;
  /** Notes that a call brought a valid key. */
  authenticated(request: Request): void;
  /** How many connections were taken that have not asked for anything yet and wait for their turn. */
  newcomersWaiting(): number;
  /** Tells every connection to go once its calls are done, as far as it can be told. Safe to repeat. */
  retireAll(): void;
  /** Takes no more calls on the connections there are, and closes those that have none under way. */
  dismissAll(): void;
  /** Ends what strangers keep open: requests that are not whole, and answers that are given and not taken. */
  endUndone(): void;
  /** Closes all that is left, whatever it is doing. */
  destroyAll(): void;
  /** How many are open. */
  readonly count: number;
}

/** Answers given and not taken, on one connection of a stranger, beyond which it gets no further one. */
const untakenMax = 16;
/** The part of all connections above which room is made for newcomers. */
const roomyPart = 3 / 4;

interface Book {
  readonly limits: ConnectionsOptions;
  readonly bySocket: Map<Socket, Connection>;
  readonly bySession: WeakMap<ServerHttp2Session, Connection>;
  readonly strangers: Strangers<Connection>;
  readonly held: Held;
  readonly pace: Pace;
  readonly callTicks: CallTicks;
  tick: number;
}

export function createConnections(limits: ConnectionsOptions): Connections {
  const bySocket = new Map<Socket, Connection>();
  const queues = createSendQueues(limits);
  const each = (act: (connection: Connection) => void) => () => {
    for (const connection of bySocket.values()) act(connection);
  };
  /** HTTP/2 in cleartext reads past everybody, 2 MiB of a connection in a turn: such turns are long. */
  const onLate = each((connection) => {
    if (connection.wire === undefined) chargeAtOnce(book, connection);
  });
  const book: Book = {
    limits,
    bySocket,
    bySession: new WeakMap(),
    strangers: createStrangers<Connection>({
      isNewcomer: ({ activeTick }) => book.tick - activeTick < inTicks(limits, limits.newcomerMs),
      isOwed: ({ answersDue }) => answersDue !== undefined && [...answersDue].some(isOwed),
    }),
    held: createHeld(bySocket, queues, onLate),
    pace: limits.pace,
    callTicks: createCallTicks(inTicks(limits, limits.callMs)),
    tick: 0,
  };
  const ticking = setInterval(onTick, limits.tickMs, book).unref();
  return {
    opened: takeIn.bind(undefined, book),
    secured: secured.bind(undefined, book),
    brought(socket, chunks) {
      const connection = bySocket.get(socket);
      if (connection === undefined) return;
      connection.pieces += chunks ?? (connection.wire === undefined ? 1 : 0);
      chargeAtOnce(book, connection);
    },
    isProxys: (socket) => bySocket.get(socket)?.isProxys === true,
    upgraded: upgraded.bind(undefined, book),
    callBegan: callBegan.bind(undefined, book),
    asked(request) {
      const connection = find(book, request);
      if (connection === undefined) return;
      const { isProxys, hasBroughtKey } = connection;
      const stream = "stream" in request && !request.stream.endAfterHeaders ? request.stream : undefined;
      if (stream !== undefined && (isProxys || !hasBroughtKey))
        takePieces(connection, stream, {
          onFlood: cutStream.bind(undefined, connection, stream),
          onMuch: chargeAtOnce.bind(undefined, book, connection),
        });
      if (hasBroughtKey) return;
      // Of HTTP/2 in cleartext nobody else tells how much has come.
      const isUntold = "stream" in request && connection.wire === undefined;
      book.pace.asked(connection, isUntold ? headerBytes(request) : 0);
      if (isUntold) stream?.once("trailers", () => book.pace.cost(connection, trailerBytes(request)));
    },
    goOn(socket, run) {
      const connection = bySocket.get(socket);
      if (connection !== undefined) book.pace.goOn(connection, run);
    },
    isSated(request) {
      const { answersDue, isProxys } = find(book, request) ?? {};
      if (answersDue === undefined || isProxys === true) return false;
      return answersDue.size >= untakenMax && untaken(answersDue) >= untakenMax;
    },
    untilRoom(request, bytes) {
      const { hasBroughtKey, isProxys } = find(book, request) ?? {};
      return hasBroughtKey === true || isProxys === true ? undefined : queues.untilRoom(bytes);
    },
    authenticated: authenticated.bind(undefined, book),
    newcomersWaiting: () => limits.pace.newcomersWaiting(),
    retireAll: each(retire),
    dismissAll: each(dismiss),
    endUndone: each(endUndone),
    destroyAll() {
      clearInterval(ticking);
      book.held.end();
      for (const connection of bySocket.values()) destroy(connection);
    },
    get count() {
      return bySocket.size;
    },
  };
}

/** Charges a stranger's connection for what it has brought, and cuts it where that was too much. */
function chargeAtOnce(book: Book, connection: Connection): void {
  const bytes = connection.hasBroughtKey ? 0 : charge(connection);
  // Who has brought nothing has used up no turn.
  if (bytes === 0) return;
  book.pace.cost(connection, bytes);
  wasRead(bytes);
  if (isNoise(connection)) cut(connection);
}

function onTick(book: Book): void {
  const { limits, bySocket, held, pace } = book;
  book.tick += 1;
  for (const [request, connection] of book.callTicks.end()) cutCall(connection, request);
  const quietTicks = inTicks(limits, quietMs);
  for (const connection of bySocket.values()) {
    held.note(connection);
    // What it has asked for may wait for us.
    if (pace.isWaiting(connection)) connection.activeTick = book.tick;
    const { callsUnderWay, activeTick, lastTick } = connection;
    wasRead(connection.hasBroughtKey ? 0 : charge(connection));
    if (isNoise(connection)) cut(connection);
    else if (book.tick - connection.endedTick > inTicks(limits, limits.endedMs)) close(connection);
    else if (callsUnderWay === 0 && book.tick - activeTick > allowedTicks(limits, connection)) close(connection);
    else if (book.tick >= lastTick) retire(connection, { must: book.tick >= lastTick + quietTicks });
    creditTick(connection, limits.tickMs);
  }
  // Answers that were ours to give at the last look may have been given since.
  held.makeRoom();
}

function takeIn(book: Book, socket: Socket, { wire, untold }: NewcomerReader): boolean {
  const { limits, bySocket, strangers, held, pace, tick } = book;
  pace.taken();
  // Gone already: what it asked for would count for nobody's address, and nobody would take the answer.
  if (socket.remoteAddress === undefined) {
    socket.destroy();
    return false;
  }
  const ageTicks = limits.maxAgeMs === 0 ? Number.POSITIVE_INFINITY : inTicks(limits, limits.maxAgeMs);
  // Spread by arrival, for want of a need for chance: neighbours end up to a tenth of the age apart.
  const spread = Number.isFinite(ageTicks) ? Math.floor((ageTicks * (bySocket.size % 10)) / 100) : 0;
  const address = limits.ownAddressOf(socket.remoteAddress);
  const isProxys = limits.isProxy(socket.remoteAddress);
  const connection = createConnection(socket, wire, address, tick, tick + ageTicks + spread, isProxys);
  connection.untold = untold;
  bySocket.set(socket, connection);
  held.opened(connection);
  strangers.add(connection, address);
  makeRoom(book);
  if (bySocket.size > limits.connectionsMax) {
    forget(book, connection);
    socket.destroy();
  }
  if (socket.destroyed) return false;
  if (wire === undefined) socket.once("end", () => clientEnded(book, connection));
  socket.once("close", () => forget(book, connection));
  pace.opened(connection);
  return true;
}

/** Most clients that end their side have left, and what they asked for is not to hold the place of who is there for long. */
function clientEnded(book: Book, connection: Connection): void {
  connection.endedTick = book.tick;
  finish(connection);
}

/** Makes room for a newcomer, if somebody has to go and may. */
function makeRoom(book: Book): void {
  const { limits, bySocket, strangers } = book;
  if (bySocket.size <= limits.connectionsMax * roomyPart) return;
  const leaver = strangers.leaver({ isFull: bySocket.size > limits.connectionsMax });
  if (leaver === undefined) return;
  forget(book, leaver);
  close(leaver, 0);
}

/** Safe to repeat. */
function forget({ bySocket, strangers, held, pace }: Book, connection: Connection): void {
  bySocket.delete(connection.socket);
  pace.letGo(connection);
  strangers.remove(connection);
  if (!connection.hasBroughtKey) held.gone(connection);
}

function secured(book: Book, socket: Socket | undefined, secure: Socket): void {
  const { bySocket, tick } = book;
  const connection = socket && bySocket.get(socket);
  if (connection === undefined) {
    secure.destroy();
    return;
  }
  bySocket.delete(connection.socket);
  bySocket.set(secure, connection);
  moveTo(connection, secure, tick);
  secure.once("end", () => clientEnded(book, connection));
  secure.once("close", () => forget(book, connection));
}

function upgraded({ bySocket, bySession, pace }: Book, socket: Socket, session: ServerHttp2Session): void {
  const connection = bySocket.get(socket);
  if (connection === undefined) return;
  connection.session = session;
  bySession.set(session, connection);
  // What strangers send by a proxy's connection is in its debt too.
  const spend = (bytes: number) => {
    if (isSpentOn(connection, bytes) && !session.destroyed && !connection.isProxys) cut(connection);
  };
  const onControlFrame = () => {
    pace.cost(connection, controlFrameBytes);
    spend(controlFrameBytes);
  };
  const onStream = (stream: ServerHttp2Stream) => {
    if (!isOver(stream)) return;
    pace.asked(connection, 0);
    if (!connection.hasBroughtKey) spend(droppedStreamBytes);
  };
  // Before node's own listener, which makes a request of it. What is closed by then no longer knows its session.
  session.prependListener("stream", onStream);
  session.on("ping", onControlFrame);
  session.on("remoteSettings", onControlFrame);
  // Node's half holds a session whose client acknowledged no settings, an error that ended it Node's half, and the socket the error.
  session.once("close", () => {
    bySession.delete(session);
    session.off("stream", onStream);
    session.off("ping", onControlFrame);
    session.off("remoteSettings", onControlFrame);
  });
}

function callBegan(book: Book, request: Request, response: Response): CallUnderWay {
  const { strangers, held, pace } = book;
  const connection = find(book, request);
  if (connection === undefined) return { ended: () => {}, lasts: () => {} };
  connection.callsUnderWay += 1;
  if (connection.hasBroughtKey) {
    pace.callsBegan(1);
  } else {
    if (connection.callsUnderWay === 1) strangers.becameBusy(connection);
    (connection.answersDue ??= new Set()).add(response);
  }
  // Beyond a few of a stranger's it comes when the answer was taken: whoever takes none is not to send for ever.
  const isCredited = connection.hasBroughtKey || connection.callsUnderWay <= untakenMax;
  if (isCredited) creditCall(connection);
  // On a connection of many each request is a stranger's until it brings a key.
  const isFree = connection.hasBroughtKey && !connection.isProxys;
  let giveBack = isFree ? undefined : held.hold(connection, response, takenFor(request));
  connection.bytesReadAtRequest = connection.socket.bytesRead;
  connection.hasBroughtRequest = true;
  if (!("stream" in response)) {
    connection.response = response;
    if (connection.isRetiring) response.shouldKeepAlive = false;
  }
  const calls = book.callTicks.begin(connection, request);
  let isLasting = false;
  const ended = () => {
    if (isLasting) connection.callsLasting -= 1;
    else if (connection.hasBroughtKey) pace.callEnded();
    calls.delete(request);
    connection.callsUnderWay -= 1;
    connection.answersDue?.delete(response);
    connection.lasting?.delete(response);
    if (!isCredited) creditCall(connection);
    giveBack?.(headerBytes(request));
    if (connection.callsUnderWay === 0 && !connection.hasBroughtKey) strangers.becameIdle(connection);
    connection.activeTick = book.tick;
    if (connection.response === response) connection.response = undefined;
  };
  const lasts = () => {
    if (connection.hasBroughtKey) pace.callEnded();
    isLasting = true;
    connection.callsLasting += 1;
    calls.delete(request);
    connection.answersDue?.delete(response);
    if (giveBack !== undefined) {
      giveBack();
      giveBack = held.lasts(connection, response, takenForLasting(request));
    }
    if (connection.socket.readableEnded) response.destroy();
    else (connection.lasting ??= new Set()).add(response);
  };
  return { ended, lasts };
}

function authenticated(book: Book, request: Request): void {
  const connection = find(book, request);
  if (connection === undefined) return;
  book.held.broughtKey(request);
  if (connection.hasBroughtKey) return;
  connection.hasBroughtKey = true;
  connection.answersDue = undefined;
  book.strangers.remove(connection);
  book.held.letGo(connection);
  book.pace.letGo(connection);
  book.pace.callsBegan(connection.callsUnderWay - connection.callsLasting);
}

function find({ bySocket, bySession }: Book, request: Request): Connection | undefined {
  if (!("stream" in request)) return bySocket.get(request.socket);
  // A stream that is closed no longer knows its session.
  const session = request.stream.session as ServerHttp2Session | undefined;
  return session === undefined ? undefined : bySession.get(session);
}
