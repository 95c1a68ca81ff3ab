/**
 * Backups of a SQLite database, and the way back from one. A backup is one file, taken from one moment while the server
 * goes on, whole under its name or not there at all. The master key is never in it: the database has never seen it.
 *
 * A restored database knows nothing of what happened after its backup. So everything that is pending in it is ended
 * (expire-pending.ts) before anybody can open it under the database's name.
 */
import Sqlite, { type Database } from "better-sqlite3";
import { closeSync, existsSync, fsyncSync, linkSync, mkdirSync, openSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import type { Instant } from "../../system.ts";
import { fileTrouble, sqliteTrouble } from "../file-trouble.ts";
import { expirePending, type Expired } from "../move/expire-pending.ts";
import { databaseFile, otherNames } from "./database-file.ts";
import { LockHeld, lockFile } from "./file-lock.ts";
import { migrate } from "./migrate.ts";
import { migrations } from "./migrations.ts";
import { movedFrom } from "./moved.ts";

/** Called with how far a copy is, in pages of the database. */
export type OnPages = (done: number, total: number) => void;

export interface Restored {
  readonly expired: Expired;
  /** The latest time that the database in the backup saw; a few seconds before the backup was taken, at most. */
  readonly asOfMs: Instant;
  /** Where the database that was there is kept; undefined where there was none. */
  readonly aside: string | undefined;
}

/** A backup or a restore that is refused, or that failed, with a sentence. Nothing was changed. */
export class BackupTrouble extends Error {}

/** Pages per step: at 2 KiB each a step takes a millisecond or two. */
const pagesPerStep = 1_000;
const busyTimeoutMs = 5_000;
/** What every otpd database has had from its first version on. */
const marks = ["master_keys", "clock", "tenants", "api_keys", "verifications", "messages", "buckets"];

/**
 * Backs up the database at `path` to a new file, beside a server that may be running. Once it resolves, the file is on
 * the disk, readable by its owner only, and SQLite finds no fault in it. Rejects with BackupTrouble.
 */
export async function backUp(path: string, to: string, onPages: OnPages): Promise<void> {
  refuseOtherNames(path);
  if (existsSync(to)) throw new BackupTrouble(`${to} exists, and no backup is written over`);
  await throughDraft(to, path, async (draft) => {
    await copyDatabase(path, draft, onPages);
    const db = new Sqlite(draft);
    try {
      examine(db, path);
      // A file in WAL mode would need its two companions.
      db.pragma("journal_mode = DELETE");
    } finally {
      db.close();
    }
    flush(draft);
    try {
      // Unlike a rename this refuses a file that has come to be there meanwhile.
      linkSync(draft, to);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      throw new BackupTrouble(`${to} exists, and no backup is written over`);
    }
    rmSync(draft);
    flush(dirname(to));
  });
}

/**
 * Puts a copy of the backup in the place of the database at `path`, whose folder is made if there is none. The copy is
 * migrated, and everything pending in it is ended as of `now`. The database that was there is untouched until the last step,
 * a rename, and is kept under its name and `asideEnding`. Rejects with BackupTrouble, also while a server runs.
 */
export async function restore(
  options: { path: string; from: string; asideEnding: string; now: Instant },
  onPages: OnPages,
): Promise<Restored> {
  const { from, now } = options;
  if (!existsSync(from)) throw new BackupTrouble(`there is no file ${from}`);
  mkdirSync(dirname(options.path), { recursive: true, mode: 0o700 });
  const path = databaseFile(options.path);
  const aside = path + options.asideEnding;
  return withoutServer(path, () =>
    throughDraft(path, from, async (draft) => {
      const wasThere = existsSync(path);
      if (wasThere) foldLog(path);
      await copyDatabase(from, draft, onPages);
      const db = new Sqlite(draft);
      let done: Pick<Restored, "expired" | "asOfMs">;
      try {
        examine(db, from);
        migrate(db, migrations);
        done = expireIn(db, now);
        db.pragma("journal_mode = DELETE");
      } finally {
        db.close();
      }
      flush(draft);
      if (wasThere) keepAside(path, aside);
      renameSync(draft, path);
      flush(dirname(path));
      return { ...done, aside: wasThere ? aside : undefined };
    }),
  );
}

/** Ends everything pending in the database at `path`, which something else has put back. Rejects like `restore`. */
export async function expireWithoutServer(path: string, now: Instant): Promise<Expired> {
  if (!existsSync(path)) throw new BackupTrouble(`there is no database ${path}`);
  const file = databaseFile(path);
  return withoutServer(file, async () => {
    const db = new Sqlite(file, { timeout: busyTimeoutMs });
    try {
      examine(db, path);
      migrate(db, migrations);
      return expireIn(db, now).expired;
    } finally {
      db.close();
    }
  });
}

/** Holds the lock of a serving process meanwhile. `path` is as databaseFile gives it. */
async function withoutServer<T>(path: string, act: () => Promise<T>): Promise<T> {
  const lock = await lockFile(`${path}.lock`, 0).catch((error: unknown) => {
    if (error instanceof LockHeld) throw new BackupTrouble(`a server runs on ${path}: stop it first`);
    throw error;
  });
  try {
    refuseOtherNames(path);
    return await act();
  } finally {
    lock.close();
  }
}

/** A server may run on it under another name. */
function refuseOtherNames(path: string): void {
  const fault = otherNames(databaseFile(path));
  if (fault !== undefined) throw new BackupTrouble(fault);
}

/** Makes a file under a temporary name beside `target`, and leaves nothing behind under that name. */
async function throughDraft<T>(target: string, source: string, make: (draft: string) => Promise<T>): Promise<T> {
  const draft = `${target}.${process.pid}.part`;
  try {
    // Created with its mode before SQLite sees it; its journal inherits it.
    closeSync(openSync(draft, "w", 0o600));
    return await make(draft);
  } catch (error) {
    if (!existsSync(dirname(target)))
      throw new BackupTrouble(`there is no folder ${dirname(target)}`, { cause: error });
    const trouble = fileTrouble(error);
    if (trouble !== undefined && !existsSync(draft)) {
      throw new BackupTrouble(`no file can be made in ${dirname(target)}, which ${trouble}`, { cause: error });
    }
    if (!(error instanceof Sqlite.SqliteError)) throw error;
    throw new BackupTrouble(
      error.code === "SQLITE_NOTADB"
        ? `${source} is no database of otpd`
        : `${source} could not be copied: ${sqliteTrouble(error, target, source)}`,
      { cause: error },
    );
  } finally {
    // Below what is no folder even rmSync fails, and would hide why.
    for (const end of ["", "-journal", "-wal", "-shm"]) if (existsSync(draft + end)) rmSync(draft + end);
  }
}

async function copyDatabase(from: string, to: string, onPages: OnPages): Promise<void> {
  if (!existsSync(from)) throw new BackupTrouble(`there is no file ${from}`);
  const db = new Sqlite(from, { fileMustExist: true, timeout: busyTimeoutMs });
  try {
    // A snapshot held throughout: SQLite begins the copy anew whenever another process has written, and under load it
    // would never come to an end.
    db.exec("BEGIN");
    db.prepare("SELECT 1 FROM sqlite_schema LIMIT 1").get();
    await db.backup(to, {
      progress: ({ totalPages, remainingPages }) => {
        onPages(totalPages - remainingPages, totalPages);
        return pagesPerStep;
      },
    });
  } finally {
    db.close();
  }
}

/** Refuses what is broken, what otpd has not written, and what a newer one has. */
function examine(db: Database, name: string): void {
  const tables = db.prepare<[], { name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
  const version = db.pragma("user_version", { simple: true }) as number;
  if (version < 1 || !marks.every((mark) => tables.some((table) => table.name === mark))) {
    throw new BackupTrouble(`${name} is no database of otpd`);
  }
  if (version > migrations.length) throw new BackupTrouble(`${name} was written by a newer version of otpd`);
  refuseAsMoved(db, name);
  const integrity = db.pragma("integrity_check(1)", { simple: true });
  if (integrity !== "ok") throw new BackupTrouble(`${name} is broken: ${String(integrity)}`);
}

/** What was moved to PostgreSQL goes on there: here its codes could be used again. */
function refuseAsMoved(db: Database, name: string): void {
  const moved = movedFrom(db);
  if (moved !== undefined) throw new BackupTrouble(`${name} was moved to ${moved.target}`);
}

function expireIn(db: Database, now: Instant) {
  // Salts are overwritten, also in pages that come free.
  db.pragma("secure_delete = ON");
  db.pragma("synchronous = FULL");
  db.pragma("temp_store = MEMORY");
  const asOfMs = db.prepare<[], { now_ms: Instant }>("SELECT now_ms FROM clock").get()?.now_ms ?? 0;
  return { expired: expirePending(db, Math.max(now, asOfMs)), asOfMs };
}

/** Writes what a crash left in a database's log into the database. One that is too broken for that keeps its log. */
function foldLog(path: string): void {
  const db = new Sqlite(path, { timeout: busyTimeoutMs });
  try {
    refuseAsMoved(db, path);
    db.pragma("wal_checkpoint(TRUNCATE)");
  } catch (error) {
    if (!(error instanceof Sqlite.SqliteError)) throw error;
  } finally {
    db.close();
  }
}

/** Gives the database at `path` a second name, and takes away what belongs to it beside it. */
function keepAside(path: string, aside: string): void {
  linkSync(path, aside);
  // Another database's log would be read into the restored one.
  if (existsSync(`${path}-wal`)) renameSync(`${path}-wal`, `${aside}-wal`);
  rmSync(`${path}-shm`, { force: true });
}

/** Flushes a file, or the names in a folder, to disk. */
function flush(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
