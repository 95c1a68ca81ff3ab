/**
 * The first message of TLS, looked at before TLS has all of it. A client may name authorities there, in four bytes each;
 * OpenSSL keeps an object of 200 bytes of each for as long as the connection lasts, whether anybody asks for it or not.
 * Hardly a client names any, so one that takes more than 256 bytes for them has its connection ended (wire.ts).
 */

/** A message's type and length. */
const headBytes = 4;
const clientHello = 1;
/** Behind a version and 32 random bytes. */
const sessionIdAt = 34;

/** The extensions with names: of who may tell a certificate's status, and of who may have signed it. */
const extensionsWithNames = new Set([5, 47]);
/** What each may be long: some three names as they are in use, or 63 of the shortest, which take 13 KB. */
const namesBytesMax = 256;

/** The messages of a client's handshake, as they come. A client sends a second first one where its keys are of a group that we do not take. */
export class ClientHellos {
  /** Has come, and room for more. A piece that is kept as it came costs some hundred bytes, be it of one byte. */
  #room = Buffer.alloc(0);
  #bytes = 0;

  /** Takes the next piece of them. Returns false where it completes one with too many names. */
  take(piece: Buffer): boolean {
    this.#add(piece);
    let rest = this.#room.subarray(0, this.#bytes);
    for (let end = endOfFirst(rest); rest.length >= end; end = endOfFirst(rest)) {
      if (rest[0] === clientHello && hasManyNames(rest.subarray(headBytes, end))) return false;
      rest = rest.subarray(end);
    }
    this.#bytes = rest.copy(this.#room);
    return true;
  }

  #add(piece: Buffer): void {
    const bytes = this.#bytes + piece.length;
    if (bytes > this.#room.length) {
      const larger = Buffer.alloc(2 * bytes);
      this.#room.copy(larger);
      this.#room = larger;
    }
    piece.copy(this.#room, this.#bytes);
    this.#bytes = bytes;
  }
}

/** Where the first message ends, as far as its length is known. */
function endOfFirst(messages: Buffer): number {
  return headBytes + (messages.length < headBytes ? 0 : messages.readUIntBE(1, 3));
}

/** One that breaks off counts as without names: OpenSSL refuses it. */
function hasManyNames(hello: Buffer): boolean {
  /** Where the part ends whose length, of so many bytes, stands here. */
  const endOf = (at: number, lengthBytes: number) =>
    at + lengthBytes > hello.length ? hello.length : at + lengthBytes + hello.readUIntBE(at, lengthBytes);
  const ciphersAt = endOf(sessionIdAt, 1);
  const compressionsAt = endOf(ciphersAt, 2);
  const extensionsAt = endOf(compressionsAt, 1) + 2;
  for (let at = extensionsAt; at + 4 <= hello.length; at = endOf(at + 2, 2)) {
    if (extensionsWithNames.has(hello.readUInt16BE(at)) && hello.readUInt16BE(at + 2) > namesBytesMax) return true;
  }
  return false;
}
