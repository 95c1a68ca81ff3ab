/**
 * The worker carries messages from the outbox to a provider: claim with a lease → call, outside any transaction →
 * settle. A send's own message comes to it in hand, already claimed; what a crash or a pause left behind it finds by
 * polling. At least once: see otp/message.ts.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Channel } from "../otp/channel.ts";
import { deriveCode } from "../otp/code.ts";
import { dailyMaxOf, type Share } from "../otp/daily-cap.ts";
import type { KeyRing } from "../otp/key-ring.ts";
import { isDone, isInHand, type EndedCall, type SendOutcome } from "../otp/message.ts";
import { openPhone } from "../otp/phone-number.ts";
import type { TenantOf } from "../otp/tenant.ts";
import { referenceOf } from "../otp/reference.ts";
import { decideGiveUp, decideSettle, type Settled, type SettleView } from "../otp/settlement.ts";
import { renderText } from "../otp/template/template.ts";
import { stateAt } from "../otp/verification.ts";
import type { Job, PhoneOf, Store } from "../store/store.ts";
import { inTime, type Instant, type System } from "../system.ts";
import { isSandbox, sandboxSend } from "../otp/sandbox.ts";
import type { Provider, OutgoingMessage } from "./provider.ts";

export interface WorkerOptions {
  readonly store: Store;
  readonly system: System;
  readonly keys: KeyRing;
  readonly tenantOf: TenantOf;
  /** The providers of a channel, in the order they are tried. */
  readonly providersOf: (channel: Channel) => readonly Provider[];
  readonly phoneOf: PhoneOf;
  /** Brings what `tenantOf` knows up to date; asked before messages are claimed from the outbox. */
  readonly refreshTenants: () => Promise<void>;
  /** Provider calls at once; 256 unless given. */
  readonly callsMax?: number;
  /** Told of each provider call that began at `startMs`, for logs and metrics. */
  readonly onCall: (provider: string, outcome: SendOutcome, durationMs: number, job: Job, startMs: Instant) => void;
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

/** The only way out of the sandbox: nowhere. */
const sandboxOnly: readonly Provider[] = [{ name: "sandbox", send: async (sms) => sandboxSend(sms.to) }];

/** Where a message goes whose channel has no provider here: it is of an instance that has one. */
const nobody: Provider = {
  name: "none",
  send: async () => ({ kind: "refused", cause: "content", detail: "no provider of this channel is configured" }),
};

/** Provider calls at once: with a provider that takes 300 ms, 850 messages a second. */
const defaultCallsMax = 256;
/** Messages in hand that wait for their turn to be called; further ones go back to the outbox. */
const waitingMax = 1024;
/** A provider that has not answered by then may have sent the text or not. */
const callTimeoutMs = 5_000;
/** The longest pause between two looks at the outbox. A nudge comes earlier where this process knows of something due. */
const pollMs = 1_000;

export function createWorker(options: WorkerOptions): Worker {
  const { store, system, keys, tenantOf, providersOf, phoneOf, refreshTenants, onCall, onDailyShare, onFault } =
    options;
  const { callsMax = defaultCallsMax } = options;
  const capOf = (tenant: string) => dailyMaxOf(tenant, tenantOf(tenant).policy);
  /** Each with what takes up again the thread of events that it came in: for traces, it is a part of its own call. */
  const waiting: { readonly job: Job; readonly resume: (go: () => void) => void }[] = [];
  let calls = 0;
  /** All that was begun and is not done, for a stop to wait for. Nothing in it rejects. */
  const underWay = new Set<Promise<void>>();
  /** Those who wait to hear of a message, by verification and copy. */
  const listeners = new Map<string, (settled: Settled | undefined) => void>();
  /** What is to be cut short when the worker is done waiting: each ends one pause or one call. */
  const pauses = new Set<() => void>();
  const openCalls = new Set<() => void>();
  let stopping = false;
  let hurrying = false;

  function begin(task: Promise<void>): void {
    const done = task.catch(onFault).finally(() => underWay.delete(done));
    underWay.add(done);
  }

  function take(job: Job): void {
    if (stopping || waiting.length >= waitingMax) begin(store.releaseMessages([job]));
    else if (calls >= callsMax) waiting.push({ job, resume: AsyncLocalStorage.snapshot() });
    else begin(occupy(() => carry(job)));
  }

  /** Takes one of the places for calls, and hands it on to the next message that waits. */
  async function occupy(work: () => Promise<void>): Promise<void> {
    calls += 1;
    try {
      await work();
    } finally {
      calls -= 1;
      const next = waiting.shift();
      next?.resume(() => begin(occupy(() => carryLate(next.job))));
    }
  }

  /** Carries a message that had to wait for its turn. It goes back if its claim would not outlast the call, or is moot. */
  async function carryLate(job: Job): Promise<void> {
    const { message, verification } = job;
    await refreshTenants();
    const current = await store.readVerification(verification.tenant, verification.id);
    const now = store.now();
    const stillOwed = current !== undefined && stateAt(current, now) === "PENDING" && now < message.deadlineMs;
    if (stillOwed && now + callTimeoutMs < (message.dueMs ?? 0)) return carry(job);
    await store.releaseMessages([job]);
    wakeIn(0);
  }

  async function carry(job: Job): Promise<void> {
    const { channel, providerIndex } = job.message;
    const providers = isSandbox(job.verification.tenant) ? sandboxOnly : providersOf(channel);
    const provider = providers[providerIndex % providers.length] ?? nobody;
    const outcome = await call(provider, job);
    const settled = await settle(job, { outcome, provider: provider.name, providers: providers.length });
    if (settled === undefined || isDone(settled.message)) listeners.get(nameOf(job))?.(settled);
    else wakeIn((settled.message.dueMs ?? 0) - store.now());
  }

  async function call(provider: Provider, job: Job): Promise<SendOutcome> {
    const { verification } = job;
    const code = deriveCode(keys, verification);
    if (code === undefined) return { kind: "refused", cause: "content", detail: "the code is gone" };
    const startMs = store.now();
    const lifeLeftMs = verification.expireMs - startMs;
    const key = keys.find(verification.kid) ?? keys.current;
    const { brand, templates, isDisabled, policy } = tenantOf(verification.tenant);
    if (isDisabled) return { kind: "refused", cause: "content", detail: "the tenant is disabled" };
    const template = templates.templateFor(verification);
    const { dltTemplateId, dltEntityId } = template;
    const { purpose, webOrigin, appHash } = verification;
    const outgoing: OutgoingMessage = {
      channel: job.message.channel,
      region: verification.region,
      reference: referenceOf(key, verification.id, job.message.copy),
      to: openPhone(keys, verification.kid, verification.id, verification.phoneBox),
      text: renderText(template, { code, brand, purpose, lifeLeftMs, webOrigin, appHash }),
      validitySeconds: Math.floor(lifeLeftMs / 1000),
      ...(verification.digits > policy.codeLength ? { isLengthened: true } : {}),
      ...(dltTemplateId === undefined ? {} : { dltTemplateId }),
      ...(dltEntityId === undefined ? {} : { dltEntityId }),
    };
    const outcome = await answerOf(provider, outgoing);
    onCall(provider.name, outcome, store.now() - startMs, job, startMs);
    return outcome;
  }

  /** Notes an outcome. While the store is unavailable the message stays claimed, and is tried for until its lease ends. */
  async function settle(job: Job, ended: EndedCall): Promise<Settled | undefined> {
    const { policy } = tenantOf(job.verification.tenant);
    for (let waitMs = 50; ; waitMs *= 2) {
      try {
        return await store.settleMessage(job.message, phoneOf, (view) =>
          ended.outcome.kind === "accepted" || isInHand(job.message, view.message)
            ? decideSettle(view, ended, policy)
            : { writes: {}, result: view },
        );
      } catch (error) {
        if (stopping || store.now() + waitMs >= (job.message.dueMs ?? 0)) throw error;
        await pause(waitMs);
      }
    }
  }

  /** Resolves after a while, or when the worker is stopped: a process that is done must not stay for its timers. */
  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        callOff();
        pauses.delete(end);
        resolve();
      };
      const callOff = system.after(ms, end);
      pauses.add(end);
    });
  }

  /** A provider's answer, or an ambiguous outcome when it throws or takes too long. Never rejects. */
  async function answerOf(provider: Provider, outgoing: OutgoingMessage): Promise<SendOutcome> {
    const late = new AbortController();
    const tooLong = Promise.withResolvers<SendOutcome>();
    const giveUp = () => {
      tooLong.resolve({ kind: "ambiguous", detail: "no answer in time" });
      late.abort();
    };
    const callOff = system.after(callTimeoutMs, giveUp);
    openCalls.add(giveUp);
    try {
      return await Promise.race([provider.send(outgoing, late.signal), tooLong.promise]);
    } catch {
      // What a provider throws may quote the request, so its text goes nowhere.
      return { kind: "ambiguous", detail: "the provider's adapter failed" };
    } finally {
      callOff();
      openCalls.delete(giveUp);
    }
  }

  const decideLate = (view: SettleView) => decideGiveUp(view, tenantOf(view.verification.tenant).policy);

  async function look(): Promise<void> {
    wakeAtMs = Number.POSITIVE_INFINITY;
    let nextMs = pollMs;
    try {
      const due = await store.nextDue();
      const free = callsMax + waitingMax - calls - waiting.length;
      if (!stopping && due !== undefined && due <= store.now() && free > 0) {
        await refreshTenants();
        const jobs = await store.claimMessages(Math.min(free, callsMax), phoneOf, decideLate, capOf);
        for (const job of jobs) {
          if (job.share !== undefined) onDailyShare(job.verification.tenant, job.share);
          take(job);
        }
        nextMs = 0;
      } else if (due !== undefined) {
        nextMs = Math.max(0, Math.min(pollMs, due - store.now()));
      }
    } catch (error) {
      onFault(error);
    }
    wakeIn(nextMs === 0 && calls >= callsMax ? 50 : nextMs);
  }

  async function drained(): Promise<void> {
    // What was begun may begin more: a look that was under way gives back what it claimed.
    while (underWay.size > 0) await Promise.all(underWay);
  }

  let wakeAtMs = Number.POSITIVE_INFINITY;
  let callOffLook = () => {};
  function wakeIn(ms: number): void {
    if (stopping) return;
    const at = store.now() + Math.max(0, ms);
    if (at >= wakeAtMs) return;
    callOffLook();
    wakeAtMs = at;
    callOffLook = system.after(Math.max(0, ms), () => begin(look()));
  }

  return {
    deliver(job, waitMs) {
      if (waitMs <= 0 || hurrying) {
        take(job);
        return Promise.resolve(undefined);
      }
      return new Promise((resolve) => {
        const name = nameOf(job);
        const hear = (settled: Settled | undefined) => {
          callOff();
          listeners.delete(name);
          resolve(settled);
        };
        const callOff = system.after(waitMs, () => hear(undefined));
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
    hurry() {
      hurrying = true;
      for (const hear of listeners.values()) hear(undefined);
    },
    async stop(graceMs) {
      stopping = true;
      callOffLook();
      const unsent = waiting.splice(0).map(({ job }) => job);
      if (unsent.length > 0) begin(store.releaseMessages(unsent));
      for (const end of pauses) end();
      await inTime(system, graceMs, drained());
      // Their sockets would keep the process alive. What is not noted of them any more is left to the end of the lease.
      for (const giveUp of openCalls) giveUp();
      for (const hear of listeners.values()) hear(undefined);
    },
  };
}

function nameOf({ message }: Job): string {
  return `${message.verificationId}/${message.copy}`;
}
