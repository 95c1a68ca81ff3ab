/**
 * The dispatcher takes one claimed message to its provider, outside any transaction, and then records the outcome.
 */
import type { Channel } from "../otp/channel.ts";
import type { KeyRing } from "../otp/keys/key-ring.ts";
import type { EndedCall, SendOutcome } from "../otp/message/message.ts";
import { isSandbox, sandboxSend } from "../otp/message/sandbox.ts";
import { decideSettle, type Settled } from "../otp/decisions/settlement.ts";
import type { TenantOf } from "../otp/operators/tenant.ts";
import { stateAt } from "../otp/verification/verification.ts";
import type { Job, PhoneOf, Store } from "../store/store.ts";
import type { Instant } from "../system.ts";
import { outgoingOf } from "./outgoing.ts";
import type { Poller } from "./poller.ts";
import type { Provider } from "./provider.ts";

export interface DispatcherOptions {
  readonly store: Store;
  readonly keys: KeyRing;
  readonly tenantOf: TenantOf;
  /** Brings what `tenantOf` knows up to date; asked before messages are claimed, and of one that had to wait. */
  readonly refreshTenants: () => Promise<void>;
  /** The providers of a channel, in the order they are tried. */
  readonly providersOf: (channel: Channel) => readonly Provider[];
  readonly phoneOf: PhoneOf;
  /** Called after each provider call, for logs and metrics. */
  readonly onCall: (call: ProviderCall) => void;
}

/** A provider call that has ended. */
export interface ProviderCall {
  readonly provider: string;
  readonly outcome: SendOutcome;
  /** The status of its HTTP answer; undefined where none came. */
  readonly httpStatus: number | undefined;
  readonly startMs: Instant;
  readonly durationMs: number;
  readonly job: Job;
}

export interface Dispatcher {
  /** Calls the provider whose turn it is, and records the outcome. Resolves with undefined where the message is gone. */
  dispatch(job: Job): Promise<Settled | undefined>;
  /** Whether a message that had to wait is still owed, and its claim outlasts a call. */
  isStillOwed(job: Job): Promise<boolean>;
}

/** The sandbox has a provider that sends nothing. */
const sandboxOnly: readonly Provider[] = [{ name: "sandbox", send: async (sms) => sandboxSend(sms.to, sms.channel) }];

/** Takes messages of a channel that no provider here has. They were sent by an instance that has one. */
const nobody: Provider = {
  name: "none",
  send: async () => ({ kind: "refused", cause: "content", detail: "no provider of this channel is configured" }),
};

/** A provider that has not answered by then may have sent the text or not. */
const callTimeoutMs = 5_000;
const noAnswer: SendOutcome = { kind: "ambiguous", detail: "no answer in time" };
/** While the store is unavailable, it is asked again after this wait, then after twice as long, and so on. */
const firstRetryMs = 50;

export function createDispatcher(options: DispatcherOptions, poller: Poller): Dispatcher {
  const { store, keys, tenantOf, refreshTenants, providersOf, phoneOf, onCall } = options;

  async function call(provider: Provider, job: Job): Promise<SendOutcome> {
    const startMs = store.now();
    const outgoing = outgoingOf(job, keys, tenantOf(job.verification.tenant), startMs);
    if ("kind" in outgoing) return outgoing;
    let outcome: SendOutcome;
    let httpStatus: number | undefined;
    const onStatus = (status: number) => void (httpStatus = status);
    try {
      outcome = await poller.withDeadline(
        callTimeoutMs,
        (signal) => provider.send(outgoing, signal, onStatus),
        noAnswer,
      );
    } catch {
      // A provider's error may quote the request, so its text goes nowhere.
      outcome = { kind: "ambiguous", detail: "the provider's adapter failed" };
    }
    onCall({ provider: provider.name, outcome, httpStatus, startMs, durationMs: store.now() - startMs, job });
    return outcome;
  }

  /** Records an outcome. */
  function settle(job: Job, ended: EndedCall): Promise<Settled | undefined> {
    const { policy } = tenantOf(job.verification.tenant);
    return whileClaimed(job, () =>
      store.settleMessage(job.message, phoneOf, (view) =>
        decideSettle(view, { ...ended, claimed: job.message }, policy),
      ),
    );
  }

  /** While the store is unavailable the message stays claimed; its lease bounds the tries. */
  async function whileClaimed<T>(job: Job, act: () => Promise<T>): Promise<T> {
    for (let waitMs = firstRetryMs; ; waitMs *= 2) {
      try {
        return await act();
      } catch (error) {
        if (poller.isStopping || store.now() + waitMs >= (job.message.dueMs ?? 0)) throw error;
        await poller.pause(waitMs);
      }
    }
  }

  return {
    async dispatch(job) {
      const { channel, providerIndex } = job.message;
      const providers = isSandbox(job.verification.tenant) ? sandboxOnly : providersOf(channel);
      const provider = providers[providerIndex % providers.length] ?? nobody;
      const outcome = await call(provider, job);
      return settle(job, { outcome, provider: provider.name, providers: providers.length });
    },
    isStillOwed(job) {
      const { message, verification } = job;
      return whileClaimed(job, async () => {
        await refreshTenants();
        const current = await store.readVerification(verification.tenant, verification.id);
        const now = store.now();
        const isOwed = current !== undefined && stateAt(current, now) === "PENDING" && now < message.deadlineMs;
        return isOwed && now + callTimeoutMs < (message.dueMs ?? 0);
      });
    },
  };
}
