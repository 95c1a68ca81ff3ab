/**
 * The query of a page's URL.
 */

/** Longer than any that a page of ours takes. */
export const queryCharsMax = 256;

/**
 * The values of a name in a target's query; undefined where that is longer than any. They are given as they stand: no page takes one
 * that has to be escaped, anybody can send 16 KiB, and 4,000 escapes that are no UTF-8 take 50 ms to read. Pure.
 */
export function valuesOf(target: string, name: string): readonly string[] | undefined {
  const [, query = ""] = target.split("?", 2);
  if (query.length > queryCharsMax) return undefined;
  const begin = `${name}=`;
  return query
    .split("&")
    .filter((field) => field.startsWith(begin))
    .map((field) => field.slice(begin.length));
}
