/**
 * Turns of the event loop: what many ask for at once is begun a few at a time, one turn after another, so that everything
 * else has its turn in between.
 */

export interface Turns {
  /** Has what waits begun in the next turn. */
  schedule(): void;
  /** Whether one more may begin in this turn, which counts it. Whoever keeps order asks only when nobody waits. */
  take(): boolean;
}

/** At most `perTurn` a turn. `begin` begins at most so many of those that wait, and returns how many. */
export function createTurns(perTurn: number, begin: (atMost: number) => number): Turns {
  let begun = 0;
  let isScheduled = false;

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    setImmediate(onTurn);
  }

  function onTurn(): void {
    isScheduled = false;
    begun = begin(perTurn);
    // Once more, if only to know that a turn has passed.
    if (begun > 0) schedule();
  }

  return {
    schedule,
    take() {
      schedule();
      if (begun >= perTurn) return false;
      begun += 1;
      return true;
    },
  };
}
