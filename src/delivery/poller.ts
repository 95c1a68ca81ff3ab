/**
 * What the message worker and the event worker share: how they poll for what is due (at its time, at a nudge, and once
 * in a while), the deadline of each call, and how they stop.
 */
import { inTime, type Instant, type System } from "../system.ts";

export interface PollerOptions {
  readonly system: Pick<System, "after">;
  /** The store's clock. */
  readonly now: () => Instant;
  /** When the next job is due; undefined when there is none. */
  readonly nextDue: () => Promise<Instant | undefined>;
  readonly hasRoom: () => boolean;
  /** Claims what is due, as far as there is room, and begins it. */
  readonly claim: () => Promise<void>;
  /** The pause before the next poll where something is due and was claimed, or has no room; in milliseconds. */
  readonly nextPollMs: () => number;
  /** Called with a fault of the worker's own. */
  readonly onFault: (error: unknown) => void;
}

export interface Poller {
  /** True once it was stopped. */
  readonly isStopping: boolean;
  /** Runs a task, and has a stop wait for it. What it rejects with is a fault. */
  begin(task: Promise<void>): unknown;
  /** Polls in so many milliseconds, unless it polls earlier anyway; once the poll that is under way is over. */
  pollIn(ms: number): void;
  /** Resolves after a while, or at a stop: a process that is done must not stay for its timers. */
  pause(ms: number): Promise<void>;
  /** Makes a call; resolves with `late`, and aborts its signal, once it has taken so long. Rejects as the call does. */
  withDeadline<T>(ms: number, call: (signal: AbortSignal) => Promise<T>, late: T): Promise<T>;
  /** Polls no more, and ends every pause. */
  stop(): void;
  /** Waits up to so long for the tasks that were begun, and for those that they begin. */
  drained(graceMs: number): Promise<void>;
  /** Ends the calls under way: their sockets would keep the process alive. */
  abortCalls(): void;
}

/** The longest pause between two polls. A nudge comes earlier where this process knows of something due. */
const pollMs = 1_000;

export function createPoller(options: PollerOptions): Poller {
  const { system, now, onFault } = options;
  /** All that was begun and is not done. */
  const underWay = new Set<Promise<void>>();
  const waits = createWaits(system);
  let pollAtMs = Number.POSITIVE_INFINITY;
  let isPolling = false;
  let cancelPoll = () => {};

  async function begin(task: Promise<void>): Promise<void> {
    underWay.add(task);
    try {
      await task;
    } catch (error) {
      onFault(error);
    } finally {
      underWay.delete(task);
    }
  }

  function pollIn(ms: number): void {
    const at = now() + Math.max(0, ms);
    if (poller.isStopping || at >= pollAtMs) return;
    pollAtMs = at;
    if (!isPolling) schedule();
  }

  function schedule(): void {
    cancelPoll();
    cancelPoll = system.after(Math.max(0, pollAtMs - now()), () => void begin(poll()));
  }

  async function poll(): Promise<void> {
    isPolling = true;
    pollAtMs = Number.POSITIVE_INFINITY;
    let nextMs = pollMs;
    try {
      const due = await options.nextDue();
      if (due !== undefined) nextMs = Math.max(0, Math.min(pollMs, due - now()));
      if (nextMs === 0 && !poller.isStopping && options.hasRoom()) await options.claim();
    } catch (error) {
      onFault(error);
      nextMs = pollMs;
    }
    pollIn(nextMs === 0 ? options.nextPollMs() : nextMs);
    isPolling = false;
    if (!poller.isStopping) schedule();
  }

  async function drain(): Promise<void> {
    // A task may begin more: a poll that was under way gives back what it claimed.
    while (underWay.size > 0) await Promise.allSettled(underWay);
  }

  const poller = {
    isStopping: false,
    begin,
    pollIn,
    pause: waits.pause,
    withDeadline: waits.withDeadline,
    stop() {
      poller.isStopping = true;
      cancelPoll();
      waits.endPauses();
    },
    drained: (graceMs: number) => inTime(system, graceMs, drain()),
    abortCalls: waits.abortCalls,
  };
  return poller;
}

/** Pauses and calls, which end at their time or all at once. */
function createWaits(system: Pick<System, "after">) {
  const pauses = new Set<() => void>();
  const calls = new Set<() => void>();
  return {
    pause(ms: number): Promise<void> {
      return new Promise((resolve) => {
        const end = () => {
          cancel();
          pauses.delete(end);
          resolve();
        };
        const cancel = system.after(ms, end);
        pauses.add(end);
      });
    },
    async withDeadline<T>(ms: number, call: (signal: AbortSignal) => Promise<T>, late: T): Promise<T> {
      const ended = new AbortController();
      const { promise: tooLong, resolve } = Promise.withResolvers<T>();
      const giveUp = () => {
        resolve(late);
        ended.abort();
      };
      const cancel = system.after(ms, giveUp);
      calls.add(giveUp);
      try {
        return await Promise.race([call(ended.signal), tooLong]);
      } finally {
        cancel();
        calls.delete(giveUp);
      }
    },
    endPauses(): void {
      for (const end of pauses) end();
    },
    abortCalls(): void {
      for (const giveUp of calls) giveUp();
    },
  };
}
