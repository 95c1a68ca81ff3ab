/**
 * The sweeper: every few seconds it has the store note what time has done. Verifications past their life lose their
 * salt, and what is past its retention is deleted. It works in small batches with pauses between them, so that a backlog
 * of a million rows costs the calls under way no more than one row would.
 */
import { sleep, type System } from "../system.ts";
import type { Store } from "./store.ts";

export interface Sweeper {
  start(): void;
  stop(): Promise<void>;
}

/** A salt is erased within 60 s of its verification's end. */
const everyMs = 15_000;
const batchRowsMax = 200;
const pauseMs = 20;

export function createSweeper(
  store: Store,
  system: System,
  retentionMs: number,
  onFault: (error: unknown) => void,
): Sweeper {
  let stopping = false;
  let callOff = () => {};
  let running: Promise<void> = Promise.resolve();

  async function sweep(): Promise<void> {
    try {
      while (!stopping && (await store.sweep(batchRowsMax, retentionMs)).more) await sleep(system, pauseMs);
    } catch (error) {
      onFault(error);
    }
    if (!stopping) callOff = system.after(everyMs, run);
  }

  function run(): void {
    running = sweep();
  }

  return {
    start: run,
    async stop() {
      stopping = true;
      callOff();
      await running;
    },
  };
}
