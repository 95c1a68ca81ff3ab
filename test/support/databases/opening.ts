/**
 * How tests open a store: for an instance as the service does, and once more where that took too long; and for a test of the store
 * itself with more patience. The service waits 3 s for a connection to PostgreSQL, and 5 s for a statement, which a machine
 * under load may need for one.
 */
import { openStore, type OpenOptions } from "../../../src/store/open.ts";
import { createStore } from "../../../src/store/acts.ts";
import { clockOf } from "../../../src/store/postgres/clock.ts";
import { createConnections, type Connections } from "../../../src/store/postgres/connections.ts";
import { PostgresEngine } from "../../../src/store/postgres/engine.ts";
import { createLongReads } from "../../../src/store/postgres/long-reads.ts";
import { openPostgres, preparePostgres, type PostgresOptions } from "../../../src/store/postgres/open.ts";
import { StoreUnavailable, type Store, type StoreWatchers } from "../../../src/store/store.ts";
import type { System } from "../../../src/system.ts";

const triesMax = 50;

/** What is said of a connection that was given up, to whoever waited for it and to whoever was given it. */
const late = /connection timeout|timeout exceeded|not queryable/i;

/** Opens a store, and opens it again while its connections come too late: what was migrated is not migrated twice. */
export function openInTime(options: OpenOptions): Promise<Store> {
  return inTime(() => openStore(options));
}

/** The same by the clock of `options.system`: on PostgreSQL it is the database's own otherwise, which no test can move. */
export function openByOwnClock(options: OpenOptions): Promise<Store> {
  const { database } = options;
  if (database.kind !== "postgres") return openStore(options);
  return inTime(() => openPostgres({ ...options, url: database.url, clock: "system" }));
}

/** So many times as long as the service a store by itself waits. An instance does not: it has to get over what is lost. */
export const waitFactor = 50;

/** Opens a store by itself, by the clock of `options.system`. */
export function openOnPostgres(options: Omit<PostgresOptions, "clock" | "waitFactor">): Promise<Store> {
  return openPostgres({ ...options, clock: "system", waitFactor });
}

/** Makes the tables in a database, and connects to it. */
export async function connectTo(url: string, connectionsMax?: number): Promise<Connections> {
  await preparePostgres({ url, waitFactor });
  return createConnections({ url, connectionsMax, waitFactor });
}

export interface StoreOverOptions {
  readonly url: string;
  readonly system: System;
  readonly ownName?: string;
  readonly watchers?: StoreWatchers;
}

/** As `openOnPostgres`, but over connections that are there already. */
export function storeOver(
  connections: Connections,
  { url, system, ownName = "one", watchers = {} }: StoreOverOptions,
): Store {
  const longReads = createLongReads({ url, waitFactor });
  const engine = new PostgresEngine({ connections, clock: clockOf(system), ownName, watchers, longReads });
  return createStore(engine, watchers);
}

async function inTime(open: () => Promise<Store>): Promise<Store> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await open();
    } catch (error) {
      const { cause, message } = error as Error;
      if (tries === triesMax || !(cause instanceof StoreUnavailable) || !late.test(message)) throw error;
    }
  }
}
