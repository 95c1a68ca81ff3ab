/**
 * Databases with many pending verifications. Real sends, made by the running service, are multiplied row by row with
 * fresh random ids, so that a million of them take half a minute; a table that grows with sends and is not multiplied is
 * an error. Then their time is set to end a day later than it would: no sweep comes by while they are measured.
 */
import type { Database } from "better-sqlite3";
import { randomFillSync } from "node:crypto";
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
/** Tables whose rows are of a tenant, a day, a minute or 10,000 numbers, and not of a verification. */
const bounded = /^(api_keys|clock|counters|destinations|guesses|key_origins|master_keys|prefix\w*|sqlite_\w+|tenants)$/;
const dayMs = 86_400_000;

type Value = string | number | Buffer | null;

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
      `UPDATE verifications SET expire_ms = ? WHERE id IN (SELECT id FROM verifications WHERE end_ms IS NULL LIMIT ?)`,
    ).run(atMs, count);
  });
}

/** Copies a database of `real` pending verifications, and multiplies them to `count`. */
export function multiply(from: string, to: string, real: number, count: number): void {
  const before = census(from);
  copyFileSync(from, to);
  inDatabase(to, (db) => {
    // A crash loses the file, and nothing else.
    for (const pragma of ["journal_mode = MEMORY", "synchronous = OFF", "cache_size = -2000000"]) db.pragma(pragma);
    const families = familiesOf(db);
    const inserts = linked.map((link) => ({ insert: inserter(db, link.table, link.column), owned: link.to }));
    db.transaction(() => {
      for (let i = real; i < count; i += 1) {
        const family = families[i % families.length] as Family;
        const owner = { id: fresh(family.id), phone_index: fresh(family.phone_index) };
        for (const [t, { insert, owned }] of inserts.entries()) {
          for (const row of family.rows[t] ?? []) insert(row, owner[owned], owner.phone_index);
        }
      }
    })();
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

/**
 * Deletes what cycles have written since `postpone`: all that lapses within half a day, or has ended. They bring no
 * Idempotency-Key, whose rows are not to be found by their verification.
 */
export function trim(path: string): void {
  inDatabase(path, (db) => {
    const limit = Date.now() + dayMs / 2;
    const found = db
      .prepare<[number], { id: Buffer; phone_index: Buffer }>(
        `SELECT id, phone_index FROM verifications WHERE end_ms IS NOT NULL
         UNION ALL SELECT id, phone_index FROM verifications WHERE end_ms IS NULL AND expire_ms < ?`,
      )
      .all(limit);
    const statements = linked
      .filter(({ table }) => table !== "idempotency")
      .map(({ table, column, to }) => ({
        to,
        run: db.prepare(`DELETE FROM ${table} WHERE ${column} >= ? AND ${column} <= ?`),
      }));
    db.transaction(() => {
      for (const owner of found) {
        for (const { to, run } of statements) run.run(owner[to], Buffer.concat([owner[to], Buffer.of(0xff)]));
      }
    }).immediate();
  });
}

/** A verification and all that belongs to it. */
interface Family extends Record<Linked["to"], Buffer> {
  /** Rows of each of the linked tables. */
  readonly rows: readonly (readonly Value[])[][];
}

function familiesOf(db: Database): Family[] {
  const owners = db.prepare<[], Pick<Family, Linked["to"]>>(`SELECT id, phone_index FROM verifications`).all();
  const byOwner = linked.map(({ table, column, to }) => {
    const bytes = owners[0]?.[to].length;
    const place = columnsOf(db, table).indexOf(column);
    const rows = db.prepare<[], Value[]>(`SELECT * FROM ${table}`).raw().all();
    return { to, rows: Map.groupBy(rows, (row) => keyOf((row[place] as Buffer).subarray(0, bytes))) };
  });
  return owners.map((owner) => ({ ...owner, rows: byOwner.map(({ to, rows }) => rows.get(keyOf(owner[to])) ?? []) }));
}

/** Makes the insert of a row like another: it belongs to a new owner, and what was random in it is so again. */
function inserter(db: Database, table: string, link: string) {
  const columns = columnsOf(db, table);
  const statement = db.prepare(`INSERT INTO ${table} VALUES (${columns.map(() => "?").join(", ")})`);
  const [linkAt, phoneAt] = [columns.indexOf(link), columns.indexOf("phone_index")];
  const randomAt = columns.flatMap((column, i) => (random.has(column) ? [i] : []));
  return (like: readonly Value[], owner: Buffer, phoneIndex: Buffer): void => {
    const row = [...like];
    for (const i of randomAt) row[i] = fresh(row[i] as Buffer);
    // What began with the old owner's name begins with the new one's.
    row[linkAt] = Buffer.concat([owner, (row[linkAt] as Buffer).subarray(owner.length)]);
    if (phoneAt >= 0) row[phoneAt] = phoneIndex;
    statement.run(row);
  };
}

function columnsOf(db: Database, table: string): string[] {
  const found = db.prepare<[], { name: string }>(`SELECT name FROM pragma_table_info('${table}')`).all();
  return found.map(({ name }) => name);
}

const pool = Buffer.alloc(65_536);
let poolAt = pool.length;

/** As many random bytes. */
function fresh({ length }: Buffer): Buffer {
  if (poolAt + length > pool.length) {
    randomFillSync(pool);
    poolAt = 0;
  }
  const bytes = Buffer.from(pool.subarray(poolAt, poolAt + length));
  poolAt += length;
  return bytes;
}

function keyOf(bytes: Buffer): string {
  return bytes.toString("latin1");
}
