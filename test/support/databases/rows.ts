/**
 * A look into the database beside the running service, as a thief or an operator would take it.
 */
import Sqlite, { type Database as SqliteDatabase } from "better-sqlite3";
import { readFileSync } from "node:fs";
import { Client } from "pg";
import type { Database } from "../../../src/store/open.ts";

/** Opens the database for one act on it. */
export function inDatabase<T>(path: string, act: (db: SqliteDatabase) => T): T {
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

/** The rows that one statement finds, whatever the database. Both take `$1`; bytes come as Buffers. */
export async function select(
  database: Database,
  sql: string,
  values: readonly (string | number | Buffer)[] = [],
): Promise<Record<string, unknown>[]> {
  if (database.kind === "sqlite") {
    return inDatabase(database.path, (db) =>
      db.prepare<unknown[], Record<string, unknown>>(sql.replaceAll(/\$\d/g, "?")).all(...values),
    );
  }
  const client = new Client(database.url);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql, [...values])).rows;
  } finally {
    await client.end();
  }
}

/** What a verification's row says. */
export async function rowOf(database: Database, requestId: string): Promise<VerificationFacts> {
  const [row] = await select(database, "SELECT attempts, state, salt FROM verifications WHERE id = $1", [
    Buffer.from(requestId, "base64url"),
  ]);
  if (row === undefined) throw new Error(`no row for ${requestId}`);
  return { attempts: Number(row["attempts"]), state: Number(row["state"]), hasSalt: row["salt"] !== null };
}

/** The request_id of the one verification that ended as FAILED last; its sender was never told. */
export async function latestFailedId(database: Database): Promise<string> {
  const [row] = await select(database, "SELECT id FROM verifications WHERE state = $1 ORDER BY end_ms DESC LIMIT 1", [
    stateNumbers.FAILED,
  ]);
  if (row === undefined) throw new Error("no verification has failed");
  return (row["id"] as Buffer).toString("base64url");
}

/** How many rows a table has. */
export async function countRows(
  database: Database,
  table: "verifications" | "messages" | "idempotency",
): Promise<number> {
  const [row] = await select(database, `SELECT count(*) AS n FROM ${table}`);
  return Number(row?.["n"]);
}

/** Adds a tenant beside `default`. */
export function addTenant(path: string, tenant: string): void {
  inDatabase(path, (db) =>
    db.prepare("INSERT INTO tenants (id, create_ms, revision) SELECT ?, 0, max(revision) + 1 FROM tenants").run(tenant),
  );
}

/** Every byte of the database: a file and its write-ahead log, or all that its tables hold. */
export async function bytesOf(database: Database): Promise<Buffer> {
  if (database.kind === "sqlite") {
    return Buffer.concat([readFileSync(database.path), readFileSync(`${database.path}-wal`)]);
  }
  const tables = await select(database, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()");
  const cells = await Promise.all(
    tables.map(async ({ tablename }) =>
      (await select(database, `SELECT * FROM ${String(tablename)}`)).flatMap(Object.values),
    ),
  );
  return Buffer.concat(cells.flat().map((cell) => (Buffer.isBuffer(cell) ? cell : Buffer.from(JSON.stringify(cell)))));
}
