/**
 * What tests of the event worker stand on: a consumer in a process of its own, and a worker on a real store whose clock
 * stands still until it is moved.
 */
import { fork } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createEventWorker, postTimeoutMs, type EventWorker } from "../../../src/delivery/event-worker.ts";
import { createPost, type Post, type PostOptions } from "../../../src/delivery/post.ts";
import { eventLeaseMs, type Endpoint } from "../../../src/otp/operators/endpoint.ts";
import { addEndpoint } from "../../../src/service/operators/endpoints.ts";
import { openSqlite } from "../../../src/store/sqlite/open.ts";
import type { Store } from "../../../src/store/store.ts";
import { createActs, ringOf, testPolicy, type Acts } from "../../store/acts.ts";
import { createManualSystem, type ManualSystem } from "../../support/service/system.ts";
import { temporaryFolder } from "../../support/service/world.ts";
import type { Manner, Word } from "../../support/fakes/event-consumer.ts";

export type Posted = Extract<Word, { kind: "request" }>;

export interface Consumer {
  readonly httpsUrl: string;
  readonly httpPort: number;
  /** Every request so far. */
  readonly posted: Posted[];
  /** What the next requests get; afterwards 204 again. */
  script(...manners: Manner[]): Promise<void>;
  /** Resolves once there are so many requests. */
  count(wanted: number): Promise<Posted[]>;
  stop(): void;
}

export function startConsumer(certPath: string, keyPath: string): Promise<Consumer> {
  const child = fork(
    fileURLToPath(new URL("../../support/fakes/event-consumer.ts", import.meta.url)),
    [certPath, keyPath],
    { stdio: "ignore" },
  );
  const posted: Posted[] = [];
  const ordered: (() => void)[] = [];
  let waiting: (() => void)[] = [];
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.on("message", (word: Word) => {
      if (word.kind === "ordered") return ordered.shift()?.();
      if (word.kind === "request") {
        posted.push(word);
        const hearers = waiting.splice(0);
        for (const hear of hearers) hear();
        return;
      }
      resolve({
        httpsUrl: `https://127.0.0.1:${word.https}`,
        httpPort: word.http,
        posted,
        script: (...manners) =>
          new Promise((done) => {
            ordered.push(done);
            child.send(manners);
          }),
        async count(wanted) {
          while (posted.length < wanted) await new Promise<void>((hear) => waiting.push(hear));
          return posted;
        },
        stop: () => void child.kill("SIGKILL"),
      });
    });
  });
}

export interface Workshop {
  readonly store: Store;
  readonly system: ManualSystem;
  readonly acts: Acts;
  readonly disabled: Endpoint[];
  readonly faults: unknown[];
  /** What tries came to, and how many events were dropped. */
  readonly tried: string[];
  /** Adds an endpoint; resolves with its id and the text of its secret. */
  add(url: string, showPhones?: boolean): Promise<{ id: string; secret: string }>;
  /** Starts a worker that posts so; `store` may stand in for the real one. */
  work(post: Post | PostOptions, store?: Pick<Store, "events" | "now">): EventWorker;
  /** Has every POST that is under way be too late. */
  losePatience(): void;
  /** The endpoint, once `isSo` of it. */
  endpointOnce(id: string, isSo: (endpoint: Endpoint) => boolean): Promise<Endpoint>;
  /** Resolves once no event is due now, or in hand. */
  settled(): Promise<void>;
  end(): Promise<void>;
}

export async function createWorkshop(): Promise<Workshop> {
  const folder = temporaryFolder();
  const manual = createManualSystem();
  const patience = new Set<() => void>();
  // A look at the outbox comes after moments instead of seconds, and the end of patience when a test says so.
  const system: ManualSystem = {
    ...manual,
    after(ms, act) {
      if (ms < postTimeoutMs) return manual.after(Math.min(ms, 10), act);
      patience.add(act);
      return () => void patience.delete(act);
    },
  };
  const store = await openSqlite({ path: join(folder, "otp.db"), system, exclusive: false });
  const keys = ringOf(1);
  const workers: EventWorker[] = [];
  const disabled: Endpoint[] = [];
  const faults: unknown[] = [];
  const tried: string[] = [];
  const until = async (isSo: () => Promise<boolean>) => {
    while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  return {
    store,
    system,
    acts: createActs(store, system, keys, testPolicy, true),
    disabled,
    faults,
    tried,
    async add(url, showPhones = false) {
      const options = { tenant: "default", url: new URL(url), types: [], showPhones };
      const made = await addEndpoint({ store, system, keys }, options);
      if (typeof made === "string") throw new Error(made);
      return { id: made.id, secret: made.secret.reveal() };
    },
    work(post, own = store) {
      const worker = createEventWorker({
        store: own,
        system,
        keys,
        post: typeof post === "function" ? post : createPost(post),
        onDisabled: (endpoint) => void disabled.push(endpoint),
        onTried: (outcome) => void tried.push(outcome),
        onDropped: (count) => void tried.push(`dropped ${count}`),
        onFault: (error) => void faults.push(error),
      });
      workers.push(worker);
      worker.start();
      return worker;
    },
    losePatience() {
      for (const act of patience) act();
    },
    async endpointOnce(id, isSo) {
      let found: Endpoint | undefined;
      await until(async () => {
        found = await store.events.findEndpoint(id);
        return found !== undefined && isSo(found);
      });
      if (found === undefined) throw new Error("it is gone");
      return found;
    },
    settled: () =>
      until(async () => {
        const due = (await store.events.nextEventDue()) ?? Infinity;
        return due > system.now() && due !== system.now() + eventLeaseMs;
      }),
    async end() {
      for (const worker of workers) await worker.stop(100);
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
