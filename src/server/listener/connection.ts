/**
 * One open connection, as the listener knows it.
 */
import type { ServerResponse } from "node:http";
import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { Response } from "./exchange.ts";

export interface Connection {
  socket: Socket;
  session: ServerHttp2Session | undefined;
  /** From this tick on it is to go. */
  readonly lastTick: number;
  activeTick: number;
  /** The answer that is due on an HTTP/1 connection; with pipelining, the last one. */
  response: ServerResponse | undefined;
  callsUnderWay: number;
  /** The answers that a stranger has asked for, but those that last. */
  answersDue: Set<Response> | undefined;
  hasBroughtRequest: boolean;
  hasBroughtKey: boolean;
  isRetiring: boolean;
  /** What it may still send without asking for anything, in bytes, and what of its bytes was charged so far. */
  credit: number;
  bytesCharged: number;
  /** Whose it is among what strangers have us hold. */
  readonly holder: string;
  /** What came since its last request and asks for nothing yet, as far as it is in that book. */
  bytesUnasked: number;
  bytesReadAtRequest: number;
}

/** What a connection may send beyond its calls at once, in bytes. */
export const creditMax = 524_288;

export function createConnection(socket: Socket, holder: string, tick: number, lastTick: number): Connection {
  return {
    socket,
    session: undefined,
    lastTick,
    activeTick: tick,
    response: undefined,
    callsUnderWay: 0,
    answersDue: undefined,
    hasBroughtRequest: false,
    hasBroughtKey: false,
    isRetiring: false,
    credit: creditMax,
    bytesCharged: 0,
    holder,
    bytesUnasked: 0,
    bytesReadAtRequest: 0,
  };
}

/** From now on the connection goes by another socket, TLS, which counts its bytes anew. */
export function moveTo(connection: Connection, socket: Socket, tick: number): void {
  connection.socket = socket;
  connection.activeTick = tick;
  connection.credit = creditMax;
  connection.bytesCharged = 0;
  connection.bytesReadAtRequest = 0;
}
