/**
 * Brings a database to the schema of migrations.ts.
 */
import type { Database } from "better-sqlite3";

export interface Migration {
  readonly name: string;
  readonly sqlite: string;
}

/** Runs the migrations that this database has not seen, each in a transaction of its own. */
export function migrate(db: Database, list: readonly Migration[]): void {
  const version = () => db.pragma("user_version", { simple: true }) as number;
  if (version() > list.length) throw new Error("the database was written by a newer version of otpd");
  for (const [index, migration] of list.entries()) {
    // An up-to-date database is opened without a write: a full disk or a busy one is no reason not to start.
    if (version() > index) continue;
    db.exec("BEGIN IMMEDIATE");
    try {
      // Read again under the lock: the CLI and the server may both have found it missing.
      if (version() === index) {
        db.exec(migration.sqlite);
        db.pragma(`user_version = ${index + 1}`);
      }
      db.exec("COMMIT");
    } catch (error) {
      if (db.inTransaction) db.exec("ROLLBACK");
      const why = error instanceof Error ? error.message : String(error);
      throw new Error(`migration ${migration.name} failed and was taken back: ${why}`, { cause: error });
    }
  }
}
