/**
 * How many turns in a row do nothing but take connections, while others wait behind these in the system's one line. At
 * least 15; and five times as long as the last turn in which strangers were read from. A turn ends what those who have left
 * had under way, whoever asked for it, so it may be long even so. By number alone, reading had half of the time where
 * connections bring a lot and come again, and fewer were taken than came.
 */

export interface TakingTurns {
  /** Strangers are read from until this turn ends. Tells whether more connections wait to be taken than were in these turns. */
  readingBegins(): boolean;
  /** Ends a turn, and tells whether the next one takes a connection before strangers are read from. */
  turnEnded(turn: { readonly isMoreToTake: boolean }): boolean;
}

const turnsMin = 15;
const partOfReading = 5;
/** A turn that took longer was not made so by strangers alone. */
const readingMsMax = 20;

/** `nowMs` is a clock that only advances. */
export function createTakingTurns(nowMs: () => number): TakingTurns {
  let turns = 0;
  /** When strangers began to be read from, in the turn under way. */
  let readSinceMs: number | undefined;
  let untilMs = 0;

  const isNext = () => turns < turnsMin || nowMs() < untilMs;

  return {
    readingBegins() {
      const areMore = !isNext();
      turns = 0;
      readSinceMs = nowMs();
      return areMore;
    },
    turnEnded({ isMoreToTake }) {
      if (readSinceMs !== undefined) untilMs = nowMs() + partOfReading * Math.min(nowMs() - readSinceMs, readingMsMax);
      readSinceMs = undefined;
      if (!isMoreToTake || !isNext()) return false;
      turns += 1;
      return true;
    },
  };
}
