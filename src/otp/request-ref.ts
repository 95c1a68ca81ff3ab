/**
 * What a request_id is called in logs, in the audit and in the console: its first 12 characters. The rest is withheld, since
 * whoever has a page's key could cancel with a whole one.
 */
const refChars = 12;

/** The reference of an id, 12 characters of base64url. Pure. */
export const requestRef = (id: string): string => id.slice(0, refChars);

/** The reference of what a caller says is an id; undefined for text that is none. Pure. */
export function requestRefOf(said: unknown): string | undefined {
  return typeof said === "string" && /^[A-Za-z0-9_-]{22}$/.test(said) ? requestRef(said) : undefined;
}
