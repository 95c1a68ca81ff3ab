/**
 * Fills tables of a database with rows that are made meanwhile: millions of them, beside no service.
 */
import Sqlite from "better-sqlite3";
import { Client } from "pg";
import type { Database } from "../../../src/store/open.ts";

/** What a cell holds. */
export type Cell = string | number | Uint8Array | null;
export type Row = readonly Cell[];
type Kind = "bytea" | "text" | "bigint";

/** A table that is filled: its columns with what they hold. */
export interface FilledTable {
  readonly table: string;
  readonly columns: readonly string[];
  readonly types: readonly Kind[];
  readonly rows: Iterable<Row>;
}

/** A statement that makes more rows of those that are there. */
interface More {
  readonly table: string;
  readonly text: string;
}

/** Fills tables, and makes more rows of one then. Tells how many rows came to each. */
export function fillTables(
  database: Database,
  tables: readonly FilledTable[],
  more: More,
): Promise<Readonly<Record<string, number>>> {
  return database.kind === "sqlite" ? intoSqlite(database, tables, more) : intoPostgres(database, tables, more);
}

type Of<K extends Database["kind"]> = Extract<Database, { kind: K }>;

function intoSqlite(
  { path }: Of<"sqlite">,
  tables: readonly FilledTable[],
  more: More,
): Promise<Record<string, number>> {
  const db = new Sqlite(path);
  const filled: Record<string, number> = {};
  try {
    // A crash loses the file, and nothing else.
    for (const pragma of ["synchronous = OFF", "cache_size = -1000000", "wal_autocheckpoint = 100000"])
      db.pragma(pragma);
    for (const { table, columns: given, rows } of tables) {
      const columns = table === "messages" ? [...given, "opened_ms"] : given;
      const into = `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`;
      const indexes = db
        .prepare<[string], { name: string; sql: string }>(
          `SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = ?`,
        )
        .all(table);
      db.transaction(() => {
        for (const { name } of indexes) db.exec(`DROP INDEX ${name}`);
        const insert = db.prepare(into);
        for (const row of rows) {
          insert.run(...row);
          filled[table] = (filled[table] ?? 0) + 1;
        }
        // From all rows at once, which is sorting instead of seeking a place for each.
        for (const { sql } of indexes) db.exec(sql);
      }).immediate();
    }
    filled[more.table] = db.prepare(more.text).run().changes;
    db.pragma("wal_checkpoint(TRUNCATE)");
    return Promise.resolve(filled);
  } finally {
    db.close();
  }
}

const rowsAtOnce = 2_000;

async function intoPostgres(
  { url }: Of<"postgres">,
  tables: readonly FilledTable[],
  more: More,
): Promise<Record<string, number>> {
  const client = new Client(url);
  await client.connect();
  const filled: Record<string, number> = {};
  try {
    await client.query("SET synchronous_commit = off");
    for (const { table, columns, types, rows } of tables) {
      const text = `INSERT INTO ${table} (${columns.join(", ")})
        SELECT * FROM unnest(${types.map((type, i) => `$${i + 1}::${type}[]`).join(", ")})`;
      const put = async (some: readonly Row[]) => {
        await client.query(
          text,
          columns.map((_, column) => some.map((row) => row[column])),
        );
        filled[table] = (filled[table] ?? 0) + some.length;
      };
      let some: Row[] = [];
      for (const row of rows) {
        if (some.push(row) < rowsAtOnce) continue;
        await put(some);
        some = [];
      }
      if (some.length > 0) await put(some);
    }
    filled[more.table] = (await client.query(more.text)).rowCount ?? 0;
    // As it is where autovacuum has come by since.
    for (const table of [more.table, ...tables.map((each) => each.table)])
      await client.query(`VACUUM (ANALYZE) ${table}`);
    await client.query("CHECKPOINT");
    return filled;
  } finally {
    await client.end();
  }
}
