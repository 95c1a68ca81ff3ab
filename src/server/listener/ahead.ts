/**
 * How far a connection is read from ahead of its turn, until it has begun to ask: nothing else tells that its client has left, and
 * those who have are not to wait with those who are there. Over TLS that is until its handshake is done (wire.ts), in
 * cleartext until it is known what it speaks (tell-apart.ts).
 */

/** What is read ahead at most: a record of a handshake is no larger. */
export const bytesAheadMax = 5 + 16_384;
/** And in how many pieces: to read these takes as long as to take the connection. */
const piecesAheadMax = 8;

export class Ahead {
  /** In how many pieces something has come ahead of its turn so far. */
  pieces = 0;
  readonly #stopReading: () => void;
  /** Is told how much came, of each piece. */
  onCame: (bytes: number) => void = () => {};
  /** Is told once the client has ended his side behind what came. */
  onClientEnded: () => void = () => {};
  #hasClientEnded = false;
  #isStopped = false;
  #isOver = false;
  #bytesWaiting = 0;

  /** `stopReading` has the system keep what comes from then on. */
  constructor(stopReading: () => void) {
    this.#stopReading = stopReading;
  }

  /** Whether the connection waits for its turn. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Whether nothing is read ahead any more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Whether the client has ended his side, as far as it was seen ahead of a turn. */
  get hasClientEnded(): boolean {
    return this.#hasClientEnded;
  }

  stop(): void {
    this.#isStopped = true;
    if (this.#isOver) this.#stopReading();
  }

  goOn(): void {
    this.#isStopped = false;
    this.#bytesWaiting = 0;
  }

  /** Nothing is read ahead from now on. While the connection waits for its turn, the system keeps what comes. */
  end(): void {
    this.#isOver = true;
    if (this.#isStopped) this.#stopReading();
  }

  /** Notes a piece that came ahead, and with which so many bytes wait. Reads no more once that is enough. */
  came(bytesWaiting: number): void {
    this.pieces += 1;
    if (bytesWaiting > bytesAheadMax || this.pieces >= piecesAheadMax) this.#stopReading();
    const bytes = bytesWaiting - this.#bytesWaiting;
    this.#bytesWaiting = bytesWaiting;
    this.onCame(bytes);
  }

  /** Notes that the client has ended his side behind what came. */
  clientEnded(): void {
    this.#hasClientEnded = true;
    this.onClientEnded();
  }

  /** Reads no more until the connection's turn. */
  rest(): void {
    this.#stopReading();
  }
}
