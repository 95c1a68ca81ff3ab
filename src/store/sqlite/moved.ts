/**
 * The mark on a SQLite database that everything in it was copied to PostgreSQL. No otpd works on it any more: a code could
 * be used once on each side, and a key that is revoked on one would go on working on the other.
 *
 * The mark is a table that no migration makes, and triggers that refuse every write, so that it also holds for a command
 * that had opened the file before, and for versions of otpd that do not know of it.
 */
import type { Database } from "better-sqlite3";
import { type Instant, timeOf } from "../../system.ts";

export interface Moved {
  /** Where to, without user and password. */
  readonly target: string;
  readonly at_ms: Instant;
}

/** Tells of the latest copy that a database was marked for, if there was one. */
export function movedFrom(db: Database): Moved | undefined {
  const isMarked = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'moved'").get();
  return isMarked === undefined ? undefined : db.prepare<[], Moved>("SELECT target, at_ms FROM moved").get();
}

/** Throws a plain sentence where a database is marked. */
export function refuseMoved(db: Database): void {
  const moved = movedFrom(db);
  if (moved === undefined) return;
  const { target, at_ms: atMs } = moved;
  throw new Error(
    `the database ${db.name} was moved to ${target} at ${timeOf(atMs)}: set OTP_DATABASE_URL to where it is now`,
  );
}

/** Marks a database, within the transaction under way. `tables` are all that it has. */
export function markMoved(db: Database, { target, at_ms: atMs }: Moved, tables: readonly string[]): void {
  db.exec(
    "CREATE TABLE IF NOT EXISTS moved (id INTEGER PRIMARY KEY CHECK (id = 1), target TEXT NOT NULL, at_ms INTEGER NOT NULL)",
  );
  db.prepare("INSERT OR REPLACE INTO moved VALUES (1, ?, ?)").run(target, atMs);
  for (const table of tables) {
    for (const write of ["INSERT", "UPDATE", "DELETE"]) {
      db.exec(`CREATE TRIGGER IF NOT EXISTS moved_${table}_${write.toLowerCase()} BEFORE ${write} ON ${table}
        BEGIN SELECT RAISE(ABORT, 'this database was moved to PostgreSQL'); END`);
    }
  }
}
