/**
 * What the message worker and the event worker have in common: they look for what is due, at its time, at a nudge and once
 * in a while; they run each call with a bound; and they stop.
 */
import { inTime, type Instant, type System } from "../system.ts";

export interface PollerOptions {
  readonly system: Pick<System, "after">;
  /** The store's clock. */
  readonly now: () => Instant;
  /** When the next of what there is to do is due; undefined when nothing is. */
  readonly nextDue: () => Promise<Instant | undefined>;
  readonly hasRoom: () => boolean;
  /** Claims what is due, as far as there is room, and begins it. */
  readonly claim: () => Promise<void>;
  /** The pause before the next look where something is due and was claimed, or has no room; in milliseconds. */
  readonly nextLookMs: () => number;
  /** Told of a fault of the worker's own. */
  readonly onFault: (error: unknown) => void;
}

export interface Poller {
  /** True once it was stopped. */
  readonly isStopping: () => boolean;
  /** Runs a task, and has a stop wait for it. What it rejects with is a fault. */
  begin(task: Promise<void>): void;
  /** Looks in so many milliseconds, unless it looks earlier anyway. */
  lookIn(ms: number): void;
  /** Resolves after a while, or at a stop: a process that is done must not stay for its timers. */
  pause(ms: number): Promise<void>;
  /** Makes a call; resolves with `late`, and aborts its signal, once it has taken so long. Rejects as the call does. */
  bounded<T>(ms: number, call: (signal: AbortSignal) => Promise<T>, late: T): Promise<T>;
  /** Looks no more, and ends every pause. */
  stop(): void;
  /** Waits up to so long for what was begun, and for what that begins. */
  drained(graceMs: number): Promise<void>;
  /** Ends the calls under way: their sockets would keep the process alive. */
  cutShort(): void;
}

/** The longest pause between two looks. A nudge comes earlier where this process knows of something due. */
const pollMs = 1_000;

export function createPoller(options: PollerOptions): Poller {
  const { system, now, onFault } = options;
  /** All that was begun and is not done. Nothing in it rejects. */
  const underWay = new Set<Promise<void>>();
  const waits = createWaits(system);
  let isStopping = false;
  let lookAtMs = Number.POSITIVE_INFINITY;
  let callOffLook = () => {};

  function begin(task: Promise<void>): void {
    const done = task.catch(onFault).finally(() => underWay.delete(done));
    underWay.add(done);
  }

  function lookIn(ms: number): void {
    if (isStopping) return;
    const waitMs = Math.max(0, ms);
    const at = now() + waitMs;
    if (at >= lookAtMs) return;
    callOffLook();
    lookAtMs = at;
    callOffLook = system.after(waitMs, () => begin(look()));
  }

  async function look(): Promise<void> {
    lookAtMs = Number.POSITIVE_INFINITY;
    let nextMs = pollMs;
    try {
      const due = await options.nextDue();
      if (due !== undefined) nextMs = Math.max(0, Math.min(pollMs, due - now()));
      if (nextMs === 0 && !isStopping && options.hasRoom()) await options.claim();
    } catch (error) {
      onFault(error);
      nextMs = pollMs;
    }
    lookIn(nextMs === 0 ? options.nextLookMs() : nextMs);
  }

  async function drain(): Promise<void> {
    // What was begun may begin more: a look that was under way gives back what it claimed.
    while (underWay.size > 0) await Promise.all(underWay);
  }

  return {
    isStopping: () => isStopping,
    begin,
    lookIn,
    pause: waits.pause,
    bounded: waits.bounded,
    stop() {
      isStopping = true;
      callOffLook();
      waits.endPauses();
    },
    drained: (graceMs) => inTime(system, graceMs, drain()),
    cutShort: waits.cutShort,
  };
}

/** Pauses and calls, which end at their time or all at once. */
function createWaits(system: Pick<System, "after">) {
  const pauses = new Set<() => void>();
  const calls = new Set<() => void>();
  return {
    pause(ms: number): Promise<void> {
      return new Promise((resolve) => {
        const end = () => {
          callOff();
          pauses.delete(end);
          resolve();
        };
        const callOff = system.after(ms, end);
        pauses.add(end);
      });
    },
    async bounded<T>(ms: number, call: (signal: AbortSignal) => Promise<T>, late: T): Promise<T> {
      const ended = new AbortController();
      const { promise: tooLong, resolve } = Promise.withResolvers<T>();
      const giveUp = () => {
        resolve(late);
        ended.abort();
      };
      const callOff = system.after(ms, giveUp);
      calls.add(giveUp);
      try {
        return await Promise.race([call(ended.signal), tooLong]);
      } finally {
        callOff();
        calls.delete(giveUp);
      }
    },
    endPauses(): void {
      for (const end of pauses) end();
    },
    cutShort(): void {
      for (const giveUp of calls) giveUp();
    },
  };
}
