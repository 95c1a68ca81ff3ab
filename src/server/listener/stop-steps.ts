/**
 * Waits of a stop, in steps of the event loop and not by the clock: a process that stood still meanwhile has yet to read what
 * was sent to it.
 */
import type { Server } from "node:net";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { stopwatchMs } from "../../system.ts";

const stepMs = 5;
/** Steps without a new connection until no more are expected; and the most steps for that, each of which takes two or more. */
const quietSteps = 3;
const stepsMax = 200;
/** Strangers who never stop to come make each step long: after this time there are only as many as standing still may need. */
const patienceMs = 1_500;
const leastSteps = 20;

/**
 * Makes the wait for connections that the system has for us: a turn of the event loop takes one of them and reads from those
 * it has. Resolves once no new one has shown up for a few steps.
 */
export function createUntilQuiet(listener: Server): () => Promise<void> {
  let connectionsTaken = 0;
  listener.prependListener("connection", () => (connectionsTaken += 1));
  return async () => {
    const beganMs = stopwatchMs();
    const most = () => (stopwatchMs() - beganMs < patienceMs ? stepsMax : leastSteps);
    for (let quiet = 0, steps = 0; quiet < quietSteps && steps < most(); steps += 1) {
      const taken = connectionsTaken;
      await sleep(stepMs);
      await nextTurn();
      await nextTurn();
      quiet = taken === connectionsTaken ? quiet + 1 : 0;
    }
  };
}

/** Runs `act` after `ms` in steps, unless `over` is aborted before. */
export async function afterSteps(ms: number, over: AbortSignal, act: () => void): Promise<void> {
  for (let step = 0; step < ms / stepMs; step += 1) {
    await sleep(stepMs);
    await nextTurn();
    if (over.aborted) return;
  }
  act();
}
