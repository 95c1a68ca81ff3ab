/**
 * The worker takes messages from the outbox to a provider: claim with a lease → call, outside any transaction → settle. A
 * send hands its own message over, already claimed. What a crash or a pause left behind, the worker finds by polling. At
 * least once: see otp/message/message.ts.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { isDone, type Message } from "../otp/message/message.ts";
import { decideGiveUp, type Settled, type SettleView } from "../otp/decisions/settlement.ts";
import { capsOf, type PriceOf, type SpendWarnings } from "../otp/decisions/spending.ts";
import type { Verification } from "../otp/verification/verification.ts";
import type { Job } from "../store/store.ts";
import type { System } from "../system.ts";
import { claimFallbacks, type FallbackTools } from "./fallbacks.ts";
import { createDispatcher, type DispatcherOptions } from "./dispatcher.ts";
import { createPoller } from "./poller.ts";
import { callsAtOnceMax } from "./provider.ts";

export interface WorkerOptions extends DispatcherOptions, Pick<FallbackTools, "channelsOn"> {
  readonly system: System;
  /** Provider calls at once; `callsAtOnceMax` unless given. */
  readonly callsMax?: number;
  /** Tells what a message may cost; absent without prices. */
  readonly priceOf?: PriceOf | undefined;
  /** Called with each message that is claimed; the shares of caps that it reached are in it, once a tenant and day. */
  readonly onSpendWarnings: (tenant: string, warnings: SpendWarnings) => void;
  /** Called with each message that is owed by fallback and committed. */
  readonly onFallback?: ((job: Job) => void) | undefined;
  /** Called with a fault of the worker's own. */
  readonly onFault: (error: unknown) => void;
}

export interface Worker {
  /** Delivers a claimed message; resolves once it is settled for good, or with undefined after `waitMs`. Never rejects. */
  deliver(job: Job, waitMs: number): Promise<Settled | undefined>;
  /** Looks at the outbox at once. */
  nudge(): void;
  /** Begins to poll for messages that nobody has in hand. */
  start(): void;
  /** Ends the wait of every `deliver`, now and from now on: sends under way are answered as things stand. */
  endWaits(): void;
  /** Takes no more, waits up to `graceMs` for calls under way, and gives the rest back unsent. */
  stop(graceMs: number): Promise<void>;
}

/** Messages in hand that wait to be called; further ones go back to the outbox. */
const waitingMax = 1024;
/** The pause between two polls while every call is taken. */
const fullPollMs = 50;

export function createWorker(options: WorkerOptions): Worker {
  const { store, system, tenantOf, phoneOf, refreshTenants, callsMax = callsAtOnceMax } = options;
  const listeners = createListeners(system);
  const poller = createPoller({
    system,
    now: () => store.now(),
    nextDue: () => store.nextDue(),
    hasRoom: () => queue.free() > 0,
    claim,
    nextPollMs: () => (queue.isFull() ? fullPollMs : 0),
    onFault: options.onFault,
  });
  const dispatcher = createDispatcher(options, poller);
  const queue = createJobQueue({ runningMax: callsMax, run, runLate, begin: poller.begin });
  const billOf = (verification: Verification, { channel }: Message) => ({
    caps: capsOf(verification.tenant, { region: verification.region, channel }, tenantOf(verification.tenant).policy),
    price: () => options.priceOf?.(verification, channel),
  });
  const decideLate = (view: SettleView) => decideGiveUp(view, tenantOf(view.verification.tenant).policy);

  async function claim(): Promise<void> {
    await refreshTenants();
    try {
      takeAll(await store.claimMessages(Math.min(queue.free(), callsMax), phoneOf, decideLate, billOf));
    } finally {
      // They must not wait for a message that cannot be claimed.
      const owed = await claimFallbacks(options, Math.min(queue.free(), callsMax));
      for (const job of owed) options.onFallback?.(job);
      takeAll(owed);
    }
  }

  function takeAll(jobs: readonly Job[]): void {
    for (const job of jobs) {
      options.onSpendWarnings(job.verification.tenant, job);
      take({ ...job, callId: listeners.callOf(job) });
    }
  }

  function take(job: Job): void {
    if (poller.isStopping || !queue.add(job)) poller.begin(store.releaseMessages([job]));
  }

  async function run(job: Job): Promise<void> {
    const settled = await dispatcher.dispatch(job);
    const fallbackMs = settled?.verification.fallback?.dueMs ?? null;
    if (fallbackMs !== null) poller.pollIn(fallbackMs - store.now());
    if (settled === undefined || isDone(settled.message)) listeners.tell(job, settled);
    else poller.pollIn((settled.message.dueMs ?? 0) - store.now());
  }

  /** Runs a job that had to wait. It goes back if its claim would not outlast the call, or its message is not owed any more. */
  async function runLate(job: Job): Promise<void> {
    if (await dispatcher.isStillOwed(job)) return run(job);
    await store.releaseMessages([job]);
    poller.pollIn(0);
  }

  return {
    deliver(job, waitMs) {
      const heard = listeners.hear(job, waitMs);
      take(job);
      return heard;
    },
    nudge: () => poller.pollIn(0),
    start: () => poller.pollIn(0),
    endWaits: listeners.close,
    async stop(graceMs) {
      poller.stop();
      const unsent = queue.clear();
      if (unsent.length > 0) poller.begin(store.releaseMessages(unsent));
      await poller.drained(graceMs);
      // Calls that are still under way are not recorded any more: their leases end, and others claim them.
      poller.abortCalls();
      listeners.close();
    },
  };
}

interface JobQueueOptions {
  /** Jobs that run at once. */
  readonly runningMax: number;
  /** Runs a job that found room at once. */
  readonly run: (job: Job) => Promise<void>;
  /** Runs a job that had to wait. */
  readonly runLate: (job: Job) => Promise<void>;
  /** Has a stop wait for a task. */
  readonly begin: (task: Promise<void>) => unknown;
}

/** Jobs that run, so many at once, and jobs that wait for one of those to end. */
function createJobQueue({ runningMax, run, runLate, begin }: JobQueueOptions) {
  /** Each resumes where its job came from: in a trace it is a part of its own call. */
  const waiting: { readonly job: Job; readonly resume: (go: () => void) => void }[] = [];
  let running = 0;

  /** Runs a job, then begins the next one that waits. */
  async function runThenNext(job: Job, runJob: (job: Job) => Promise<void>): Promise<void> {
    running += 1;
    try {
      await runJob(job);
    } finally {
      running -= 1;
      const next = waiting.shift();
      next?.resume(() => begin(runThenNext(next.job, runLate)));
    }
  }

  return {
    /** How many more jobs would be added. */
    free: () => runningMax + waitingMax - running - waiting.length,
    /** True while a job that is added would have to wait. */
    isFull: () => running >= runningMax,
    /** Begins a job, or has it wait; false where there is no room. */
    add(job: Job): boolean {
      if (waiting.length >= waitingMax) return false;
      if (running >= runningMax) waiting.push({ job, resume: AsyncLocalStorage.snapshot() });
      else begin(runThenNext(job, run));
      return true;
    },
    /** Takes out the jobs that wait. */
    clear: () => waiting.splice(0).map(({ job }) => job),
  };
}

interface Listener {
  readonly resolve: (settled?: Settled) => void;
  readonly cancel: () => void;
  readonly callId: string | undefined;
}

/** Those who wait to hear of a message. */
function createListeners(system: Pick<System, "after">) {
  const listeners = new Map<string, Listener>();
  const nobody = Promise.resolve(undefined);
  let isClosed = false;

  const nameOf = ({ message: { verificationId, copy } }: Job) => `${verificationId}/${copy}`;

  function tell(job: Job, settled?: Settled): void {
    const name = nameOf(job);
    const listener = listeners.get(name);
    if (listener === undefined) return;
    listeners.delete(name);
    listener.cancel();
    listener.resolve(settled);
  }

  return {
    tell,
    /** Resolves with what became of a message, or with undefined after `waitMs`. */
    hear(job: Job, waitMs: number): Promise<Settled | undefined> {
      if (waitMs <= 0 || isClosed) return nobody;
      const { promise, resolve } = Promise.withResolvers<Settled | undefined>();
      // A resend that another instance found unsent leaves its place to the next one, and its call still waits.
      tell(job);
      const cancel = system.after(waitMs, () => tell(job));
      listeners.set(nameOf(job), { resolve, cancel, callId: job.callId });
      return promise;
    },
    /** The call that waits to hear of a message, by its id. */
    callOf: (job: Job) => listeners.get(nameOf(job))?.callId,
    /** Nobody waits any more. */
    close: (): void => {
      isClosed = true;
      for (const { cancel, resolve } of listeners.values()) {
        cancel();
        resolve();
      }
      listeners.clear();
    },
  };
}
