/**
 * What TLS reads from and writes to: a stream of ours around the socket. Left alone, TLS takes what a socket has by
 * itself, half a megabyte in a turn of the event loop, and nobody hears of it. A record of one byte costs as much as
 * one of 16 KiB, and the content goes on to HTTP/2 unseen too.
 */
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { recordsPerHandshake } from "./certificate.ts";

/** Records that TLS is handed at once: of a byte each they take it and HTTP/1 some 1 ms. */
const recordsAtOnce = 256;
/** A record's type, version and length, which comes last. */
const recordHeadBytes = 5;
const lengthAt = 3;
const handshakeType = 22;

/** What TLS always has for a connection. It keeps room for the largest write ever, sent or not, once that is more. */
const roomBytes = 16_384;

export class Wire extends Duplex {
  readonly socket: Socket;
  /** What TLS was handed so far: bytes, and records as far as their heads were seen. A handshake's count for many. */
  bytesRead = 0;
  records = 0;
  /** The room that TLS keeps for what it has to send, where that is more than any connection has. */
  roomKept = 0;
  /** What has come of the latest record's head, and what is to come of its content. */
  #headBytes = 0;
  #contentBytesDue = 0;
  #isStopped = false;
  #isFull = false;
  /** For how many the next record of a handshake counts. Our key has to work for the first one. */
  #handshakeRecords: number;

  /** Takes over a socket that nobody reads from yet. */
  constructor(socket: Socket, handshakeRecords = recordsPerHandshake) {
    // What was handed over and is not taken is the least there can be.
    super({ allowHalfOpen: socket.allowHalfOpen, readableHighWaterMark: 1 });
    this.socket = socket;
    this.#handshakeRecords = handshakeRecords;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("end", () => this.push(null));
    socket.on("close", () => this.destroy());
    socket.on("error", () => this.destroy());
    this.pause();
  }

  /** Bytes that are here, and that TLS has not been handed. */
  get bytesWaiting(): number {
    return this.readableLength + this.socket.readableLength;
  }

  /** Reads no more until told to go on. */
  stop(): void {
    this.#isStopped = true;
    this.socket.pause();
  }

  goOn(): void {
    this.#isStopped = false;
    if (!this.#isFull) this.socket.resume();
  }

  #take(chunk: Buffer): void {
    for (let at = 0; at < chunk.length && !this.destroyed;) {
      if (this.#isStopped || this.#isFull) {
        this.socket.pause();
        this.socket.unshift(at === 0 ? chunk : chunk.subarray(at));
        return;
      }
      const end = this.#countTo(chunk, at);
      this.bytesRead += end - at;
      if (!this.push(end - at === chunk.length ? chunk : chunk.subarray(at, end))) this.#isFull = true;
      at = end;
    }
  }

  /** Counts the records from `from` on, and tells where TLS has enough of them. */
  #countTo(chunk: Buffer, from: number): number {
    let at = from;
    for (let records = 0; at < chunk.length;) {
      if (this.#headBytes === recordHeadBytes) {
        const bytes = Math.min(this.#contentBytesDue, chunk.length - at);
        this.#contentBytesDue -= bytes;
        at += bytes;
        if (this.#contentBytesDue === 0) this.#headBytes = 0;
        continue;
      }
      const byte = chunk[at] as number;
      if (this.#headBytes === 0) {
        if (records === recordsAtOnce) return at;
        records += 1;
        this.records += byte === handshakeType ? this.#handshakeRecords : 1;
        if (byte === handshakeType) this.#handshakeRecords = recordsPerHandshake;
      }
      if (this.#headBytes >= lengthAt) this.#contentBytesDue = this.#contentBytesDue * 256 + byte;
      this.#headBytes += 1;
      at += 1;
    }
    return at;
  }

  override _read(): void {
    this.#isFull = false;
    if (!this.#isStopped) this.socket.resume();
  }

  #noteRoom({ length }: Buffer): void {
    if (length > roomBytes) this.roomKept = Math.max(this.roomKept, length);
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#noteRoom(chunk);
    this.socket.write(chunk, done);
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.socket.cork();
    for (const [i, { chunk }] of chunks.entries()) {
      this.#noteRoom(chunk);
      this.socket.write(chunk, i === chunks.length - 1 ? done : undefined);
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
