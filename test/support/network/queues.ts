/** The system's tables of connections, read at one go. */
import type { SystemQueue } from "../../../src/server/listener/system-queues.ts";

/** Reads to the end, and tells how often there was a pause. */
export function readAll(reading: Generator<void, SystemQueue[]>): { queues: SystemQueue[]; pauses: number } {
  let pauses = 0;
  let step = reading.next();
  for (; step.done !== true; step = reading.next()) pauses += 1;
  return { queues: step.value, pauses };
}
