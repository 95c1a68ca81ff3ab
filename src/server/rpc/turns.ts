/**
 * Turns: what many ask for at once is done a few at a time, one turn of the event loop after another.
 */

/** Waits for its turn, first come, first served; undefined when it is its turn already. */
export type TakeTurn = () => Promise<void> | undefined;

/** Has at most `perTurn` in each turn of the event loop. */
export function createTurns(perTurn: number): TakeTurn {
  const waiting: (() => void)[] = [];
  let begun = 0;
  let isScheduled = false;

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    setImmediate(onTurn);
  }

  function onTurn(): void {
    isScheduled = false;
    const next = waiting.splice(0, perTurn);
    begun = next.length;
    if (begun > 0) schedule();
    for (const begin of next) begin();
  }

  return () => {
    schedule();
    if (begun < perTurn && waiting.length === 0) {
      begun += 1;
      return undefined;
    }
    return new Promise((resolve) => waiting.push(resolve));
  };
}
