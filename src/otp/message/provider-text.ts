/**
 * The names that a provider and we give a message, and what else a provider says in words of its own.
 *
 * Our name for a message is the 16 random bytes of the request_id, encrypted as one AES-256 block, and the copy's number.
 * It leads back to the verification without a column or an index, and does not tell the provider the request_id. A single
 * block of random input needs no mode and no nonce.
 *
 * The provider's name for a message, and its word on why one did not arrive, come from outside. They are kept in the
 * database and shown on an operator's terminal, so they are turned into text that every database takes: a message that
 * could not be settled for its provider's words would be sent again.
 */
import { createCipheriv, createDecipheriv, type Cipheriv } from "node:crypto";
import type { KeyRing, MasterKey } from "../keys/key-ring.ts";

/** The reference of a message: 22 characters of base64url, a dot and the copy. Pure. */
export function referenceOf(key: MasterKey, id: string, copy: number): string {
  let cipher = ciphers.get(key);
  if (cipher === undefined) {
    ciphers.set(key, (cipher = createCipheriv("aes-256-ecb", key.reference, null).setAutoPadding(false)));
  }
  const block = Buffer.from(id, "base64url");
  // Half a block would be joined with the next one's.
  if (block.length !== 16) throw new Error("not an id");
  return `${cipher.update(block).toString("base64url")}.${copy}`;
}

/** One for each key: a block does not depend on those before it, and to make one takes longer than to use it. */
const ciphers = new WeakMap<MasterKey, Cipheriv>();

/** The reference of a message as it was given to its provider: under the key that its verification was opened with. Pure. */
export function referenceFor(
  keys: KeyRing,
  { id, kid }: { readonly id: string; readonly kid: number },
  copy: number,
): string {
  return referenceOf(keys.find(kid) ?? keys.current, id, copy);
}

/** What a reference may stand for: one candidate per configured key, of which at most one exists. Pure. */
export function readReference(keys: KeyRing, reference: string): { readonly id: string; readonly copy: number }[] {
  const [, text = "", copy = ""] = /^([A-Za-z0-9_-]{22})\.(\d{1,2})$/.exec(reference) ?? [];
  const block = Buffer.from(text, "base64url");
  if (block.length !== 16) return [];
  return keys.all.map((key) => {
    const decipher = createDecipheriv("aes-256-ecb", key.reference, null).setAutoPadding(false);
    const id = Buffer.concat([decipher.update(block), decipher.final()]).toString("base64url");
    return { id, copy: Number(copy) };
  });
}

// ---- its words ------------------------------------------------------------------------------------------------------

interface Limit {
  readonly codePoints: number;
  /** In UTF-8. */
  readonly bytes: number;
}

const nameMax: Limit = { codePoints: 128, bytes: 256 };
const reasonMax: Limit = { codePoints: 200, bytes: 400 };

/** Controls, invisible marks such as those that turn the direction of a line, and separators of lines. */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** A provider's name for a message, at most 128 characters and 256 bytes; null when it is no text, or empty. Pure. */
export function providerName(said: unknown): string | null {
  return cleaned(said, nameMax) || null;
}

/** A provider's word on why, at most 200 characters and 400 bytes; null when it is no text. Pure. */
export function providerReason(said: unknown): string | null {
  return cleaned(said, reasonMax);
}

/** Printable text within its limit: U+FFFD stands for what was not printable and for halves of characters. */
function cleaned(said: unknown, { codePoints, bytes }: Limit): string | null {
  if (typeof said !== "string") return null;
  // Cut before it is looked through: it may be megabytes. A character has two halves at most.
  const text = said
    .slice(0, 2 * codePoints)
    .toWellFormed()
    .replace(unprintable, "\uFFFD");
  let kept = "";
  let bytesLeft = bytes;
  for (const character of Array.from(text).slice(0, codePoints)) {
    bytesLeft -= Buffer.byteLength(character);
    if (bytesLeft < 0) break;
    kept += character;
  }
  return kept;
}
