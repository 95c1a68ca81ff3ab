/**
 * Places: how many calls are worked on at once. A full house refuses further ones, since it would serve nobody. A call that
 * waits for its client to send must not keep others from being served, so it lends its place meanwhile. A stop waits for
 * every call that is not over, with a place or without.
 */

/** A full house is worth another try so much later. */
export const retryAfterMs = 1_000;

/** What one call holds of the house. It begins without a place. */
export interface Place {
  /** Takes a place, unless it has one; false where there is none. */
  take(): boolean;
  /** Gives the place to others while the client has yet to send. */
  lend(): void;
  /** The call is over. Safe to repeat. */
  end(): void;
}

export interface Places {
  /** Begins a call. */
  begin(): Place;
  readonly isFull: boolean;
  /** True from `drain` on. */
  readonly isDraining: boolean;
  /** Resolves when the last call is over. */
  drain(): Promise<void>;
}

/** `placesMax` calls at once. */
export function createPlaces(placesMax: number): Places {
  let taken = 0;
  let underWay = 0;
  let draining = false;
  let drained = () => {};

  function begin(): Place {
    underWay += 1;
    let has = false;
    let isOver = false;
    const lend = () => {
      if (has) taken -= 1;
      has = false;
    };
    return {
      take() {
        if (has) return true;
        if (taken >= placesMax) return false;
        taken += 1;
        has = true;
        return true;
      },
      lend,
      end() {
        if (isOver) return;
        isOver = true;
        lend();
        underWay -= 1;
        if (draining && underWay === 0) drained();
      },
    };
  }

  return {
    begin,
    get isFull() {
      return taken >= placesMax;
    },
    get isDraining() {
      return draining;
    },
    drain() {
      draining = true;
      return underWay === 0 ? Promise.resolve() : new Promise((resolve) => (drained = resolve));
    },
  };
}
