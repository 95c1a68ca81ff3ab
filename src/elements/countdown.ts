/**
 * Countdowns, and how they are shown.
 */
import { monotonicMs } from "./system.ts";

/**
 * Counts down from `seconds`, and calls `onTick` with the seconds that are left, rounded up: at once, then each second, and
 * with 0 once. Returns what stops it. After a sleep the page shows the right number.
 */
export function countdown(seconds: number, onTick: (secondsLeft: number) => void): () => void {
  const endMs = monotonicMs() + seconds * 1_000;
  let timer: ReturnType<typeof setTimeout> | undefined;
  function tick(): void {
    const leftMs = endMs - monotonicMs();
    const secondsLeft = Math.max(0, Math.ceil(leftMs / 1_000));
    if (secondsLeft > 0) timer = setTimeout(tick, leftMs - (secondsLeft - 1) * 1_000);
    onTick(secondsLeft);
  }
  tick();
  return () => clearTimeout(timer);
}

/** Such as "9:05". */
export function onTheClock(seconds: number): string {
  return `${Math.floor(seconds / 60)}:${`${seconds % 60}`.padStart(2, "0")}`;
}
