/**
 * Threads that work beside the calls.
 */
import { getPriority, setPriority } from "node:os";

/** As `nice` has it, beyond the process's own. */
const niceness = 10;

/** On a core that both want, calls come before the thread that runs this. Only on Linux has a thread a priority of its own. */
export function yieldToCalls(): void {
  if (process.platform !== "linux") return;
  try {
    setPriority(Math.min(getPriority() + niceness, 19));
  } catch {
    // A sandbox may refuse it; then both take turns.
  }
}
