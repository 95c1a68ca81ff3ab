/**
 * Turns: calls that arrive together are begun a few at a time, one turn of the event loop after another.
 *
 * In overload hundreds of requests are ready at once. Begun all together they would keep the event loop from everything
 * else for a tenth of a second: from refusing what finds no place, and from new connections, of which it takes one a turn
 * (with 320 callers the last connection waited for 10 s). A few at a time cost nothing: a transaction shared by more of
 * them is hardly cheaper for each.
 */

/** Waits for a call's turn, first come, first served; undefined when it is its turn already. */
export type TakeTurn = () => Promise<void> | undefined;

/** Begins at most `perTurn` calls in each turn of the event loop. */
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
