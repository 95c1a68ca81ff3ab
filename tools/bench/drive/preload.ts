/**
 * Databases with many pending verifications. Real sends, made by the running service, are multiplied by statements of
 * SQLite's own with fresh random ids; a table that grows with sends and is not multiplied is
 * an error. Then their time is set to end a day later than it would: no sweep comes by while they are measured.
 */
import type { Database } from "better-sqlite3";
import { copyFileSync } from "node:fs";
import { inDatabase } from "../../../test/support/databases/rows.ts";

/** How a row belongs to a verification: by the column that links it, if only by what the column begins with. */
interface Linked {
  readonly table: string;
  readonly column: string;
  readonly to: "id" | "phone_index";
}

const linked: readonly Linked[] = [
  { table: "verifications", column: "id", to: "id" },
  { table: "messages", column: "verification_id", to: "id" },
  { table: "idempotency", column: "verification_id", to: "id" },
  { table: "buckets", column: "bucket", to: "phone_index" },
  { table: "phones", column: "phone_index", to: "phone_index" },
];

/** What else differs from row to row, and is as random. */
const random: ReadonlySet<string> = new Set(["salt", "phone_box", "slot", "fingerprint"]);
/** When a pending row lapses. */
const ends: readonly { readonly table: string; readonly column: string }[] = [
  { table: "verifications", column: "expire_ms" },
  { table: "messages", column: "deadline_ms" },
  { table: "idempotency", column: "expire_ms" },
  { table: "buckets", column: "tat_ms" },
];
/** Tables whose rows are of a tenant, a day, an hour, a minute or 10,000 numbers, and not of a verification. */
const bounded =
  /^(api_keys|clock|counters|day_sums|destinations|guesses|key_origins|master_keys|prefix\w*|refusal_\w+|sqlite_\w+|summing|sums|tenants)$/;
const dayMs = 86_400_000;

/** Rows of each table, and bytes of each table with its indexes, in whole pages. */
export interface Census {
  readonly rows: ReadonlyMap<string, number>;
  readonly bytes: ReadonlyMap<string, number>;
}

export function census(path: string): Census {
  return inDatabase(path, (db) => {
    db.pragma("wal_checkpoint(TRUNCATE)");
    const names = db.prepare<[], { name: string }>(`SELECT name FROM sqlite_schema WHERE type = 'table'`).all();
    const rows = names.map(({ name }) => {
      const found = db.prepare<[], { count: number }>(`SELECT count(*) AS count FROM ${name}`).get();
      return [name, found?.count ?? 0] as const;
    });
    const bytes = db
      .prepare<[], { name: string; bytes: number }>(
        `SELECT s.tbl_name AS name, sum(d.pgsize) AS bytes FROM dbstat d JOIN sqlite_schema s ON s.name = d.name GROUP BY 1`,
      )
      .all();
    return { rows: new Map(rows), bytes: new Map(bytes.map((each) => [each.name, each.bytes])) };
  });
}

/** Sets the end of every pending row a day later. */
export function postpone(path: string): void {
  inDatabase(path, (db) => {
    for (const { table, column } of ends) db.exec(`UPDATE ${table} SET ${column} = ${column} + ${dayMs}`);
  });
}

/** Has so many pending verifications end at a time instead, with what hangs on them. */
export function lapseSome(path: string, count: number, atMs: number): void {
  inDatabase(path, (db) => {
    db.prepare(
      `UPDATE verifications SET expire_ms = @atMs
         WHERE id IN (SELECT id FROM verifications WHERE end_ms IS NULL AND expire_ms > @atMs LIMIT @count)`,
    ).run({ atMs, count });
  });
}

/** Copies a database of `real` pending verifications, and multiplies them to `count`. */
export function multiply(from: string, to: string, real: number, count: number): void {
  const before = census(from);
  copyFileSync(from, to);
  inDatabase(to, (db) => {
    // A crash loses the file, and nothing else.
    for (const pragma of ["journal_mode = MEMORY", "synchronous = OFF", "cache_size = -4000000"]) db.pragma(pragma);
    const indexes = indexesOf(db);
    db.transaction(() => {
      nameOwners(db, real, count);
      for (const { name } of indexes) db.exec(`DROP INDEX ${name}`);
      for (const link of linked) copyRows(db, link);
      // From all rows at once, which is sorting instead of seeking a place for each.
      for (const { sql } of indexes) db.exec(sql);
    })();
    db.exec("DROP TABLE temp.owners");
    db.pragma("journal_mode = WAL");
  });
  const after = census(to);
  for (const [table, rows] of before.rows) {
    const isLinked = linked.some((link) => link.table === table);
    if (!isLinked && rows > 0 && !bounded.test(table)) throw new Error(`${table} grows with sends unseen`);
    const expected = isLinked ? (rows / real) * count : rows;
    const made = after.rows.get(table) ?? 0;
    if (Math.abs(made - expected) > expected * 0.01) {
      throw new Error(`${table} has ${made} rows for ${count} verifications, where sends make ${expected}`);
    }
  }
}

/** The indexes of linked tables that are not part of a table itself. */
function indexesOf(db: Database): { name: string; sql: string }[] {
  const all = db
    .prepare<[], { name: string; sql: string; tbl_name: string }>(
      `SELECT name, sql, tbl_name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL`,
    )
    .all();
  return all.filter(({ tbl_name: of }) => linked.some(({ table }) => table === of));
}

/** Names the verifications that are to be made, and after which of the real ones. */
function nameOwners(db: Database, real: number, count: number): void {
  db.exec("CREATE TEMP TABLE owners (of_id BLOB, of_phone_index BLOB, id BLOB, phone_index BLOB)");
  db.prepare(
    `WITH RECURSIVE nth (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM nth WHERE n < ?)
     INSERT INTO temp.owners
     SELECT v.id, v.phone_index, randomblob(length(v.id)), randomblob(length(v.phone_index))
     FROM nth CROSS JOIN verifications AS v LIMIT ?`,
  ).run(Math.ceil(count / real), count - real);
}

/** Makes a row for each owner like those that its model has: it is the owner's, and what was random in it is so again. */
function copyRows(db: Database, { table, column, to }: Linked): void {
  const columns = columnsOf(db, table);
  const another = (name: string): string => {
    // What began with the old owner's name begins with the new one's.
    if (name === column) return `CAST(o.${to} || substr(s.${name}, length(o.${to}) + 1) AS BLOB)`;
    if (name === "phone_index") return "o.phone_index";
    return random.has(name) ? `iif(s.${name} IS NULL, NULL, randomblob(length(s.${name})))` : `s.${name}`;
  };
  db.exec(`
    CREATE TEMP TABLE models AS SELECT * FROM ${table};
    ALTER TABLE temp.models ADD COLUMN owned_by BLOB;
    UPDATE temp.models SET owned_by = substr(${column}, 1, (SELECT length(${to}) FROM temp.owners LIMIT 1));
    CREATE INDEX temp.models_owned_by ON models (owned_by);
    INSERT INTO ${table} (${columns.join(", ")})
    SELECT ${columns.map(another).join(", ")} FROM temp.owners AS o CROSS JOIN temp.models AS s ON s.owned_by = o.of_${to};
    DROP TABLE temp.models;
  `);
}

/**
 * Deletes what cycles have written since `postpone`: all that lapses within half a day, or has ended. They bring no
 * Idempotency-Key, whose rows are not to be found by their verification.
 */
export function trim(path: string): void {
  inDatabase(path, (db) => {
    const limit = Date.now() + dayMs / 2;
    const found = db
      .prepare<[number], Ended>(
        `SELECT id, phone_index, create_ms FROM verifications WHERE end_ms IS NOT NULL
         UNION ALL SELECT id, phone_index, create_ms FROM verifications WHERE end_ms IS NULL AND expire_ms < ?`,
      )
      .all(limit);
    const statements = linked
      .filter(({ table }) => table !== "idempotency")
      .map(({ table, column, to }) => ({
        to,
        // Messages are found by when their verification was opened: by its id alone all of them would be looked at.
        run: db.prepare(
          `DELETE FROM ${table} WHERE ${table === "messages" ? "opened_ms = @create_ms AND" : ""} ${column} >= @from AND ${column} <= @to`,
        ),
      }));
    db.transaction(() => {
      for (const owner of found) {
        const { create_ms } = owner;
        for (const { to, run } of statements) {
          run.run({ from: owner[to], to: Buffer.concat([owner[to], Buffer.of(0xff)]), create_ms });
        }
      }
    }).immediate();
  });
}

/** A verification of a cycle. */
interface Ended extends Record<Linked["to"], Buffer> {
  readonly create_ms: number;
}

function columnsOf(db: Database, table: string): string[] {
  const found = db.prepare<[], { name: string }>(`SELECT name FROM pragma_table_info('${table}')`).all();
  return found.map(({ name }) => name);
}
