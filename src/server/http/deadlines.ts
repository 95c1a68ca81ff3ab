/**
 * How long calls and bodies may take, by the ticks of one timer for all of them: a timer for each would cost more than
 * looking at all.
 */

export interface Deadlines {
  /** Has `onLate` run once so much time has passed, or up to a sixteenth of it earlier. */
  begin(onLate: () => void): void;
  /** Has it run no more. Safe to repeat. */
  end(onLate: () => void): void;
}

/** The time is cut into so many ticks. */
const ticks = 16;

export function createDeadlines(ms: number): Deadlines {
  /** The tick that each ends with, the first one first: all take as long. */
  const waiting = new Map<() => void, number>();
  let timer: NodeJS.Timeout | undefined;
  let tick = 0;

  function onTick(): void {
    tick += 1;
    for (const [onLate, endTick] of waiting) {
      if (endTick > tick) break;
      waiting.delete(onLate);
      onLate();
    }
    timer = waiting.size > 0 ? timer?.refresh() : undefined;
  }

  return {
    begin(onLate) {
      // Of the tick that is under way some is over: early, then, since node's own limit of a request is as long.
      waiting.set(onLate, tick + ticks);
      // What is waited for has a connection, which keeps the process; the tick after the last one must not.
      timer ??= setTimeout(onTick, ms / ticks).unref();
    },
    end(onLate) {
      waiting.delete(onLate);
    },
  };
}
