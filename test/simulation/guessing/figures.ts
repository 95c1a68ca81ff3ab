/**
 * From the book of a simulation to its figures: how many guesses met how many digits, and the exact chance that one of
 * them would have been right, 1 − Π(1 − guesses / 10^digits) over the requests.
 */
import type { World, Guessed } from "./world.ts";

export interface Figures {
  readonly sends: number;
  /** Guesses by the length of the code. */
  readonly byDigits: Readonly<Record<number, number>>;
  readonly worstDay: number;
  /** Of the days at work, the one in the middle. */
  readonly usualDay: number;
  readonly inAll: number;
}

/** The chance that one of these guesses is right. Each was at another code of its request, so within one they add up. */
export function chanceOf(guessed: Iterable<Guessed>): number {
  let log = 0;
  for (const { guesses, digits } of guessed) log += Math.log1p(-guesses / 10 ** digits);
  return -Math.expm1(log);
}

export function figuresOf(world: World): Figures {
  const byDigits: Record<number, number> = {};
  const days = new Map<number, Guessed[]>();
  for (const each of world.guessed.values()) {
    byDigits[each.digits] = (byDigits[each.digits] ?? 0) + each.guesses;
    days.set(each.day, [...(days.get(each.day) ?? []), each]);
  }
  const chances = [...days.values()].map(chanceOf).toSorted((a, b) => a - b);
  return {
    sends: world.sends.attacker,
    byDigits,
    worstDay: chances.at(-1) ?? 0,
    usualDay: chances[Math.floor(chances.length / 2)] ?? 0,
    inAll: chanceOf(world.guessed.values()),
  };
}

/** A chance as the document writes it: `1 in 7,490`, to three significant digits. */
export function oneIn(chance: number): string {
  return `1 in ${Number((1 / chance).toPrecision(3)).toLocaleString("en-US")}`;
}
