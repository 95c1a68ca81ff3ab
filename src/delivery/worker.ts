/**
 * The worker carries messages from the outbox to a provider: claim with a lease → call, outside any transaction →
 * settle. A send's own message comes to it in hand, already claimed; what a crash or a pause left behind it finds by
 * polling. At least once: see otp/message.ts.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { deriveCode } from "../otp/code.ts";
import type { KeyRing } from "../otp/key-ring.ts";
import { isDone, renderText, type SendOutcome } from "../otp/message.ts";
import { openPhone } from "../otp/phone-number.ts";
import type { Policy } from "../otp/policy.ts";
import { referenceOf } from "../otp/reference.ts";
import { decideSettle, type Settled } from "../otp/settlement.ts";
import type { Verification } from "../otp/verification.ts";
import type { Job, PhoneRef, Store } from "../store/store.ts";
import type { Provider } from "./provider.ts";
import { isSandbox, sandboxSend } from "../otp/sandbox.ts";

export interface WorkerOptions {
  readonly store: Store;
  readonly keys: KeyRing;
  readonly policy: Policy;
  readonly brand: string;
  /** The ways out, in the order they are tried; at least one. */
  readonly providers: readonly Provider[];
  readonly phoneOf: (verification: Verification) => PhoneRef;
  /** Told of each provider call, for logs and metrics. */
  readonly onCall: (provider: string, outcome: SendOutcome, durationMs: number) => void;
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
  /** Takes no more, waits up to `graceMs` for calls under way, and gives the rest back unsent. */
  stop(graceMs: number): Promise<void>;
}

/** The only way out of the sandbox: nowhere. */
const sandboxOnly: readonly Provider[] = [{ name: "sandbox", send: async (sms) => sandboxSend(sms.to) }];

/** Provider calls at once. */
const callsMax = 64;
/** Messages in hand that wait for their turn to be called; further ones go back to the outbox. */
const waitingMax = 1024;
/** A provider that has not answered by then may have sent the text or not. */
const callTimeoutMs = 5_000;
/** The longest pause between two looks at the outbox. A nudge comes earlier where this process knows of something due. */
const pollMs = 1_000;

export function createWorker(options: WorkerOptions): Worker {
  const { store, keys, policy, brand, providers, phoneOf, onCall, onFault } = options;
  const waiting: Job[] = [];
  const calling = new Set<Promise<void>>();
  /** Those who wait to hear of a message, by verification and copy. */
  const listeners = new Map<string, (settled: Settled | undefined) => void>();
  let stopping = false;
  let timer: NodeJS.Timeout | undefined;

  function take(job: Job): void {
    if (calling.size < callsMax) {
      const carried = carry(job)
        .catch(onFault)
        .finally(() => {
          calling.delete(carried);
          const next = waiting.shift();
          if (next !== undefined) take(next);
        });
      calling.add(carried);
    } else if (waiting.length < waitingMax) {
      waiting.push(job);
    } else {
      store.releaseMessages([job]).catch(onFault);
    }
  }

  async function carry(job: Job): Promise<void> {
    const ways = isSandbox(job.verification.tenant) ? sandboxOnly : providers;
    const provider = ways[job.message.providerIndex % ways.length];
    if (provider === undefined) throw new Error("a worker has at least one provider");
    const outcome = await call(provider, job);
    const settled = await settle(job, outcome, provider.name, ways.length);
    if (settled === undefined) return;
    if (isDone(settled.message)) listeners.get(nameOf(job))?.(settled);
    else wakeIn((settled.message.dueMs ?? 0) - store.now());
  }

  async function call(provider: Provider, job: Job): Promise<SendOutcome> {
    const { verification } = job;
    const code = deriveCode(keys, verification);
    if (code === undefined) return { kind: "refused", cause: "content", detail: "the code is gone" };
    const lifeLeftMs = verification.expireMs - job.now;
    const key = keys.find(verification.kid) ?? keys.current;
    const sms = {
      region: verification.region,
      reference: referenceOf(key, verification.id, job.message.copy),
      to: openPhone(keys, verification.kid, verification.id, verification.phoneBox),
      text: renderText(code, brand, lifeLeftMs),
      validitySeconds: Math.floor(lifeLeftMs / 1000),
    };
    const startMs = store.now();
    const signal = AbortSignal.timeout(callTimeoutMs);
    const outcome = await Promise.race([provider.send(sms, signal), aborted(signal)]).catch(
      // What a provider throws may quote the request, so its text goes nowhere.
      (): SendOutcome => ({ kind: "ambiguous", detail: "the provider's adapter failed" }),
    );
    onCall(provider.name, outcome, store.now() - startMs);
    return outcome;
  }

  /** Notes an outcome. While the store is unavailable the message stays claimed, and is tried for until its lease ends. */
  async function settle(job: Job, outcome: SendOutcome, provider: string, ways: number): Promise<Settled | undefined> {
    for (let waitMs = 50; ; waitMs *= 2) {
      try {
        return await store.settleMessage(job.message, phoneOf, (view) =>
          decideSettle(view, outcome, provider, ways, policy),
        );
      } catch (error) {
        if (stopping || store.now() + waitMs >= (job.message.dueMs ?? 0)) throw error;
        await sleep(waitMs);
      }
    }
  }

  async function look(): Promise<void> {
    timer = undefined;
    let nextMs = pollMs;
    try {
      const due = await store.nextDue();
      const free = callsMax + waitingMax - calling.size - waiting.length;
      if (!stopping && due !== undefined && due <= store.now() && free > 0) {
        for (const job of await store.claimMessages(Math.min(free, callsMax))) take(job);
        nextMs = 0;
      } else if (due !== undefined) {
        nextMs = Math.max(0, Math.min(pollMs, due - store.now()));
      }
    } catch (error) {
      onFault(error);
    }
    wakeIn(nextMs === 0 && calling.size >= callsMax ? 50 : nextMs);
  }

  let wakeAtMs = Number.POSITIVE_INFINITY;
  function wakeIn(ms: number): void {
    if (stopping) return;
    const at = store.now() + Math.max(0, ms);
    if (timer !== undefined && at >= wakeAtMs) return;
    clearTimeout(timer);
    wakeAtMs = at;
    timer = setTimeout(() => void look(), Math.max(0, ms));
  }

  return {
    deliver(job, waitMs) {
      if (waitMs <= 0) {
        take(job);
        return Promise.resolve(undefined);
      }
      return new Promise((resolve) => {
        const name = nameOf(job);
        const hear = (settled: Settled | undefined) => {
          clearTimeout(timeout);
          listeners.delete(name);
          resolve(settled);
        };
        const timeout = setTimeout(() => hear(undefined), waitMs);
        listeners.set(name, hear);
        take(job);
      });
    },
    nudge() {
      wakeIn(0);
    },
    start() {
      wakeIn(0);
    },
    async stop(graceMs) {
      stopping = true;
      clearTimeout(timer);
      const unsent = waiting.splice(0);
      if (unsent.length > 0) await store.releaseMessages(unsent).catch(onFault);
      await Promise.race([Promise.all(calling), sleep(graceMs, undefined, { ref: false })]);
      for (const hear of listeners.values()) hear(undefined);
    },
  };
}

function nameOf({ message }: Job): string {
  return `${message.verificationId}/${message.copy}`;
}

function aborted(signal: AbortSignal): Promise<SendOutcome> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve({ kind: "ambiguous", detail: "no answer in time" }), { once: true });
  });
}
