/**
 * The lock that marks the one serving process: a SQLite transaction, held open on a file beside the database. The
 * operating system lets go of it when the process dies, however it dies; a file with a process id in it would outlive a
 * kill −9, and Node offers no flock of its own.
 */
import Sqlite, { type Database } from "better-sqlite3";
import { closeSync, openSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

export class LockHeld extends Error {}

/**
 * Takes the lock, made if need be; rejects with LockHeld once `waitMs` have passed. Closing what it resolves with lets go.
 * `onWait` is called once, where somebody holds it who is waited for.
 */
export async function lockFile(path: string, waitMs: number, onWait = () => {}): Promise<Database> {
  closeSync(openSync(path, "a", 0o600));
  const stepMs = 50;
  for (let waitedMs = 0; ; waitedMs += stepMs) {
    const db = new Sqlite(path, { timeout: 0 });
    try {
      // In memory, or an empty journal file would lie beside the lock.
      db.pragma("journal_mode = MEMORY");
      db.exec("BEGIN EXCLUSIVE");
      return db;
    } catch (error) {
      db.close();
      if (!(error instanceof Sqlite.SqliteError) || !error.code.startsWith("SQLITE_BUSY")) throw error;
      if (waitedMs >= waitMs)
        throw new LockHeld(`another server holds ${path.replace(/\.lock$/, "")}`, { cause: error });
      if (waitedMs === 0) onWait();
      await sleep(stepMs);
    }
  }
}
