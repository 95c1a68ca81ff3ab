/**
 * What a provider says in words of its own: the name it gives a message, and why one did not arrive. Both come from outside,
 * are kept in the database and are shown on an operator's terminal. So they are brought to text that every database takes: a
 * message that could not be settled for its words would be sent again.
 */

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
