/**
 * The numbers that are texted: Dutch mobile ones, of 50 million.
 */

let turn = Math.floor(Math.random() * 1e7);

/**
 * A number that was not texted before in this run, so that no two cycles share one: they are as spread as real callers'
 * are, and so are the index pages that are touched.
 */
export function randomPhone(): string {
  turn += 1;
  return phoneAt((turn * spreading) % randomPlaces);
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
