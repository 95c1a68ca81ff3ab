/**
 * What a connection may cost beyond its calls: pings, settings, frames that mean nothing, header bombs, records and pieces of a
 * byte. Whoever sends a lot and asks for nothing has no credit left.
 */
import type { ServerHttp2Stream } from "node:http2";
import { creditMax, type Connection } from "./connection.ts";

const creditPerSecond = 16_384;
/** A call's headers and body fit four times. */
const creditPerCall = 65_536;
/** A PING is 17 bytes to send, but it has to be answered. gRPC clients send some with every call, hardly any without. */
export const controlFrameBytes = 1_024;
/** What is handed up by itself takes a few us however small it is. A call comes in a piece or a few. */
const pieceBytes = 512;

/** What a connection has cost so far, in bytes: those on the wire, and more for each piece in which they came. */
function costOf({ socket, wire, pieces }: Connection): number {
  return wire === undefined ? socket.bytesRead + pieces * pieceBytes : wire.bytesRead + wire.records * pieceBytes;
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

/** Charges a connection for a PING or SETTINGS, and tells whether it was one too many. */
export function isFlood(connection: Connection): boolean {
  connection.credit -= controlFrameBytes;
  return connection.credit < 0;
}

/**
 * Charges a connection for each piece of a stranger's body on HTTP/2, and calls `onFlood` with the first one that is too much.
 */
export function chargePieces(connection: Connection, stream: ServerHttp2Stream, onFlood: () => void): void {
  const push = stream.push.bind(stream);
  stream.push = (piece, encoding) => {
    if (connection.hasBroughtKey) return push(piece, encoding);
    connection.credit -= pieceBytes;
    if (connection.credit >= 0) return push(piece, encoding);
    onFlood();
    return false;
  };
}

export function creditCall(connection: Connection): void {
  connection.credit += creditPerCall;
}
