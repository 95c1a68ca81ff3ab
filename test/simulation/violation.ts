/**
 * An invariant that does not hold, told apart from every other error by its class.
 */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** Throws a Violation unless `condition` is true. */
export function hold(condition: boolean, invariant: string, what: string): asserts condition {
  if (!condition) throw new Violation(`${invariant}: ${what}`);
}
