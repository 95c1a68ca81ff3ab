/**
 * One open connection, as the listener knows it.
 */
import type { ServerResponse } from "node:http";
import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { Response } from "./exchange.ts";
import type { Wire } from "./wire.ts";

export interface Connection {
  /** What brings requests; over TLS what was decrypted. */
  socket: Socket;
  /** What TLS reads, if there is TLS. */
  readonly wire: Wire | undefined;
  session: ServerHttp2Session | undefined;
  /** From this tick on it is to go. */
  readonly lastTick: number;
  activeTick: number;
  /** The answer that is due on an HTTP/1 connection; with pipelining, the last one. */
  response: ServerResponse | undefined;
  callsUnderWay: number;
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
  /** How often HTTP/1 was handed something in cleartext. */
  pieces: number;
  /** Whose it is among what strangers have us hold. */
  readonly holder: string;
  /** What came since its last request and asks for nothing yet, and what TLS has to send, as far as it is in that book. */
  bytesNoted: number;
  bytesReadAtRequest: number;
  /** Until it asks: in how many of the turns that it waited for something came, and how much had come at the last one. */
  turnsRead: number;
  bytesReadInTurns: number;
}

/** What a connection may send beyond its calls at once, in bytes. */
export const creditMax = 524_288;

export function createConnection(
  socket: Socket,
  wire: Wire | undefined,
  holder: string,
  tick: number,
  lastTick: number,
): Connection {
  return {
    socket,
    wire,
    session: undefined,
    lastTick,
    activeTick: tick,
    response: undefined,
    callsUnderWay: 0,
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
    holder,
    bytesNoted: 0,
    bytesReadAtRequest: 0,
    turnsRead: 0,
    bytesReadInTurns: 0,
  };
}

/** From now on the connection brings its requests by another socket, TLS, which counts its bytes anew. */
export function moveTo(connection: Connection, socket: Socket, tick: number): void {
  connection.socket = socket;
  connection.activeTick = tick;
  connection.bytesReadAtRequest = 0;
}
