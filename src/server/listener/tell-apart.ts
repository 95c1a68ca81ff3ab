/**
 * HTTP/1.1 and HTTP/2 on one cleartext port, told apart by a connection's first bytes.
 */
import type { Server as Http1Server } from "node:http";
import type { Socket } from "node:net";
import { Ahead } from "./ahead.ts";
import { handleOf } from "./handle.ts";

const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

/**
 * A connection of which it is not known what it speaks. What comes ahead of its turn stays with the socket, and so does an
 * end behind it: whoever has asked for something may still want his answer. Who is reset, or ends without a word, has left.
 */
export class Untold {
  readonly ahead: Ahead;
  readonly #socket: Socket;
  readonly #take: (isHttp2: boolean) => void;
  #seen: Buffer = Buffer.alloc(0);
  /** What had come when it was last told that there is something to read. */
  #bytesRead = 0;

  /** `take` gets a socket that has all of its bytes again. */
  constructor(socket: Socket, take: (isHttp2: boolean) => void) {
    this.#socket = socket;
    this.#take = take;
    this.ahead = new Ahead(() => handleOf(socket)?.readStop());
    socket.once("end", this.#onGone);
    socket.on("readable", this.#onReadable);
  }

  /** Bytes that are here, and that nobody was handed. */
  get bytesWaiting(): number {
    return this.ahead.isOver ? 0 : this.#seen.length + this.#socket.readableLength;
  }

  stop(): void {
    this.ahead.stop();
  }

  goOn(): void {
    this.ahead.goOn();
    if (due.push(this) === 1) process.nextTick(lookAtNext);
  }

  readonly #onGone = () => void this.#socket.destroy();

  readonly #onReadable = () => {
    const { bytesRead } = this.#socket;
    const isEnd = bytesRead === this.#bytesRead;
    this.#bytesRead = bytesRead;
    if (!this.ahead.isStopped) this.look();
    // Something to read, and no more than before.
    else if (isEnd) this.ahead.clientEnded();
    else this.ahead.came(this.bytesWaiting);
  };

  /** Tells what it speaks, as far as that is known and it does not wait. */
  look(): void {
    const { ahead } = this;
    const socket = this.#socket;
    if (ahead.isStopped || ahead.isOver || socket.destroyed) return;
    const chunk = socket.read() as Buffer | null;
    if (chunk === null) return;
    const seen = this.#seen.length === 0 ? chunk : Buffer.concat([this.#seen, chunk]);
    const compared = Math.min(seen.length, preface.length);
    const isHttp2 = seen.subarray(0, compared).equals(preface.subarray(0, compared));
    const isKnown = !isHttp2 || compared === preface.length;
    this.#seen = isKnown ? Buffer.alloc(0) : seen;
    if (!isKnown) return;
    ahead.end();
    socket.off("readable", this.#onReadable);
    socket.off("end", this.#onGone);
    socket.unshift(seen);
    this.#take(isHttp2);
  }
}

/** Those whose turn has come. */
const due: Untold[] = [];

/**
 * One by one, each with all that it asks for: when others who go on too have used up the turn, it is told to stop again. And before
 * the system's next events, of which others' may use it up.
 */
function lookAtNext(): void {
  try {
    due[0]?.look();
  } finally {
    due.shift();
    // Behind what the look has to come.
    if (due.length > 0) process.nextTick(lookAtNext);
  }
}

/** Puts a look at the first bytes before the HTTP/1 server's own handling of a connection. */
export function tellApart(
  http1: Http1Server,
  takeHttp2: (socket: Socket) => void,
  takePiecewise: (socket: Socket) => void,
  opened: (socket: Socket, untold: Untold) => boolean,
): void {
  const [takeHttp1] = http1.listeners("connection") as ((socket: Socket) => void)[];
  if (takeHttp1 === undefined) throw new Error("node:http no longer listens for its own connections");
  http1.removeAllListeners("connection");
  http1.on("connection", (socket: Socket) => {
    const untold = new Untold(socket, (isHttp2) => {
      if (isHttp2) return takeHttp2(socket);
      takeHttp1.call(http1, socket);
      takePiecewise(socket);
      // Reading by hand has stopped the flow.
      socket.resume();
    });
    // For good: node takes its own listener off a socket on which a client asks for a tunnel, and who resets that ends the process.
    socket.on("error", () => socket.destroy());
    if (opened(socket, untold)) socket.setNoDelay(true);
  });
}
