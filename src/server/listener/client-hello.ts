/**
 * The first message of TLS, looked at before TLS has all of it. OpenSSL makes an object of 200 bytes of each name of an
 * authority in it, of which four bytes are enough for one, and keeps them with the connection whether anybody asks for them or
 * not. Hardly a client names any, so one that names more than a few has its connection ended (wire.ts).
 */

/** A message's type and length. */
const headBytes = 4;
const clientHello = 1;
/** Behind a version and 32 random bytes. */
const sessionIdAt = 34;

/** The extensions with names: of who may tell a certificate's status, and of who may have signed it. */
const named = new Set([5, 47]);
/** What each may be long: some three names as they are in use, or 64 of the shortest, which take 13 KB. */
const namesBytesMax = 256;

/** The messages of a client's handshake, as they come. A second one of these is asked for where we know another group of keys. */
export class ClientHellos {
  #come: Buffer[] = [];
  #bytesCome = 0;
  #bytesNeeded = headBytes;

  /** Takes the next piece of them. Returns false where it completes one with too many names. */
  take(piece: Buffer): boolean {
    this.#come.push(piece);
    this.#bytesCome += piece.length;
    if (this.#bytesCome < this.#bytesNeeded) return true;
    let rest = Buffer.concat(this.#come);
    while (rest.length >= (this.#bytesNeeded = bytesOfFirst(rest))) {
      if (rest[0] === clientHello && hasManyNames(rest.subarray(headBytes, this.#bytesNeeded))) return false;
      rest = rest.subarray(this.#bytesNeeded);
    }
    this.#come = [rest];
    this.#bytesCome = rest.length;
    return true;
  }
}

/** Of how many bytes the first message is, as far as it is known. */
function bytesOfFirst(messages: Buffer): number {
  return headBytes + (messages.length < headBytes ? 0 : messages.readUIntBE(1, 3));
}

/** Where it breaks off it has none: OpenSSL refuses it. */
function hasManyNames(hello: Buffer): boolean {
  /** Where what begins with a length of so many bytes ends. */
  const behind = (at: number, lengthBytes: number) =>
    at + lengthBytes > hello.length ? hello.length : at + lengthBytes + hello.readUIntBE(at, lengthBytes);
  const ciphersAt = behind(sessionIdAt, 1);
  const compressionsAt = behind(ciphersAt, 2);
  const extensionsAt = behind(compressionsAt, 1) + 2;
  for (let at = extensionsAt; at + 4 <= hello.length; at = behind(at + 2, 2)) {
    if (named.has(hello.readUInt16BE(at)) && hello.readUInt16BE(at + 2) > namesBytesMax) return true;
  }
  return false;
}
