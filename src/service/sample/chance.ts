/**
 * Chance by a seed: the same seed gives the same sample. It is for made-up data alone, and guards nothing.
 */

export interface Chance {
  /** From 0 up to 1, that excluded. */
  fraction(): number;
  /** A whole number from 0 up to `end`, that excluded. */
  below(end: number): number;
  /** How many of something happen where so many are expected (Poisson). */
  count(expected: number): number;
  /** Scattered about a median, as times of people are; `spread` is that of its logarithm. */
  about(median: number, spread: number): number;
  /** One of several, each as often as its weight says. */
  one<T>(of: readonly (readonly [T, number])[]): T;
  bytes(count: number): Uint8Array;
  digits(count: number): string;
}

/** Marsaglia's xorshift on 32 bits, begun anew for each name so that one part of a sample does not move the others. */
export function chanceOf(seed: number, name: string): Chance {
  let state = [...`${seed}/${name}`].reduce(
    (hash, char) => Math.imul(hash ^ char.charCodeAt(0), 16_777_619),
    0x811c9dc5,
  );
  const next = () => {
    if (state === 0) state = 1;
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 8; i++) next();
  const below = (end: number) => Math.floor(next() * end);
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  return {
    fraction: next,
    below,
    count(expected) {
      if (expected > 30) return Math.max(0, Math.round(expected + Math.sqrt(expected) * normal()));
      let found = 0;
      for (let left = next(); left > Math.exp(-expected); left *= next()) found++;
      return found;
    },
    about: (median, spread) => median * Math.exp(spread * normal()),
    one(of) {
      let place = next() * of.reduce((sum, [, weight]) => sum + weight, 0);
      const found = of.find(([, weight]) => (place -= weight) < 0) ?? of.at(-1);
      if (found === undefined) throw new Error("one of nothing");
      return found[0];
    },
    bytes: (count) => Uint8Array.from({ length: count }, () => below(256)),
    digits: (count) => Array.from({ length: count }, () => below(10)).join(""),
  };
}
