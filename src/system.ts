/**
 * The only clock and the only source of chance. Both travel as arguments from here: nothing else in `src/` may ask the
 * time or draw a random number (`npm run check` holds that). Timers of the service's own are here too, so that a test can
 * move days in a second; timeouts of sockets and files are with those.
 */
import { randomFillSync } from "node:crypto";

/** A point in time, in whole milliseconds since the Unix epoch. */
export type Instant = number;

export const secondMs = 1_000;
export const minuteMs = 60_000;
export const hourMs = 3_600_000;
export const dayMs = 86_400_000;

/** An instant as people and programs read it: RFC 3339, in UTC, to the millisecond. */
export function timeOf(instant: Instant): string;
export function timeOf(instant: Instant | null): string | null;
export function timeOf(instant: Instant | null): string | null {
  return instant === null ? null : new Date(instant).toISOString();
}

/** Time that never runs backwards, timers, and randomness from the operating system. */
export interface System {
  /** The time now. Never less than an earlier answer, even if the machine's clock is set back. */
  now(): Instant;
  /** Milliseconds with fractions on the clock that cannot be set; its zero means nothing. */
  monotonicMs(): number;
  /**
   * Raises the clock to at least `instant`, so that time does not run backwards across a restart. A machine's clock that
   * is behind `instant` was set back while nothing ran: that is reported as a jump.
   */
  resumeFrom(instant: Instant): void;
  /** Runs `act` once, when `ms` (0 or more) have passed on the clock that cannot be set. Returns what cancels it. */
  after(ms: number, act: () => void): () => void;
  /** `count` bytes from a CSPRNG. */
  randomBytes(count: number): Uint8Array<ArrayBuffer>;
}

/** The two clocks of a machine: one that can be set, one that only advances. Both in milliseconds. */
export interface RawClock {
  wallMs(): number;
  monotonicMs(): number;
}

const machineClock: RawClock = {
  wallMs: Date.now,
  monotonicMs: performance.now.bind(performance),
};

/** Milliseconds with fractions on the clock that only advances: to measure durations, and to decide nothing. */
export const stopwatchMs: () => number = machineClock.monotonicMs;

/** What the process has taken of the processor so far, in milliseconds, its threads included: to measure, and to decide nothing of a call. */
export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Smaller jumps are NTP at work, and no warning. */
const jumpWarnMs = 2_000;

/**
 * The real system. While the wall clock is behind an earlier answer (someone set it back), time goes on from that answer at
 * the pace of the monotonic clock: an expired code must not come back to life, and a limit must not stretch. A frozen clock
 * was the alternative: codes would live for as long as the clock is wrong.
 */
export function createSystem(onClockJump: (jumpMs: number) => void = () => {}, clock: RawClock = machineClock): System {
  let last = Math.floor(clock.wallMs());
  let lastMonotonic = clock.monotonicMs();
  let offset = clock.wallMs() - lastMonotonic;
  return {
    now() {
      const wall = clock.wallMs();
      const monotonic = clock.monotonicMs();
      const jump = wall - monotonic - offset;
      if (jump > jumpWarnMs || jump < -jumpWarnMs) {
        offset += jump;
        onClockJump(Math.round(jump));
      }
      last = Math.max(Math.floor(wall), last + Math.floor(monotonic - lastMonotonic));
      // Fractions of a millisecond carry over: rounded down at each step, a busy clock would run slow.
      lastMonotonic += Math.floor(monotonic - lastMonotonic);
      return last;
    },
    monotonicMs: () => clock.monotonicMs(),
    resumeFrom(instant) {
      // The clock was set back while the service was down: only the database shows that.
      if (instant - last > jumpWarnMs) onClockJump(last - instant);
      last = Math.max(last, instant);
    },
    after(ms, act) {
      const timer = setTimeout(act, ms);
      return () => clearTimeout(timer);
    },
    randomBytes: drawFromPool,
  };
}

/** So many random bytes, in base64url. */
export function randomText(system: Pick<System, "randomBytes">, bytes: number): string {
  const { buffer, byteOffset, length } = system.randomBytes(bytes);
  return Buffer.from(buffer, byteOffset, length).toString("base64url");
}

/** Resolves once `ms` have passed. */
export function sleep(system: System, ms: number): Promise<void> {
  return new Promise((resolve) => void system.after(ms, resolve));
}

/** What a promise resolves with; undefined once `ms` have passed without it. */
export async function inTime<T>(
  system: Pick<System, "after">,
  ms: number,
  promise: Promise<T>,
): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>();
  const cancel = system.after(ms, () => late.resolve(undefined));
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    cancel();
  }
}

export interface Recurring {
  /** Runs it at once, and from then on. */
  start(): void;
  /** Runs it no more; resolves once a run under way is done. */
  stop(): Promise<void>;
}

/**
 * Makes a task recur, each time `everyMs` after the last run's end. A rejection is a fault, and the task goes on. `act` may
 * ask whether it is to stop.
 */
export function recurring(
  system: Pick<System, "after">,
  everyMs: number,
  act: (isStopping: () => boolean) => Promise<void>,
  onFault: (error: unknown) => void,
): Recurring {
  let stopping = false;
  let cancel = () => {};
  let running: Promise<void> = Promise.resolve();

  async function once(): Promise<void> {
    try {
      await act(() => stopping);
    } catch (error) {
      onFault(error);
    }
    if (!stopping) cancel = system.after(everyMs, run);
  }

  function run(): void {
    running = once();
  }

  return {
    start: run,
    async stop() {
      stopping = true;
      cancel();
      await running;
    },
  };
}

/**
 * Random bytes are drawn 4 KiB at a time: a system call per id and salt costs 1.6 µs, a slice of the pool 0.05 µs. Bytes
 * that were drawn are erased from the pool.
 */
const pool = new Uint8Array(4096);
let poolUsed = pool.length;

function drawFromPool(count: number): Uint8Array<ArrayBuffer> {
  if (count > pool.length) return randomFillSync(new Uint8Array(count));
  if (poolUsed + count > pool.length) {
    randomFillSync(pool);
    poolUsed = 0;
  }
  const drawn = pool.slice(poolUsed, poolUsed + count);
  pool.fill(0, poolUsed, poolUsed + count);
  poolUsed += count;
  return drawn;
}
