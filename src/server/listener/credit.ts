/**
 * What a connection may send beyond its calls: pings, settings, frames that mean nothing, header bombs. Whoever sends a lot
 * and asks for nothing has no credit left.
 */
import type { ServerHttp2Stream } from "node:http2";
import { creditMax, type Connection } from "./connection.ts";

const creditPerSecond = 16_384;
/** A call's headers and body fit four times. */
const creditPerCall = 65_536;
/** A PING is 17 bytes to send, but it has to be answered. gRPC clients send some with every call, hardly any without. */
const controlFrameBytes = 1_024;
/** A call's body comes in a piece or a few. */
const pieceBytes = 512;

/**
 * Charges a connection for what it sent since the last tick, `tickMs` ago, and tells whether that is noise. Where one carries
 * calls of many, a stranger's body ends its own stream (request-body.ts), and the connection stays.
 */
export function isNoise(
  connection: Connection,
  tickMs: number,
  isProxy: (peer: string | undefined) => boolean,
): boolean {
  const { bytesRead, remoteAddress } = connection.socket;
  connection.credit -= bytesRead - connection.bytesCharged;
  connection.bytesCharged = bytesRead;
  if (connection.credit < 0 && !connection.hasBroughtKey && !isProxy(remoteAddress)) return true;
  const more = (creditPerSecond * tickMs) / 1_000;
  connection.credit = connection.credit < 0 ? creditMax : Math.min(creditMax, connection.credit + more);
  return false;
}

/** Charges a connection for a PING or SETTINGS, and tells whether it was one too many. */
export function isFlood(connection: Connection): boolean {
  connection.credit -= controlFrameBytes;
  return connection.credit < 0;
}

/**
 * Charges a connection for each piece of a stranger's body, which takes a few us however small it is, and calls `onFlood` with
 * the first one that is too much.
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
