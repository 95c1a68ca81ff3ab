/**
 * Waits of a stop, in steps of the event loop and not by the clock: a process that stood still meanwhile has yet to read what
 * was sent to it.
 */
import type { Server } from "node:net";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { stopwatchMs } from "../../system.ts";

const stepMs = 5;
/** So many steps in a row without anything new end a wait. */
const quietSteps = 3;
/** The most steps that the wait for new connections takes. Each of them takes two turns or more. */
const stepsMax = 200;
/** As many steps as a process that stood still may need. */
const leastSteps = 20;
/** Strangers make each step long: a wait that has taken so long ends after `leastSteps`. */
const patienceMs = 1_500;
const readingPatienceMs = 1_000;
/** A wait ends in any case once its steps, without the longest of them, took so long: a machine may have little time for us. */
const busyMsMax = 4_000;
const readingBusyMsMax = 2_000;

/** Counts steps, and what they took. */
function beginSteps() {
  const beganMs = stopwatchMs();
  let count = 0;
  let tookMs = 0;
  let longestMs = 0;
  return {
    ended() {
      const nowMs = stopwatchMs() - beganMs;
      longestMs = Math.max(longestMs, nowMs - tookMs);
      tookMs = nowMs;
      count += 1;
    },
    get count() {
      return count;
    },
    get tookMs() {
      return tookMs;
    },
    /** Without the longest of them: a process that stood still once was not busy meanwhile. */
    get busyMs() {
      return tookMs - longestMs;
    },
  };
}

/**
 * Makes the wait for connections that the system has for us: a turn of the event loop takes one of them and reads from those
 * it has. Resolves once no new one has shown up for a few steps.
 */
export function createUntilQuiet(listener: Server): () => Promise<void> {
  let connectionsTaken = 0;
  listener.prependListener("connection", () => (connectionsTaken += 1));
  return async () => {
    const steps = beginSteps();
    const most = () => (steps.tookMs < patienceMs ? stepsMax : leastSteps);
    for (let quiet = 0; quiet < quietSteps && steps.count < most() && steps.busyMs < busyMsMax;) {
      const taken = connectionsTaken;
      await sleep(stepMs);
      await nextTurn();
      await nextTurn();
      steps.ended();
      quiet = taken === connectionsTaken ? quiet + 1 : 0;
    }
  };
}

/**
 * Has the system take next to no more connections for us: strangers who come faster than a turn takes one would have it keep some
 * until it resets them. Whoever comes now is not answered; his system tries again in a second, and is then told that nobody listens.
 */
export function takeFewer(listener: Server): void {
  // oxlint-disable-next-line no-underscore-dangle -- undocumented, so its absence only means that some may be reset
  (listener as Listening)._handle?.listen?.(1);
}

/**
 * Resolves once nobody has waited to be read from for a few steps, of whom `waiting` tells how many there are, or once strangers make
 * it last too long: whose turn has come is read from in the next step at the earliest. Returns how long that was, in milliseconds.
 */
export async function untilRead(waiting: () => number): Promise<number> {
  const steps = beginSteps();
  const isPatient = () => steps.count < leastSteps || steps.tookMs < readingPatienceMs;
  for (let quiet = 0; quiet < quietSteps && isPatient() && steps.busyMs < readingBusyMsMax;) {
    await sleep(stepMs);
    await nextTurn();
    quiet = waiting() === 0 ? quiet + 1 : 0;
    steps.ended();
  }
  return steps.tookMs;
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

/** What libuv has of a listener. */
type Listening = Server & { readonly _handle?: { listen?(backlog: number): number } | null };
