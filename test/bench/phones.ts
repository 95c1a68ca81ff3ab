/**
 * The numbers that are texted: Dutch mobile ones, of 50 million.
 */

/** A random number: the index pages that are touched are as spread as with real callers. */
export function randomPhone(): string {
  return phoneAt(Math.floor(Math.random() * randomPlaces));
}

/** The number of pending verification `i`, which is no random one: its limits may be used up. */
export function pendingPhone(i: number): string {
  return phoneAt(randomPlaces + ((i * spreading) % (places - randomPlaces)));
}

/** The number of the peer's user `i`. */
export function userPhone(i: number): string {
  return phoneAt((i * spreading) % places);
}

const [places, randomPlaces] = [5e7, 4e7];
/** A prime, so that numbers in a row are spread as random ones are, and differ. */
const spreading = 15_485_863;

function phoneAt(place: number): string {
  return `+316${(10_000_000 + place).toString()}`;
}
