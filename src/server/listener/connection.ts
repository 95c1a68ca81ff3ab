/**
 * One open connection, as the listener knows it, and what it may cost beyond its calls: pings, settings, frames that mean
 * nothing, header bombs, records and pieces of a byte. Whoever sends a lot and asks for nothing has no credit left.
 */
import type { ServerResponse } from "node:http";
import type { ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { Response } from "./exchange.ts";
import type { Untold } from "./tell-apart.ts";
import type { Wire } from "./wire.ts";

export interface Connection {
  /** What brings requests; over TLS what was decrypted. */
  socket: Socket;
  /** What TLS reads, if there is TLS. */
  readonly wire: Wire | undefined;
  /** What has read it in cleartext until it was known what it speaks. */
  untold: Untold | undefined;
  /** Whether it is a trusted proxy's, and carries calls of many. */
  readonly isProxys: boolean;
  session: ServerHttp2Session | undefined;
  /** From this tick on it is to go. */
  readonly lastTick: number;
  activeTick: number;
  /** The answer that is due on an HTTP/1 connection; with pipelining, the last one. */
  response: ServerResponse | undefined;
  callsUnderWay: number;
  /** Those of them whose answers last. */
  callsLasting: number;
  /** The answers that a stranger has asked for, but those that last. */
  answersDue: Set<Response> | undefined;
  /** The answers that last, whoever asked. */
  lasting: Set<Response> | undefined;
  /** Whether it has asked for anything, be it answered or not. */
  hasAsked: boolean;
  hasBroughtRequest: boolean;
  hasBroughtKey: boolean;
  isRetiring: boolean;
  /** At which its client ended its side; infinite before. */
  endedTick: number;
  /** What it may still cost without asking for anything, in bytes, and what of its cost was charged so far. */
  credit: number;
  charged: number;
  /** How often HTTP/1 was handed something in cleartext, and the chunks of its bodies. */
  pieces: number;
  /** The address that it counts for, or "many" for all who share theirs. */
  readonly address: string;
  /** What held.ts has counted so far: what came since its last request and asks for nothing yet, and what TLS has to send. */
  bytesNoted: number;
  bytesReadAtRequest: number;
  /** Until it asks: in how many of the turns that it waited for something came, and how much had come at the last one. */
  turnsRead: number;
  bytesReadInTurns: number;
  /** Bytes of bodies that have come over HTTP/2 and were not charged for yet, as far as it is known. */
  bodyBytes: number;
}

/** What reads a connection ahead of its turn, and TLS always. */
export function readerOf({ wire, untold }: Connection): Wire | Untold | undefined {
  return wire ?? (untold?.ahead.isOver === true ? undefined : untold);
}

/** What reads a new connection: over TLS its wire. */
export type NewcomerReader = Partial<Pick<Connection, "wire" | "untold">>;

/** All who share an address with many others. */
export const manyCallers = "many";
/** The address that a connection counts for, by its own. */
export const addressOrMany = (ownAddress: string | undefined): string => ownAddress ?? manyCallers;

/** What a connection may send beyond its calls at once, in bytes. */
const creditMax = 524_288;

export function createConnection(
  socket: Socket,
  wire: Wire | undefined,
  ownAddress: string | undefined,
  tick: number,
  lastTick: number,
  isProxys = false,
): Connection {
  return {
    socket,
    wire,
    untold: undefined,
    isProxys,
    session: undefined,
    lastTick,
    activeTick: tick,
    response: undefined,
    callsUnderWay: 0,
    callsLasting: 0,
    answersDue: undefined,
    lasting: undefined,
    hasAsked: false,
    hasBroughtRequest: false,
    hasBroughtKey: false,
    isRetiring: false,
    endedTick: Number.POSITIVE_INFINITY,
    credit: creditMax,
    charged: 0,
    pieces: 0,
    address: addressOrMany(ownAddress),
    bytesNoted: 0,
    bytesReadAtRequest: 0,
    turnsRead: 0,
    bytesReadInTurns: 0,
    bodyBytes: 0,
  };
}

/** From now on the connection brings its requests by another socket, TLS, which counts its bytes anew. */
export function moveTo(connection: Connection, socket: Socket, tick: number): void {
  connection.socket = socket;
  connection.activeTick = tick;
  connection.bytesReadAtRequest = 0;
}

// ---- credit ------------------------------------------------------------------------------------------------------------

const creditPerSecond = 16_384;
/** A call's headers and body fit four times. */
const creditPerCall = 65_536;
/** A PING is 17 bytes to send, but it has to be answered. gRPC clients send some with every call, hardly any without. */
export const controlFrameBytes = 1_024;
/** A stream that is closed before anybody sees it makes as much work as a small request that nobody answers. */
export const droppedStreamBytes = 4_096;
/** What is handed up by itself takes a few us however small it is. A call comes in a piece or a few. */
const pieceBytes = 512;

/** What a connection has cost so far, in bytes: those on the wire, and more for each piece in which they came. */
function costOf({ socket, wire, untold, pieces }: Connection): number {
  const piecesAhead = (wire ?? untold)?.ahead.pieces ?? 0;
  return (wire ?? socket).bytesRead + (pieces + piecesAhead + (wire?.records ?? 0)) * pieceBytes;
}

/** Charges a connection for what it has sent since it was charged last, and tells how much that was. */
export function charge(connection: Connection): number {
  const cost = costOf(connection);
  const more = cost - connection.charged;
  connection.credit -= more;
  connection.charged = cost;
  return more;
}

/** Gives a connection what a tick of `tickMs` is worth. A debt that was let pass is forgotten. */
export function creditTick(connection: Connection, tickMs: number): void {
  const more = (creditPerSecond * tickMs) / 1_000;
  connection.credit = connection.credit < 0 ? creditMax : Math.min(creditMax, connection.credit + more);
}

/**
 * Whether a connection has cost more than it may. Where one carries calls of many, a stranger's body ends its own stream
 * (http/body.ts), and the connection stays.
 */
export function isNoise({ credit, hasBroughtKey, isProxys }: Connection): boolean {
  return credit < 0 && !hasBroughtKey && !isProxys;
}

/** Charges a connection for something that asks for nothing, and tells whether it was too much. */
export function isSpentOn(connection: Connection, bytes: number): boolean {
  connection.credit -= bytes;
  return connection.credit < 0;
}

/** So many pieces of a stranger's body may be of any size, and so many bytes are worth another one. */
const smallPiecesMax = 256;
const bytesPerPiece = 64;

/** So many bytes of bodies are charged for at once: a connection sends megabytes between two ticks. */
const bodyBytesMax = 65_536;

export interface PieceListeners {
  /** The first piece that is too much has come. */
  onFlood(): void;
  /** So much has come that it is to be charged for at once. */
  onMuch(): void;
}

/**
 * Takes the pieces of a body on HTTP/2, in bytes of their own: each is a view of all that was read with it, and it may be long until
 * somebody reads them. Charges a stranger's connection for each. A client that has brought a secret key sends what it likes; on a
 * proxy's connection it has the bound of strangers.
 */
export function takePieces(connection: Connection, stream: ServerHttp2Stream, listeners: PieceListeners): void {
  const push = stream.push.bind(stream);
  let [pieces, bytes] = [0, 0];
  stream.push = (piece: Uint8Array | null) => {
    if (piece === null || (connection.hasBroughtKey && !connection.isProxys)) return push(piece);
    pieces += 1;
    bytes += piece.length;
    const isSmall = pieces > smallPiecesMax + bytes / bytesPerPiece;
    if (isSmall || (!connection.isProxys && isSpentOn(connection, pieceBytes))) {
      listeners.onFlood();
      return false;
    }
    const hasRoom = push(new Uint8Array(piece));
    connection.bodyBytes += piece.length;
    if (connection.bodyBytes >= bodyBytesMax) {
      connection.bodyBytes = 0;
      listeners.onMuch();
    }
    return hasRoom;
  };
}

export function creditCall(connection: Connection): void {
  connection.credit += creditPerCall;
}
