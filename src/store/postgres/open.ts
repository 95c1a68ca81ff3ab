/**
 * The store on PostgreSQL, for many instances on one database: how it is opened. The clock is the database's own, so that
 * instances whose clocks differ agree on every limit and lifetime.
 */
import type { System } from "../../system.ts";
import { createStore } from "../acts.ts";
import { clockOf, databaseClock } from "./clock.ts";
import { createConnections, type Connections } from "./connections.ts";
import { migratePostgres } from "./migrate.ts";
import { postgresMigrations } from "./migrations.ts";
import { statements as sql } from "./statements.ts";
import { PostgresEngine } from "./engine.ts";
import { createLongReads } from "./long-reads.ts";
import { createWatch } from "./watch.ts";
import type { Store, StoreWatchers } from "../store.ts";

export interface PostgresOptions extends StoreWatchers {
  /** `postgres://user:password@host:port/database`. */
  readonly url: string;
  readonly system: System;
  /** Whose clock decides; `system` is for tests. */
  readonly clock?: "database" | "system";
  /** Batches under way at once, to measure what their number costs; unless given, it goes by how long a round trip takes. */
  readonly batches?: number | undefined;
  /** So many times as long as usual it waits for the database, for tests. */
  readonly waitFactor?: number | undefined;
  /** Called when another instance has left messages for anybody to take. With it, one more connection is opened (watch.ts). */
  readonly onNudge?: (() => void) | undefined;
}

/** Opens a database, and creates or migrates its tables as needed. */
export async function openPostgres(options: PostgresOptions): Promise<Store> {
  const { url, system, clock: whose = "database", onNudge, waitFactor } = options;
  const database = { url, waitFactor };
  const connections = createConnections(database);
  try {
    await preparePostgres(database);
    const clock = whose === "system" ? clockOf(system) : databaseClock(system);
    const [row] = await connections.query<{ now_ms: number }>(sql.clock, []);
    if (row !== undefined) clock.heard(row.now_ms);
    const ownName = Buffer.from(system.randomBytes(8)).toString("hex");
    const watch = onNudge && createWatch({ url, connections, ownName, onNudge });
    const longReads = createLongReads(database);
    const { batches } = options;
    return createStore(
      new PostgresEngine({ connections, clock, ownName, watch, watchers: options, batches, longReads }),
      options,
    );
  } catch (error) {
    await connections.close();
    if (!(error instanceof Error)) throw error;
    // The URL holds a password: only what the database said is told.
    throw new Error(`the database cannot be opened: ${error.message}`, { cause: error });
  }
}

/** Looks whether a database will do, and brings its tables up to date, for as long as that takes. */
export async function preparePostgres(database: Pick<PostgresOptions, "url" | "waitFactor">): Promise<void> {
  const connections = createConnections({ ...database, connectionsMax: 1, isPatient: true });
  try {
    await refuseUnsafe(connections);
    await migratePostgres(connections, postgresMigrations);
  } finally {
    await connections.close();
  }
}

/**
 * Without a flush at each commit an acknowledged send could be lost, and a used code work again. Where a character of a
 * provider's answer cannot be kept, neither can what became of its message. SQL_ASCII keeps what it is given.
 */
async function refuseUnsafe(connections: Connections): Promise<void> {
  const [row] = await connections.query<{ commit: string; standby: boolean; encoding: string }>(
    {
      name: "durability",
      text: `SELECT current_setting('synchronous_commit') AS commit, pg_is_in_recovery() AS standby,
        current_setting('server_encoding') AS encoding`,
    },
    [],
  );
  if (row?.commit === "off") {
    throw new Error(
      "synchronous_commit is off, so that an answered call could be lost; set it to on for this database",
    );
  }
  if (row !== undefined && !["UTF8", "SQL_ASCII"].includes(row.encoding)) {
    throw new Error(`its encoding is ${row.encoding}, and otpd needs one made with ENCODING 'UTF8'`);
  }
  if (row?.standby === true) throw new Error("it is a standby, which takes no writes");
}
