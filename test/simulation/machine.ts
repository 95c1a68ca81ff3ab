/**
 * A machine without time of its own: a wall clock that can be set, a monotonic clock that only a test moves, and timers
 * that run when it gets to them. Waits cost nothing, so days pass in a second, and in the same way every time.
 */
import type { RawClock } from "../../src/system.ts";
import { testEpochMs } from "../support/service/system.ts";

interface Timer {
  readonly dueMs: number;
  readonly place: number;
  readonly act: () => void;
}

export class Machine implements RawClock {
  #wall = testEpochMs;
  #monotonic = 0;
  #timers: Timer[] = [];
  #placed = 0;

  wallMs(): number {
    return this.#wall;
  }

  monotonicMs(): number {
    return this.#monotonic;
  }

  /** Runs `act` once the monotonic clock has moved on by `ms`. Returns what calls it off. */
  after(ms: number, act: () => void): () => void {
    const timer = { dueMs: this.#monotonic + Math.max(0, ms), place: this.#placed++, act };
    this.#timers.push(timer);
    return () => {
      const at = this.#timers.indexOf(timer);
      if (at >= 0) this.#timers.splice(at, 1);
    };
  }

  /** Sets the wall clock, as a person or NTP would. */
  setWall(byMs: number): void {
    this.#wall += byMs;
  }

  /** Moves both clocks on, and runs nothing. */
  pass(ms: number): void {
    this.#wall += ms;
    this.#monotonic += ms;
  }

  /** How long until the next timer; Infinity without one. */
  nextInMs(): number {
    return this.#timers.reduce((next, { dueMs }) => Math.min(next, dueMs - this.#monotonic), Number.POSITIVE_INFINITY);
  }

  /** Runs the one timer that has been due for longest; false when none is due. */
  runDue(): boolean {
    const due = this.#timers.filter(({ dueMs }) => dueMs <= this.#monotonic);
    const [first] = due.toSorted((a, b) => a.dueMs - b.dueMs || a.place - b.place);
    if (first === undefined) return false;
    this.#timers.splice(this.#timers.indexOf(first), 1);
    first.act();
    return true;
  }

  /** Drops every timer, as the end of a process does. */
  forgetTimers(): void {
    this.#timers = [];
  }
}

/** One turn of the event loop. */
export function turn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
