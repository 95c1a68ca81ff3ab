/**
 * A serving instance's watch over its database: one connection beside the pool, for what only a connection of its own can
 * do. It notices within 1.5 s when the network has fallen silent, which no error tells, and at once when that is over. It
 * hears when another instance leaves messages for anybody to take (LISTEN). And it holds a lock that shows others that an
 * instance serves here. No call depends on it: every statement has a limit, and the outbox is looked at each second.
 */
import { Client } from "pg";
import type { Connections } from "./connections.ts";
import { connectionSettings } from "./pool.ts";

export interface WatchOptions {
  readonly url: string;
  readonly connections: Pick<Connections, "answers" | "drop" | "resume">;
  /** What this instance's own nudges are known by. */
  readonly ownName: string;
  /** Called when another instance has left messages. */
  readonly onNudge: () => void;
}

/** Where instances tell one another of messages. Every database of a server has channels of its own. */
export const nudgeChannel = "otpd_outbox";

/**
 * The advisory lock that an instance holds shared while it serves. What must not happen beside one takes it exclusively. One
 * for each schema, since deployments may share a database. Any first number will do.
 */
export const servingLock = "708741, hashtext(coalesce(current_schema(), ''))";
/** How long the database may take to let go of a connection at a stop. */
const endMs = 500;

const pulseMs = 500;
/** So many ticks without an answer on any connection are silence. A stall of this very process is one tick. */
const tickMs = 250;
const silentTicksMax = 4;
/** So many without one here, while others get theirs, mean that this connection alone is lost. */
const lostTicksMax = 20;
/**
 * In silence an attempt to connect may be lost for good, so another is made each tick. The latest few are kept under way,
 * and of each tenth the latest few, for 10 s: connecting itself may take seconds.
 */
const attemptsMax = 4;
const patientEach = 10;
/** Where the database refuses connections, calls find out by themselves, so an attempt each second will do. */
const refusedMs = 1_000;

/** Begins to watch. `close` resolves once its connections are gone. */
export function createWatch(options: WatchOptions): { close(): Promise<void> } {
  return new Watch(options);
}

class Watch {
  readonly #options: WatchOptions;
  readonly #clients = new Set<Client>();
  readonly #watching: Promise<void>;
  #isSilent = false;
  #isClosed = false;
  #endPause = () => {};

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#watching = this.#watch();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    // Once the database has let go of it, nobody takes this instance for one that serves.
    const ended = Promise.allSettled([...this.#clients].map((client) => client.end()));
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, endMs);
    await Promise.race([ended, late]);
    clearTimeout(timer);
    this.#endPause();
    this.#dropAll();
    await this.#watching;
  }

  async #watch(): Promise<void> {
    while (!this.#isClosed) {
      const client = await this.#reach();
      // A refusal ends the silence too: from here on calls find out by themselves.
      this.#isSilent = false;
      this.#options.connections.resume();
      // One that is lost after it was there is tried again at once.
      if (client === undefined) await this.#pause(refusedMs);
      else await this.#stay(client).catch(() => {});
      this.#dropAll();
    }
  }

  /** Connects, however long the silence is; undefined where the database refuses. */
  async #reach(): Promise<Client | undefined> {
    const first = Promise.withResolvers<Client | undefined>();
    const silentTicks = this.#countSilence();
    let isReached = false;
    void first.promise.then(() => (isReached = true));
    const [hasty, patient]: [Client[], Client[]] = [[], []];
    for (let ticks = 0; !isReached && !this.#isClosed; ticks += 1) {
      const attempts = ticks % patientEach === 0 ? patient : hasty;
      if (this.#isSilent || ticks % lostTicksMax === 0) attempts.push(this.#connect(first.resolve));
      if (attempts.length > attemptsMax) this.#drop(attempts.shift());
      await Promise.race([first.promise, this.#pause(tickMs)]);
      if (!isReached && silentTicks() >= silentTicksMax) this.#noteSilence();
    }
    return isReached ? first.promise : undefined;
  }

  /** Begins to connect and listen. `onDone` gets the client, or undefined where the database refuses. */
  #connect(onDone: (client: Client | undefined) => void): Client {
    const { url, ownName, onNudge } = this.#options;
    const client = new Client({ ...connectionSettings(url), application_name: "otpd watch" });
    this.#clients.add(client);
    client.on("error", () => {});
    client.on("notification", ({ payload }) => {
      if (payload !== ownName) onNudge();
    });
    void this.#listen(client, onDone);
    return client;
  }

  async #listen(client: Client, onDone: (client: Client | undefined) => void): Promise<void> {
    try {
      await client.connect();
      await client.query(`LISTEN ${nudgeChannel}`);
      await client.query(`SELECT pg_advisory_lock_shared(${servingLock})`);
      onDone(client);
    } catch {
      // One that was given up here was refused by nobody.
      if (this.#clients.has(client)) onDone(undefined);
    }
  }

  /** Asks the database for a sign of life, for as long as it gives one. */
  async #stay(client: Client): Promise<void> {
    for (;;) {
      await this.#pause(pulseMs);
      const silentTicks = this.#countSilence();
      let isAnswered = false;
      const answered = client.query("SELECT 1").then(() => (isAnswered = true));
      answered.catch(() => {});
      for (let ticks = 0; !isAnswered; ticks += 1) {
        if (ticks === lostTicksMax) return;
        await Promise.race([answered, this.#pause(tickMs)]);
        if (!isAnswered && silentTicks() >= silentTicksMax) return this.#noteSilence();
      }
    }
  }

  /** Counts the ticks for which no connection got an answer. */
  #countSilence(): () => number {
    const { connections } = this.#options;
    let heard = connections.answers();
    let ticks = 0;
    return () => {
      ticks = connections.answers() === heard ? ticks + 1 : 0;
      heard = connections.answers();
      return ticks;
    };
  }

  #noteSilence(): void {
    if (this.#isSilent) return;
    this.#isSilent = true;
    this.#options.connections.drop();
  }

  /** One pause at a time, which can be cut short. */
  #pause(ms: number): Promise<void> {
    this.#endPause();
    if (this.#isClosed) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #drop(client: Client | undefined): void {
    if (client === undefined) return;
    this.#clients.delete(client);
    client.connection.stream.destroy();
  }

  #dropAll(): void {
    for (const client of this.#clients) this.#drop(client);
  }
}
