/**
 * Whole numbers in few bytes, as rows have them that hold several values in one: 7 bits a byte, the lowest first, the eighth
 * bit set in all but the last.
 */

/** Puts a number at the end of some bytes. Throws unless it is whole, and 0 or more. */
export function pushNumber(bytes: number[], value: number): void {
  if (!Number.isSafeInteger(value) || value < 0) throw new Error("not a whole number");
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  bytes.push(rest);
}

/** Makes what reads one number after the other. It gives 0 beyond the end. */
export function numberReader(bytes: Uint8Array, from = 0): () => number {
  let place = from;
  return () => {
    let value = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = bytes[place++] ?? 0;
      value += (byte & 127) * unit;
      if (byte < 128) return value;
    }
  };
}
