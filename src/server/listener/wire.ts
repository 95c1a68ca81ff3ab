/**
 * What TLS reads from and writes to: a stream of ours around the socket. Left alone, TLS takes what a socket has by
 * itself, half a megabyte in a turn of the event loop, and nobody hears of it. A record of one byte costs as much as
 * one of 16 KiB, and the content goes on to HTTP/2 unseen too.
 *
 * TLS takes 35 KB of a connection from its beginning on, so it begins when a connection has its turn and has sent something.
 * Until the handshake is done, a connection that waits for its turn is read from all the same, as far as a little goes (ahead.ts).
 */
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { Ahead, bytesAheadMax } from "./ahead.ts";
import { recordsPerHandshake } from "./certificate.ts";
import { ClientHellos } from "./client-hello.ts";
import { handleOf } from "./handle.ts";

/** Records that TLS is handed at once: of a byte each they take it and HTTP/1 some 1 ms. */
const recordsAtOnce = 256;
/** A record's type, version and length, which comes last. */
const recordHeadBytes = 5;
const lengthAt = 3;
const handshakeType = 22;
/** A first byte from here on begins a message of SSL 2, which OpenSSL takes too. Its length stands elsewhere, so nothing of it would be counted. */
const ssl2 = 0x80;
/** What a client may say in a handshake: 2 KB at first, these again where it is asked to, and 0.2 KB. OpenSSL keeps up to six times of it. */
const handshakeBytesMax = 8_192;

/** What TLS always has for a connection. It keeps room for the largest write ever, sent or not, once that is more. */
const roomBytes = 16_384;

export class Wire extends Duplex {
  readonly socket: Socket;
  readonly ahead: Ahead;
  /** What TLS was handed so far: bytes, and records as far as their heads were seen. A handshake's count for many. */
  bytesRead = 0;
  records = 0;
  /** Is told that TLS was handed something, at once: TLS itself takes it up to a step later, and others may be handed theirs before. */
  onHanded: () => void = () => {};
  /** The room that TLS keeps for what it has to send, where that is more than any connection has. */
  roomKept = 0;
  /** What has come of the latest record's head, and what is to come of its content. */
  #headBytes = 0;
  #isOfHandshake = false;
  #isSecured = false;
  #handshakeBytes = 0;
  #hellos: ClientHellos | undefined = new ClientHellos();
  #contentBytesDue = 0;
  #isFull = false;
  /** For how many the next record of a handshake counts. For the first one our key has to work. */
  #handshakeRecords: number;
  /** Has TLS take the wire, until it does. */
  #begin: (() => void) | undefined;
  /** What has come and is not handed over yet. */
  #kept: Buffer[] = [];
  #bytesKept = 0;
  #hasEnded = false;

  /** Takes over a socket that nobody reads from yet. `begin` has TLS take the wire; without it that is done by whoever makes it. */
  constructor(socket: Socket, handshakeRecords = recordsPerHandshake, begin?: () => void) {
    // What was handed over and is not taken is the least there can be.
    super({ allowHalfOpen: true, readableHighWaterMark: 1 });
    this.socket = socket;
    // Nobody ends our side but who answers, behind the last answer.
    socket.allowHalfOpen = true;
    this.#handshakeRecords = handshakeRecords;
    this.#begin = begin;
    this.ahead = new Ahead(() => this.#stopReading());
    if (begin === undefined) this.ahead.end();
    socket.on("data", (chunk: Buffer) => this.#came(chunk));
    socket.on("end", () => this.#ended());
    socket.on("close", () => this.destroy());
    socket.on("error", () => this.destroy());
    this.pause();
  }

  /** Bytes that are here, and that TLS has not been handed. */
  get bytesWaiting(): number {
    return this.#bytesKept + this.readableLength + this.socket.readableLength;
  }

  /** A socket that was destroyed, as where room was made for others, closes a step later, and the wire behind it. */
  get #isGone(): boolean {
    return this.destroyed || this.socket.destroyed;
  }

  get isHandshakeDone(): boolean {
    return this.ahead.isOver;
  }

  handshakeDone(): void {
    this.#isSecured = true;
    this.#hellos = undefined;
    this.ahead.end();
  }

  /** Hands nothing over until told to go on. Reads no more either, but ahead of a handshake's turn. */
  stop(): void {
    this.ahead.stop();
  }

  goOn(): void {
    this.ahead.goOn();
    this.#handOverOrRead();
  }

  #handOverOrRead(): void {
    // Not at once: when others who go on too have used up the turn, it is told to stop again.
    if (this.#kept.length > 0) process.nextTick(() => this.#handOver());
    else if (!this.#isFull) this.socket.resume();
  }

  #stopReading(): void {
    this.socket.pause();
    handleOf(this.socket)?.readStop();
  }

  #startReading(): void {
    this.socket.resume();
    const handle = handleOf(this.socket);
    if (handle?.reading === true) handle.readStart();
  }

  #came(chunk: Buffer): void {
    if (this.#kept.length === 0 && (this.isHandshakeDone || !this.ahead.isStopped)) this.#takeOrBegin(chunk);
    else this.#cameAhead(chunk);
  }

  #cameAhead(chunk: Buffer): void {
    this.#keep(chunk);
    // Nobody has so much to say before he is answered; behind his last word of the handshake he may.
    if (this.#bytesKept > bytesAheadMax && this.#begin !== undefined) this.destroy();
    else this.ahead.came(this.#bytesKept);
  }

  #keep(chunk: Buffer): void {
    this.#kept.push(chunk);
    this.#bytesKept += chunk.length;
  }

  #handOver(): void {
    if (this.ahead.isStopped || this.#isFull || this.#isGone || this.#kept.length === 0) return;
    const kept = Buffer.concat(this.#kept);
    this.#kept = [];
    this.#bytesKept = 0;
    if (!this.#hasEnded) this.#startReading();
    this.#takeOrBegin(kept);
    this.#tellEnd();
  }

  #takeOrBegin(chunk: Buffer): void {
    const begin = this.#begin;
    this.#begin = undefined;
    begin?.();
    this.#take(chunk);
  }

  #ended(): void {
    this.#hasEnded = true;
    if (this.isHandshakeDone) return this.#tellEnd();
    // Without a handshake no answer can ever be written. Its last word may wait for its turn, with a request behind it.
    if (this.#begin === undefined && this.bytesWaiting > 0) this.ahead.clientEnded();
    else this.destroy();
  }

  /** The end comes behind what came before it. */
  #tellEnd(): void {
    if (!this.#hasEnded || this.#kept.length > 0) return;
    this.push(null);
    // Whoever has not said the last word of his handshake by then never will.
    setImmediate(() => this.isHandshakeDone || this.destroy());
  }

  #take(chunk: Buffer): void {
    for (let at = 0; at < chunk.length && !this.#isGone;) {
      if (this.ahead.isStopped || this.#isFull) {
        if (this.isHandshakeDone || this.#isFull) this.socket.pause();
        this.#keep(at === 0 ? chunk : chunk.subarray(at));
        return;
      }
      const end = this.#countTo(chunk, at);
      if (this.destroyed) return;
      this.bytesRead += end - at;
      if (!this.push(end - at === chunk.length ? chunk : chunk.subarray(at, end))) this.#isFull = true;
      at = end;
      this.onHanded();
    }
  }

  /** Counts the records from `from` on, and tells where TLS has enough of them. */
  #countTo(chunk: Buffer, from: number): number {
    let at = from;
    for (let records = 0; at < chunk.length && !this.destroyed;) {
      if (this.#headBytes === recordHeadBytes) {
        const bytes = Math.min(this.#contentBytesDue, chunk.length - at);
        if (this.#isOfHandshake && this.#hellos?.take(chunk.subarray(at, at + bytes)) === false) this.destroy();
        this.#contentBytesDue -= bytes;
        at += bytes;
        if (this.#contentBytesDue === 0) this.#headBytes = 0;
        continue;
      }
      const byte = chunk[at] as number;
      if (this.#headBytes === 0) {
        if (records === recordsAtOnce) return at;
        if (this.records === 0 && byte >= ssl2) this.destroy();
        records += 1;
        this.#isOfHandshake = byte === handshakeType;
        this.records += this.#isOfHandshake ? this.#recordsOfHandshake() : 1;
      }
      if (this.#headBytes >= lengthAt) this.#contentBytesDue = this.#contentBytesDue * 256 + byte;
      this.#headBytes += 1;
      at += 1;
      if (this.#isOfHandshake && this.#headBytes === recordHeadBytes && this.#isTooMuchOfHandshake()) this.destroy();
    }
    return at;
  }

  /** For how many a record of a handshake counts. */
  #recordsOfHandshake(): number {
    const records = this.#handshakeRecords;
    this.#handshakeRecords = recordsPerHandshake;
    return records;
  }

  /**
   * OpenSSL keeps what has come of a message, up to the 128 KiB that it may have. Behind the handshake only one that begins
   * another shows as such (TLS 1.2): no client needs that, and our key would have to work again.
   */
  #isTooMuchOfHandshake(): boolean {
    this.#handshakeBytes += this.#contentBytesDue;
    return this.#isSecured || this.#handshakeBytes > handshakeBytesMax;
  }

  override _read(): void {
    this.#isFull = false;
    if (!this.ahead.isStopped) this.#handOverOrRead();
  }

  #noteRoom({ length }: Buffer): void {
    if (length > roomBytes) this.roomKept = Math.max(this.roomKept, length);
  }

  /**
   * TLS is never told that a write failed: once it has begun to end it passes that on to nobody, and a session over HTTP/2 waits for its
   * write for good. The socket's own end is the wire's.
   */
  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#noteRoom(chunk);
    this.socket.write(chunk, () => done());
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.socket.cork();
    for (const [i, { chunk }] of chunks.entries()) {
      this.#noteRoom(chunk);
      this.socket.write(chunk, i === chunks.length - 1 ? () => done() : undefined);
    }
    this.socket.uncork();
  }

  override _final(done: () => void): void {
    this.socket.end(done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.socket.destroy();
    done(error);
  }
}
