/**
 * Characters that nobody sees and that change how the text around them reads: control characters, ends of lines, and marks
 * that turn the direction of writing. A name with one of them can look like another, or rewrite a terminal.
 */

const hidden = /[\p{Cc}\p{Zl}\p{Zp}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/u;
const all = new RegExp(hidden, "gu");

/** The first of them in a text, such as `U+202E`; undefined where there is none. Pure. */
export function hiddenCharacter(text: string): string | undefined {
  const [found] = hidden.exec(text) ?? [];
  return found === undefined ? undefined : `U+${hex(found).toUpperCase()}`;
}

/** The text with each of them as JSON escapes it, such as `\\u202e`: what is JSON stays the same JSON. Pure. */
export function escapeHidden(text: string): string {
  return text.replace(all, (character) => `\\u${hex(character)}`);
}

function hex(character: string): string {
  return character.charCodeAt(0).toString(16).padStart(4, "0");
}
