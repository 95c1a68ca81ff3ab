/**
 * A look into the database beside the running service, as a thief or an operator would take it.
 */
import Sqlite, { type Database } from "better-sqlite3";
import { readFileSync } from "node:fs";

/** Opens the database for one act on it. */
export function inDatabase<T>(path: string, act: (db: Database) => T): T {
  const db = new Sqlite(path);
  try {
    return act(db);
  } finally {
    db.close();
  }
}

export interface VerificationFacts {
  readonly attempts: number;
  readonly state: number;
  readonly hasSalt: boolean;
}

/** Where `state` stands for what in a row. */
export const stateNumbers = { PENDING: 0, VERIFIED: 1, EXPIRED: 2, LOCKED: 3, CANCELED: 4, FAILED: 5 } as const;

/** What a verification's row says. */
export function rowOf(path: string, requestId: string): VerificationFacts {
  return inDatabase(path, (db) => {
    const row = db
      .prepare<[Buffer], { attempts: number; state: number; hasSalt: number }>(
        "SELECT attempts, state, salt IS NOT NULL AS hasSalt FROM verifications WHERE id = ?",
      )
      .get(Buffer.from(requestId, "base64url"));
    if (row === undefined) throw new Error(`no row for ${requestId}`);
    return { ...row, hasSalt: row.hasSalt === 1 };
  });
}

/** The request_id of the one verification that ended as FAILED last; its sender was never told. */
export function latestFailedId(path: string): string {
  return inDatabase(path, (db) => {
    const row = db
      .prepare<[number], { id: Buffer }>("SELECT id FROM verifications WHERE state = ? ORDER BY end_ms DESC LIMIT 1")
      .get(stateNumbers.FAILED);
    if (row === undefined) throw new Error("no verification has failed");
    return row.id.toString("base64url");
  });
}

/** How many rows a table has. */
export function countRows(path: string, table: "verifications" | "messages" | "idempotency"): number {
  return inDatabase(path, (db) => db.prepare<[], { n: number }>(`SELECT count(*) AS n FROM ${table}`).get()?.n ?? 0);
}

/** Adds a tenant beside `default`. */
export function addTenant(path: string, tenant: string): void {
  inDatabase(path, (db) =>
    db.prepare("INSERT INTO tenants (id, create_ms, revision) SELECT ?, 0, max(revision) + 1 FROM tenants").run(tenant),
  );
}

/** Every byte of the database and its write-ahead log. */
export function bytesOf(path: string): Buffer {
  return Buffer.concat([readFileSync(path), readFileSync(`${path}-wal`)]);
}
