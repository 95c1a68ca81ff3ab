/**
 * A worker on real SQLite with scripted providers and a clock that is moved by hand. Its timers follow that clock: no
 * test of the worker waits for a second to pass.
 */
import { ofOneMind } from "../support/service/tenants.ts";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import type { Provider } from "../../src/delivery/provider.ts";
import { channels } from "../../src/otp/channel.ts";
import { createWorker, type Worker } from "../../src/delivery/worker.ts";
import type { Message, SendOutcome } from "../../src/otp/message/message.ts";
import type { Verification } from "../../src/otp/verification/verification.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { createManualSystem, type ManualSystem } from "../support/service/system.ts";
import { createPhoneNetwork, temporaryFolder, type PhoneNetwork } from "../support/service/world.ts";
import { createActs, type Acts } from "../store/acts.ts";

/** A provider call that a test ends when it wants to. */
export interface OpenCall {
  readonly answer: (outcome: SendOutcome) => void;
  readonly signal: AbortSignal;
}

export interface Carriage {
  readonly system: ManualSystem;
  readonly store: Store;
  readonly acts: Acts;
  readonly networks: readonly [PhoneNetwork, PhoneNetwork];
  readonly worker: Worker;
  /** What providers were called and what it came to, in order: "one accepted". */
  readonly calls: string[];
  /** Which calls of ours those were made for, in the same order. */
  readonly callIds: (string | undefined)[];
  readonly faults: unknown[];
  /** Sets off the timers that are due, and does not wait for what follows from them. */
  beginTimers(): void;
  /** How many timers are running. */
  timers(): number;
  /** Another worker as in another process, on its own connection; it is not started. */
  another(providers: readonly Provider[]): Promise<Worker>;
  /** Has a network leave its next `count` calls open; they are added to the list as they come. */
  leaveOpen(network: PhoneNetwork, count: number): OpenCall[];
  /** Has the store's next `count` calls of one act fail with `error`. */
  failNext(act: keyof Store, count: number, error: Error): void;
  /** Resolves once nothing moves any more unless time does or a provider answers. */
  settled(): Promise<void>;
  /** Lets time pass: every timer goes off at its moment, and what follows from it is done before the next. */
  pass(ms: number): Promise<void>;
  /** The one message of a verification, or the copy asked for. */
  message(verification: Verification, copy?: number): Promise<Message>;
  end(): Promise<void>;
}

/** Provider calls at once of a carriage's workers. */
export const placesMax = 64;

export async function createCarriage(ways: 1 | 2 = 1): Promise<Carriage> {
  const folder = temporaryFolder();
  const path = join(folder, "otp.db");
  const timers = new Set<{ readonly atMs: number; readonly act: () => void }>();
  const clock = createManualSystem();
  const system: ManualSystem = {
    ...clock,
    after(ms, act) {
      const timer = { atMs: clock.now() + ms, act };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
  };
  const opened: Store[] = [];
  const workers: Worker[] = [];
  const failures = new Map<PropertyKey, Error[]>();
  let underWay = 0;

  /** Counts what the store has under way, and fails what a test wants failed. */
  function watch(store: Store): Store {
    return new Proxy(store, {
      get(target, name) {
        const act = Reflect.get(target, name) as unknown;
        if (typeof act !== "function") return act;
        return (...args: unknown[]) => {
          const failure = failures.get(name)?.shift();
          const result: unknown = failure === undefined ? act.apply(target, args) : Promise.reject(failure);
          if (!(result instanceof Promise)) return result;
          underWay += 1;
          return result.finally(() => (underWay -= 1));
        };
      },
    });
  }

  async function open(): Promise<Store> {
    const store = watch(await openSqlite({ path, system, exclusive: false }));
    opened.push(store);
    return store;
  }

  const store = await open();
  const acts = createActs(store, system);
  const networks = [createPhoneNetwork("one"), createPhoneNetwork("two")] as const;
  const calls: string[] = [];
  const callIds: (string | undefined)[] = [];
  const faults: unknown[] = [];

  function hire(from: Store, providers: readonly Provider[]): Worker {
    const worker = createWorker({
      store: from,
      system,
      keys: acts.keys,
      tenantOf: ofOneMind(acts.policy),
      channelsOn: channels,
      refreshTenants: async () => {},
      providersOf: (channel) => (channel === "sms" ? providers : []),
      callsMax: placesMax,
      phoneOf: acts.phoneOf,
      onCall: ({ provider, outcome, job }) => {
        calls.push(`${provider} ${outcome.kind}`);
        callIds.push(job.callId);
      },
      onSpendWarnings: () => {},
      onFault: (error) => void faults.push(error),
    });
    workers.push(worker);
    return worker;
  }

  async function settled(): Promise<void> {
    // An act is committed within a turn of the event loop, and what follows from it begins the next act at once.
    for (let still = 0; still < 4; still = underWay === 0 ? still + 1 : 0) await turn();
  }

  async function pass(ms: number): Promise<void> {
    const endMs = system.now() + ms;
    for (;;) {
      await settled();
      const [next] = [...timers].filter(({ atMs }) => atMs <= endMs).toSorted((a, b) => a.atMs - b.atMs);
      if (next === undefined) break;
      system.advance(Math.max(0, next.atMs - system.now()));
      timers.delete(next);
      next.act();
    }
    system.advance(endMs - system.now());
  }

  return {
    system,
    store,
    acts,
    networks,
    calls,
    callIds,
    faults,
    settled,
    timers: () => timers.size,
    beginTimers() {
      for (const timer of [...timers].filter(({ atMs }) => atMs <= system.now())) {
        timers.delete(timer);
        timer.act();
      }
    },
    worker: hire(store, networks.slice(0, ways)),
    async another(providers) {
      return hire(await open(), providers);
    },
    leaveOpen(network, count) {
      const list: OpenCall[] = [];
      for (let i = 0; i < count; i++) {
        network.script.push((signal) => new Promise((answer) => list.push({ answer, signal })));
      }
      return list;
    },
    failNext(act, count, error) {
      failures.set(
        act,
        Array.from({ length: count }, () => error),
      );
    },
    pass,
    async message(verification, copy = 0) {
      const found = (await store.readMessages(verification.id)).find((message) => message.copy === copy);
      if (found === undefined) throw new Error(`there is no copy ${copy}`);
      return found;
    },
    async end() {
      const stops = workers.map((worker) => worker.stop(0));
      await pass(0);
      await Promise.all(stops);
      for (const each of opened) await each.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
