/**
 * The worker carries messages from the outbox to a provider: claim with a lease → call, outside any transaction →
 * settle. A send's own message comes to it in hand, already claimed; what a crash or a pause left behind it finds by
 * polling. At least once: see otp/message.ts.
 */
import { dailyMaxOf, type Share } from "../otp/daily-cap.ts";
import { isDone } from "../otp/message.ts";
import { decideGiveUp, type Settled, type SettleView } from "../otp/settlement.ts";
import type { Job } from "../store/store.ts";
import type { System } from "../system.ts";
import { createCarrier, type CarrierOptions } from "./dispatcher.ts";
import { createPoller } from "./poller.ts";
import { createTurns } from "./job-queue.ts";

export interface WorkerOptions extends CarrierOptions {
  readonly system: System;
  /** Brings what `tenantOf` knows up to date; asked before messages are claimed from the outbox. */
  readonly refreshTenants: () => Promise<void>;
  /** Provider calls at once; 256 unless given. */
  readonly callsMax?: number;
  /** Told once a tenant and day that a share of its daily cap is reached. */
  readonly onDailyShare: (tenant: string, share: Share) => void;
  /** Told of a fault of the worker's own. */
  readonly onFault: (error: unknown) => void;
}

export interface Worker {
  /** Carries a claimed message; resolves once it is settled for good, or with undefined after `waitMs`. Never rejects. */
  deliver(job: Job, waitMs: number): Promise<Settled | undefined>;
  /** Looks at the outbox at once. */
  nudge(): void;
  /** Begins to look for messages that nobody has in hand. */
  start(): void;
  /** From now on nobody waits to hear of a message: sends under way are answered as things stand. */
  hurry(): void;
  /** Takes no more, waits up to `graceMs` for calls under way, and gives the rest back unsent. */
  stop(graceMs: number): Promise<void>;
}

/** Provider calls at once: with a provider that takes 300 ms, 850 messages a second. */
const defaultCallsMax = 256;
/** Messages in hand that wait for their turn to be called; further ones go back to the outbox. */
const waitingMax = 1024;
/** With a full house there is nothing to look for sooner. */
const fullLookMs = 50;

export function createWorker(options: WorkerOptions): Worker {
  const { store, system, tenantOf, phoneOf, refreshTenants, callsMax = defaultCallsMax } = options;
  const listeners = createListeners(system);
  const poller = createPoller({
    system,
    now: () => store.now(),
    nextDue: () => store.nextDue(),
    hasRoom: () => turns.free() > 0,
    claim,
    nextLookMs: () => (turns.isFull() ? fullLookMs : 0),
    onFault: options.onFault,
  });
  const carrier = createCarrier(options, poller);
  const turns = createTurns({ placesMax: callsMax, waitingMax, work: carry, workLate: carryLate, begin: poller.begin });
  const capOf = (tenant: string) => dailyMaxOf(tenant, tenantOf(tenant).policy);
  const decideLate = (view: SettleView) => decideGiveUp(view, tenantOf(view.verification.tenant).policy);

  async function claim(): Promise<void> {
    await refreshTenants();
    const jobs = await store.claimMessages(Math.min(turns.free(), callsMax), phoneOf, decideLate, capOf);
    for (const job of jobs) {
      if (job.share !== undefined) options.onDailyShare(job.verification.tenant, job.share);
      take(job);
    }
  }

  function take(job: Job): void {
    if (poller.isStopping() || !turns.take(job)) poller.begin(store.releaseMessages([job]));
  }

  async function carry(job: Job): Promise<void> {
    const settled = await carrier.carry(job);
    if (settled === undefined || isDone(settled.message)) listeners.tell(job, settled);
    else poller.lookIn((settled.message.dueMs ?? 0) - store.now());
  }

  /** Carries a message that had to wait for its turn. It goes back if its claim would not outlast the call, or is moot. */
  async function carryLate(job: Job): Promise<void> {
    await refreshTenants();
    if (await carrier.isStillOwed(job)) return carry(job);
    await store.releaseMessages([job]);
    poller.lookIn(0);
  }

  return {
    deliver(job, waitMs) {
      const heard = listeners.hear(job, waitMs);
      take(job);
      return heard;
    },
    nudge: () => poller.lookIn(0),
    start: () => poller.lookIn(0),
    hurry: () => listeners.close(),
    async stop(graceMs) {
      poller.stop();
      const unsent = turns.dismiss();
      if (unsent.length > 0) poller.begin(store.releaseMessages(unsent));
      await poller.drained(graceMs);
      // What is not noted of the calls under way any more is left to the end of the lease.
      poller.cutShort();
      listeners.close();
    },
  };
}

/** Those who wait to hear of a message. */
function createListeners(system: Pick<System, "after">) {
  const listeners = new Map<string, (settled: Settled | undefined) => void>();
  const nobody = Promise.resolve(undefined);
  let isClosed = false;
  return {
    /** Resolves with what became of a message, or with undefined after `waitMs`. */
    hear(job: Job, waitMs: number): Promise<Settled | undefined> {
      if (waitMs <= 0 || isClosed) return nobody;
      return new Promise((resolve) => {
        const name = nameOf(job);
        const hear = (settled: Settled | undefined) => {
          callOff();
          listeners.delete(name);
          resolve(settled);
        };
        const callOff = system.after(waitMs, () => hear(undefined));
        listeners.set(name, hear);
      });
    },
    tell(job: Job, settled: Settled | undefined): void {
      listeners.get(nameOf(job))?.(settled);
    },
    /** Nobody waits any more. */
    close(): void {
      isClosed = true;
      for (const hear of listeners.values()) hear(undefined);
    },
  };
}

function nameOf({ message }: Job): string {
  return `${message.verificationId}/${message.copy}`;
}
