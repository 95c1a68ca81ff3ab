/**
 * How long strangers rest. A call with a key takes several turns of the event loop: its head, its body, the database's
 * answer, its own answer. When strangers make each of these turns long, the call waits for all of them. So as long as
 * such calls are under way, a turn that strangers made long is followed by as much time without them. They still get
 * half of the time, and all of it when no call with a key is under way.
 */

export interface Rest {
  /** Strangers have cost something in this turn. Safe to repeat. */
  costBegan(): void;
  /** Ends a turn, and tells for how many milliseconds strangers rest from now on; below 1 for the next turn alone. */
  turnEnded(turn: { readonly isLong: boolean }): number;
  /** So many calls with a key began, or were found to have one. */
  callsBegan(count: number): void;
  /** One of them is over; tells whether it was the last. */
  callEnded(): boolean;
}

/** A turn that took longer was not made so by strangers alone. */
const restMsMax = 50;
/** No timer is as short: they rest for the next turn alone. */
const oneTurnMs = 0.5;

/** `nowMs` is a clock that only advances. */
export function createRest(nowMs: () => number): Rest {
  let calls = 0;
  /** When strangers began to cost something, in the turn under way or in one whose length is not known yet. */
  let beganMs: number | undefined;
  let isUnmeasured = false;
  let untilMs = 0;

  return {
    costBegan() {
      beganMs ??= nowMs();
    },
    turnEnded({ isLong }) {
      const began = beganMs;
      if (calls === 0) {
        beganMs = undefined;
        isUnmeasured = false;
        untilMs = 0;
        return 0;
      }
      // What they have begun goes on behind this, and has its share in how long it is.
      if (isLong) {
        isUnmeasured = true;
        return oneTurnMs;
      }
      beganMs = undefined;
      if (isUnmeasured && began !== undefined) {
        const now = nowMs();
        untilMs = now + Math.min(now - began, restMsMax);
      }
      isUnmeasured = false;
      if (untilMs === 0) return 0;
      const leftMs = untilMs - nowMs();
      if (leftMs <= 0) untilMs = 0;
      return Math.max(0, leftMs);
    },
    callsBegan(count) {
      calls += count;
    },
    callEnded() {
      calls -= 1;
      return calls === 0;
    },
  };
}
