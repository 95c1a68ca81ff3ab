/**
 * A serving instance's watch over its database: one connection beside the pool, for two things that only a connection of
 * its own can do, and for a lock that shows others that an instance serves here. It notices within 1.5 s when the network has fallen silent, which no error tells, and at once when that
 * is over; and it hears when another instance leaves messages for anybody to take (LISTEN), so that nobody has to wait
 * for the next look. Nothing depends on either: there are limits on every statement, and a look at the outbox each second.
 */
import { Client } from "pg";
import { connectionSettings, type Connections } from "./connections.ts";

export interface WatchOptions {
  readonly url: string;
  readonly connections: Pick<Connections, "answers" | "drop" | "resume">;
  /** What this instance's own nudges are known by. */
  readonly ownName: string;
  /** Told when another instance has left messages. */
  readonly onNudge: () => void;
}

/** Where instances tell one another of messages. Every database of a server has channels of its own. */
export const nudgeChannel = "otpd_outbox";

/**
 * The advisory lock that an instance holds, shared, for as long as it serves: what must not happen beside one asks for it
 * alone. One for each schema, since deployments may share a database. Any first number will do.
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
/** In silence an attempt to connect may be lost for good, so another is made each tick; so many are kept under way. */
const attemptsMax = 8;
/** Where the database refuses to be connected to, calls are told so by themselves: there is no hurry. */
const refusedMs = 1_000;

/** Begins to watch. `close` resolves once its connections are gone. */
export function createWatch({ url, connections, ownName, onNudge }: WatchOptions): { close(): Promise<void> } {
  const clients: Client[] = [];
  let isSilent = false;
  let isClosed = false;
  let endPause = () => {};

  /** One pause at a time, which can be cut short. */
  function pause(ms: number): Promise<void> {
    endPause();
    if (isClosed) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Counts the ticks for which no connection got an answer. */
  function countSilence(): () => number {
    let heard = connections.answers();
    let ticks = 0;
    return () => {
      ticks = connections.answers() === heard ? ticks + 1 : 0;
      heard = connections.answers();
      return ticks;
    };
  }

  /** Begins to connect and to listen. `told` hears of it once that is done, or of nobody where the database refuses. */
  async function begin(told: (client: Client | undefined) => void): Promise<void> {
    const client = new Client({ ...connectionSettings(url), application_name: "otpd watch" });
    clients.push(client);
    client.on("error", () => {});
    client.on("notification", ({ payload }) => {
      if (payload !== ownName) onNudge();
    });
    try {
      await client.connect();
      await client.query(`LISTEN ${nudgeChannel}`);
      await client.query(`SELECT pg_advisory_lock_shared(${servingLock})`);
      told(client);
    } catch {
      // One that was given up here was refused by nobody.
      if (clients.includes(client)) told(undefined);
    }
  }

  /** Connects, however long the silence is; undefined where the database refuses. */
  async function reach(): Promise<Client | undefined> {
    const first = Promise.withResolvers<Client | undefined>();
    const silentTicks = countSilence();
    let isSettled = false;
    void first.promise.then(() => (isSettled = true));
    for (let ticks = 0; !isSettled && !isClosed; ticks += 1) {
      if (isSilent || ticks % lostTicksMax === 0) void begin(first.resolve);
      if (clients.length > attemptsMax) clients.shift()?.connection.stream.destroy();
      await Promise.race([first.promise, pause(tickMs)]);
      if (!isSettled && silentTicks() >= silentTicksMax) noteSilence();
    }
    return isSettled ? first.promise : undefined;
  }

  /** Feels the pulse for as long as there is one. */
  async function stay(client: Client): Promise<void> {
    for (;;) {
      await pause(pulseMs);
      const silentTicks = countSilence();
      let isAnswered = false;
      const answered = client.query("SELECT 1").then(() => (isAnswered = true));
      answered.catch(() => {});
      for (let ticks = 0; !isAnswered; ticks += 1) {
        if (ticks === lostTicksMax) return;
        await Promise.race([answered, pause(tickMs)]);
        if (!isAnswered && silentTicks() >= silentTicksMax) return noteSilence();
      }
    }
  }

  function noteSilence(): void {
    if (isSilent) return;
    isSilent = true;
    connections.drop();
  }

  function dropAll(): void {
    for (const client of clients.splice(0)) client.connection.stream.destroy();
  }

  async function watch(): Promise<void> {
    while (!isClosed) {
      const client = await reach();
      // A refusal is the word of somebody too: from here on calls are told by themselves.
      isSilent = false;
      connections.resume();
      // One that is lost after it was there is tried again at once.
      if (client === undefined) await pause(refusedMs);
      else await stay(client).catch(() => {});
      dropAll();
    }
  }

  const watching = watch();
  return {
    async close() {
      isClosed = true;
      // Once the database has let go of it, nobody takes this instance for one that serves.
      const ended = Promise.allSettled(clients.map((client) => client.end()));
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, endMs);
      await Promise.race([ended, late]);
      clearTimeout(timer);
      endPause();
      dropAll();
      await watching;
    },
  };
}
