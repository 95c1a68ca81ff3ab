/**
 * The store on SQLite, for one server on one machine: how a database is opened. WAL with synchronous=FULL
 * (better-sqlite3's default under WAL does not fsync a commit); what is done in it is in engine.ts.
 *
 * One serving process owns the file, by the lock of file-lock.ts on `<database>.lock`, beside the file that every symbolic
 * link to it leads to. The CLI reads and writes beside the server without it.
 */
import Sqlite, { type Database } from "better-sqlite3";
import { closeSync, openSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { System } from "../../system.ts";
import { createStore } from "../acts.ts";
import { sqliteTrouble } from "../file-trouble.ts";
import { databaseFile, otherNames } from "./database-file.ts";
import { lockFile } from "./file-lock.ts";
import { busyWaitMs, isBusy } from "./group-commit.ts";
import { migrate } from "./migrate.ts";
import { migrations } from "./migrations.ts";
import { refuseMoved } from "./moved.ts";
import { SqliteEngine } from "./engine.ts";
import { Checkpoints, checkpointPages } from "./checkpoints.ts";
import { LongReads } from "./long-reads.ts";
import type { Store, StoreWatchers } from "../store.ts";

export interface SqliteOptions extends StoreWatchers {
  /** Path of the database file; its folder exists. */
  readonly path: string;
  readonly system: System;
  /** True for the one process that serves. It waits up to `lockWaitMs` for its predecessor to let go. */
  readonly exclusive: boolean;
  readonly lockWaitMs?: number;
  /** Called once where it has to wait, with how long at most. */
  readonly onLockWait?: (waitMs: number) => void;
}

/** How long an open waits for another process's write, a migration above all. */
const openTimeoutMs = 5_000;
/** How long a statement blocks for another process's write; longer waits are left to group commit's retries. */
const busyTimeoutMs = 5;

/** Opens a database, and creates or migrates it as needed. */
export async function openSqlite(options: SqliteOptions): Promise<Store> {
  const path = databaseFile(options.path);
  const { exclusive, lockWaitMs = 15_000, onLockWait } = options;
  const lock = exclusive ? await lockFile(`${path}.lock`, lockWaitMs, () => onLockWait?.(lockWaitMs)) : undefined;
  let db: Database | undefined;
  try {
    db = await openFile(path, refuseMoved);
    db.pragma(`busy_timeout = ${busyTimeoutMs}`);
    const longReads = new LongReads({ path });
    const checkpoints = new Checkpoints(db, { path });
    const parts = { db, system: options.system, lock, watchers: options, longReads, checkpoints };
    return createStore(new SqliteEngine(parts), options);
  } catch (error) {
    db?.close();
    lock?.close();
    throw error;
  }
}

/**
 * Opens the file of a database (database-file.ts), and creates or migrates it as needed. Throws where it has another name,
 * and `check` may refuse it besides, by throwing.
 */
export async function openFile(path: string, check: (db: Database) => void): Promise<Database> {
  let db: Database | undefined;
  try {
    // Created with its mode before SQLite sees it; the -wal and -shm files inherit it.
    closeSync(openSync(path, "a", 0o600));
    const fault = otherNames(path);
    if (fault !== undefined) throw new Error(fault);
    db = new Sqlite(path, { timeout: openTimeoutMs });
    // The page size of a new database. A commit writes whole pages, mostly for one row in each: half the size saves a
    // tenth of the CPU of a send and verify. In smaller pages a verification would not fit beside others.
    db.pragma("page_size = 2048");
    await enterWal(db);
    db.pragma("synchronous = FULL");
    // What is deleted is overwritten: an erased salt must not linger in a free part of a page.
    db.pragma("secure_delete = ON");
    db.pragma("journal_size_limit = 67108864");
    // Where no thread sees to it (checkpoints.ts).
    db.pragma(`wal_autocheckpoint = ${checkpointPages}`);
    // Savepoints that change many pages would put the old pages into a file under /var/tmp: salts where nobody erases
    // them, and a write that fails where that folder is full or read-only.
    db.pragma("temp_store = MEMORY");
    if (db.pragma("synchronous", { simple: true }) !== 2) throw new Error("SQLite did not take synchronous=FULL");
    check(db);
    migrate(db, migrations);
    return db;
  } catch (error) {
    db?.close();
    if (!(error instanceof Sqlite.SqliteError)) throw error;
    throw new Error(`the database ${path} cannot be opened: ${sqliteTrouble(error, path)}`, { cause: error });
  }
}

/** Sets WAL, which stays with the file. */
async function enterWal(db: Database): Promise<void> {
  for (let waitedMs = 0; ; waitedMs += busyWaitMs) {
    try {
      db.pragma("journal_mode = WAL");
      return;
    } catch (error) {
      // Of two processes that both find a new file without WAL, SQLite refuses one at once, without its busy timeout.
      if (!isBusy(error) || waitedMs >= openTimeoutMs) throw error;
      await sleep(busyWaitMs);
    }
  }
}
