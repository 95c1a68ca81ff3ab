/**
 * The numbers that are texted: Dutch mobile ones, of 50 million.
 */

/** A random number: the index pages that are touched are as spread as with real callers. */
export function randomPhone(): string {
  return phoneAt(Math.floor(Math.random() * 5e7));
}

/** The number of the peer's user `i`, as spread as random ones. */
export function userPhone(i: number): string {
  return phoneAt((i * 15_485_863) % 5e7);
}

function phoneAt(place: number): string {
  return `+316${(10_000_000 + place).toString()}`;
}
