/**
 * The ticks by which connections count their time: in a test they pass when it says so, since a limit that ran against the
 * machine's own clock would be a race with whatever has to happen before it.
 */
import { vi } from "vitest";

/** From now on, for listeners that start afterwards, no tick passes by itself. */
export function holdTicks(): void {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
}

/** Has so much time pass for connections, at once. */
export function passTicks(ms: number): void {
  vi.advanceTimersByTime(ms);
}

export function releaseTicks(): void {
  vi.useRealTimers();
}
