/**
 * Places for calls: so many at once, and so many jobs that wait for one.
 */
import { AsyncLocalStorage } from "node:async_hooks";

export interface TurnsOptions<Job> {
  /** Jobs at work at once. */
  readonly placesMax: number;
  /** Jobs that wait for a place. */
  readonly waitingMax: number;
  /** Does a job that found a place at once. */
  readonly work: (job: Job) => Promise<void>;
  /** Does a job that had to wait for its place. */
  readonly workLate: (job: Job) => Promise<void>;
  /** Has a stop wait for a task. */
  readonly begin: (task: Promise<void>) => void;
}

export interface Turns<Job> {
  /** How many more jobs would be taken. */
  readonly free: () => number;
  /** True while no place is left for a call. */
  readonly isFull: () => boolean;
  /** Begins a job, or has it wait; false where there is no room. */
  take(job: Job): boolean;
  /** Lets go of those that wait, and tells which they are. */
  dismiss(): Job[];
}

export function createTurns<Job>({ placesMax, waitingMax, work, workLate, begin }: TurnsOptions<Job>): Turns<Job> {
  /** Each resumes where its job came from: in a trace it is a part of its own call. */
  const waiting: { readonly job: Job; readonly resume: (go: () => void) => void }[] = [];
  let taken = 0;

  /** Takes a place, and hands it on to the next job that waits. */
  async function occupy(job: Job, todo: (job: Job) => Promise<void>): Promise<void> {
    taken += 1;
    try {
      await todo(job);
    } finally {
      taken -= 1;
      const next = waiting.shift();
      next?.resume(() => begin(occupy(next.job, workLate)));
    }
  }

  return {
    free: () => placesMax + waitingMax - taken - waiting.length,
    isFull: () => taken >= placesMax,
    take(job) {
      if (waiting.length >= waitingMax) return false;
      if (taken >= placesMax) waiting.push({ job, resume: AsyncLocalStorage.snapshot() });
      else begin(occupy(job, work));
      return true;
    },
    dismiss: () => waiting.splice(0).map(({ job }) => job),
  };
}
