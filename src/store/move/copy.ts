/**
 * The move from SQLite to PostgreSQL: every row of every table, in one transaction on either side. The file is held by
 * the lock of a serving process and by a write of our own, so that nothing is added meanwhile; the target is locked and
 * has to be empty. PostgreSQL is committed first and the file is marked as moved right after it (moved.ts). Whatever
 * happens before leaves the target empty and the file as it was, and the copy can be made again.
 *
 * Rows go as they are: instants are absolute, so that they mean the same by the database's clock as by the process's.
 */
import type { Database } from "better-sqlite3";
import { existsSync } from "node:fs";
import { type Instant, timeOf } from "../../system.ts";
import { databaseFile } from "../sqlite/database-file.ts";
import { LockHeld, lockFile } from "../sqlite/file-lock.ts";
import { markMoved, movedFrom, type Moved } from "../sqlite/moved.ts";
import { preparePostgres } from "../postgres/open.ts";
import { columns as asColumns, type Cell } from "../postgres/columns.ts";
import { createConnections, withoutCredentials, type Connections, type Transaction } from "../postgres/connections.ts";
import { statements } from "../postgres/statements.ts";
import { moveAllOut } from "../sqlite/phone-states.ts";
import { foldPrefixes } from "../sqlite/prefix-journal.ts";
import { prepare as prepareStatements } from "../sqlite/statements.ts";
import { openFile } from "../sqlite/open.ts";
import { StoreUnavailable } from "../store.ts";

/** Every table that is copied, those that others refer to first. */
export const copiedTables = [
  "master_keys",
  "tenants",
  "api_keys",
  "key_origins",
  "destinations",
  "verifications",
  "messages",
  "buckets",
  "phones",
  "idempotency",
  "counters",
  "guesses",
  "prefixes",
  "prefix_decisions",
  "webhook_endpoints",
  "events",
  "admin_keys",
  "audit",
  "sums",
  "summing",
  "refusal_sums",
  "console_links",
  "console_sessions",
] as const;
/** Follow the sums by the hour by themselves, here and there. */
export const followingTables = ["day_sums", "refusal_day_sums"] as const;
/** Those whose ids the database makes. */
const numberedTables = ["prefix_decisions", "audit"] as const;
/** PostgreSQL has a clock of its own, the journal is folded into the prefixes before, and the mark of a copy (moved.ts) belongs to the file. */
export const sqliteOnly = ["clock", "moved", "prefix_journal"];
/** What is kept of phones moves out into rows of its own before, as PostgreSQL has it; and messages are ordered by another row's time. */
export const sqliteOnlyColumns = ["verifications.of_phone", "messages.opened_ms"];
/**
 * `daily_messages` follows the counters by itself, for instances of the version before them. Lots are what instances have in
 * hand, and a file has one.
 */
export const postgresOnly = ["schema_version", "daily_messages", "counter_lots"];

export interface CopyOptions {
  /** The SQLite file. */
  readonly path: string;
  /** The PostgreSQL database: `postgres://user:password@host:port/database`. */
  readonly url: string;
  /** Called after each batch. */
  readonly onProgress: (progress: Progress) => void;
}

export interface Progress {
  readonly table: string;
  /** Rows of all tables that were copied so far, and that there are. */
  readonly done: number;
  readonly total: number;
}

export interface Copied {
  /** Where to, without user and password. */
  readonly target: string;
  /** How many rows each table has in SQLite, and how many have arrived: as many. */
  readonly counts: readonly Count[];
  /** The mark of an earlier copy of the same file. */
  readonly before: Moved | undefined;
}

/** It went wrong at the very end. The message says what stands where, in whole sentences. */
export class CopyInDoubt extends Error {}

export interface Count {
  readonly table: string;
  readonly rows: number;
  readonly arrived: number;
}

interface Column {
  readonly name: string;
  /** The type in PostgreSQL. */
  readonly type: string;
}

/** A transaction, or the database without one. */
type Queried = Pick<Transaction, "query">;

interface Plan {
  readonly table: string;
  readonly columns: readonly Column[];
  readonly rows: number;
}

const once = (text: string) => ({ name: "", text });
/** Rows in one statement. Some 200 bytes each; a tenant with texts of its own has 32 KiB at most. */
const batchRowsMax = 500;
/** A lock on an empty database is a user's to hear of, or a broken copy's that is being rolled back. */
const lockWaitMs = 4_000;
/** PostgreSQL hears nothing while millions of rows are counted on a slow disk. */
const silenceMs = 120_000;

/**
 * Copies a SQLite database to an empty PostgreSQL database, whose tables it makes first. Rejects with a plain sentence
 * when nothing was copied, and with CopyInDoubt when something may have been.
 */
export async function copyToPostgres({ path, url, onProgress }: CopyOptions): Promise<Copied> {
  // To open it would make it.
  if (!existsSync(path)) throw new Error(`there is no database ${path}`);
  const file = databaseFile(path);
  const lock = await lockFile(`${file}.lock`, 0).catch((error: unknown) => {
    if (!(error instanceof LockHeld)) throw error;
    throw new Error(`a server runs on ${path}: stop it first, or what it writes from now on would be lost`, {
      cause: error,
    });
  });
  let db: Database | undefined;
  // To count a table of millions, or to commit it, takes longer than any statement of a server may take.
  const connections = createConnections({ url, connectionsMax: 1, isPatient: true });
  try {
    db = await openFile(file, () => {});
    // Commands that would write wait, and fail in the end.
    db.exec("BEGIN IMMEDIATE");
    foldPrefixes(prepareStatements(db));
    if (movedFrom(db) === undefined) moveAllOut(prepareStatements(db));
    await prepareTarget(url, connections);
    return await copy(db, connections, { target: withoutCredentials(url), onProgress });
  } finally {
    db?.close();
    await connections.close();
    lock.close();
  }
}

/** Makes the tables in an empty database. */
async function prepareTarget(url: string, connections: Connections): Promise<void> {
  try {
    // Before the migration: a database that is in use is not migrated by the way.
    await refuseOccupied(connections);
    await preparePostgres({ url });
  } catch (error) {
    // The URL holds a password: only what the database said is told.
    throw new Error(`the target cannot be used: ${messageOf(error)}`, { cause: error });
  }
}

/** Keeps everyone else from writing to the target, until the end of the transaction. */
async function lockTarget(transaction: Transaction): Promise<void> {
  await transaction.query(once(`SET LOCAL lock_timeout = ${lockWaitMs}`), []);
  await transaction.query(once(`SET LOCAL idle_in_transaction_session_timeout = ${silenceMs}`), []);
  await transaction.query(once(`LOCK TABLE ${copiedTables.join(", ")} IN EXCLUSIVE MODE`), []);
}

async function copy(
  db: Database,
  connections: Connections,
  { target, onProgress }: { readonly target: string; readonly onProgress: CopyOptions["onProgress"] },
): Promise<Copied> {
  const before = movedFrom(db);
  let isComplete = false;
  let counts: readonly Count[] = [];
  try {
    await connections.transact(async (transaction) => {
      await lockTarget(transaction);
      await refuseOccupied(transaction);
      const now = await refuseEarlierClock(db, transaction);
      const plans = plan(db, await targetColumns(transaction));
      // The one row of each that the migrations made; the source has its own.
      for (const table of ["tenants", "summing"]) await transaction.query(once(`DELETE FROM ${table}`), []);
      await copyRows(db, transaction, plans, onProgress);
      counts = await compare(transaction, plans);
      // Or the first queries would be planned for tables of unknown content.
      await transaction.query(once(`ANALYZE ${[...copiedTables, ...followingTables].join(", ")}`), []);
      markMoved(db, { target, at_ms: now }, [...copiedTables, ...followingTables, "clock", "prefix_journal"]);
      isComplete = true;
    });
  } catch (error) {
    if (!isComplete || !(error instanceof StoreUnavailable)) throw error;
    if (!(await wasCommitted(connections, db, error))) throw error;
  }
  try {
    db.exec("COMMIT");
  } catch (error) {
    throw new CopyInDoubt(
      `Everything was copied, but ${db.name} could not be marked as moved: ${messageOf(error)}. Never start otpd on it again: codes could be used once on each side.`,
      { cause: error },
    );
  }
  return { target, before, counts };
}

/** Looks whether a commit that was not answered took place all the same. */
async function wasCommitted(connections: Connections, db: Database, lost: StoreUnavailable): Promise<boolean> {
  try {
    return await connections.transact(async (transaction) => {
      // Free once that commit has come to its end, either way.
      await lockTarget(transaction);
      return (await occupiedTable(transaction)) !== undefined;
    });
  } catch (error) {
    // Marked, so that it is not used on both sides; a marked file can be copied again.
    db.exec("COMMIT");
    throw new CopyInDoubt(
      `Whether everything was copied is not known: the target was lost at the commit (${lost.message}). ${db.name} is marked as moved. Run the command again: if it says that the target holds rows, the copy was made.`,
      { cause: error },
    );
  }
}

// ---- the rows -------------------------------------------------------------------------------------------------------

async function copyRows(
  db: Database,
  transaction: Transaction,
  plans: readonly Plan[],
  onProgress: CopyOptions["onProgress"],
): Promise<void> {
  const total = plans.reduce((sum, { rows }) => sum + rows, 0);
  let done = 0;
  for (const { table, columns } of plans) {
    const names = columns.map(({ name }) => name).join(", ");
    const arrays = columns.map(({ type }, i) => `$${i + 1}::${type}[]`).join(", ");
    const insert = {
      name: `copy-${table}`,
      // Ids that the target would make itself say in which order rows were made.
      text: `INSERT INTO ${table} (${names}) OVERRIDING SYSTEM VALUE SELECT * FROM unnest(${arrays})`,
    };
    for (const batch of batches(db, `SELECT ${names} FROM ${table}`)) {
      await transaction.query(insert, asColumns(batch));
      done += batch.length;
      onProgress({ table, done, total });
    }
  }
  for (const table of numberedTables) {
    await transaction.query(
      once(
        `SELECT setval(pg_get_serial_sequence('${table}', 'id'), coalesce(max(id), 1), max(id) IS NOT NULL) FROM ${table}`,
      ),
      [],
    );
  }
}

/** Counts what has arrived. Throws unless it is all there was. */
async function compare(transaction: Transaction, plans: readonly Plan[]): Promise<Count[]> {
  const counts: Count[] = [];
  for (const { table, rows } of plans) {
    const [row] = await transaction.query<{ arrived: number }>(once(`SELECT count(*) AS arrived FROM ${table}`), []);
    const arrived = row?.arrived ?? 0;
    if (arrived !== rows) throw new Error(`of ${rows} rows of ${table} only ${arrived} have arrived`);
    counts.push({ table, rows, arrived });
  }
  return counts;
}

function* batches(db: Database, sql: string): Generator<Cell[][]> {
  let batch: Cell[][] = [];
  for (const row of db.prepare<[], Cell[]>(sql).raw().iterate()) {
    batch.push(row);
    if (batch.length < batchRowsMax) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

/** What is to be copied. Throws where the two schemas differ: no table and no column is to be left behind unnoticed. */
function plan(db: Database, target: ReadonlyMap<string, readonly Column[]>): Plan[] {
  const source = sourceColumns(db);
  const known = new Set<string>([...copiedTables, ...followingTables, ...sqliteOnly]);
  const unknown = [...source.keys()].filter((table) => !known.has(table));
  if (unknown.length > 0) throw new Error(`the copy does not know the table ${unknown.join(", ")}`);
  return copiedTables.map((table) => {
    const [found, columns] = [source.get(table) ?? [], target.get(table) ?? []];
    const names = found.filter((name) => !sqliteOnlyColumns.includes(`${table}.${name}`));
    const there = columns.map(({ name }) => name);
    const unmatched = [
      ...names.filter((name) => !there.includes(name)),
      ...there.filter((name) => !names.includes(name)),
    ];
    if (unmatched.length > 0) throw new Error(`only one of the two databases has ${table}.${unmatched.join(", ")}`);
    const rows = db.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get() ?? 0;
    return { table, columns, rows };
  });
}

/** The columns of every table in SQLite. */
function sourceColumns(db: Database): Map<string, string[]> {
  const rows = db
    .prepare<[], { table: string; name: string }>(
      `SELECT t.name AS "table", c.name AS name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
       WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'`,
    )
    .all();
  return new Map(
    Object.entries(Object.groupBy(rows, ({ table }) => table)).map(([table, of = []]) => [
      table,
      of.map(({ name }) => name),
    ]),
  );
}

/** The columns of every table in PostgreSQL. */
async function targetColumns(transaction: Transaction): Promise<Map<string, Column[]>> {
  const rows = await transaction.query<Column & { table: string }>(
    once(
      `SELECT table_name AS "table", column_name AS name, data_type AS type FROM information_schema.columns
       WHERE table_schema = current_schema() ORDER BY ordinal_position`,
    ),
    [],
  );
  return new Map(Object.entries(Object.groupBy(rows, ({ table }) => table)).map(([table, of = []]) => [table, of]));
}

// ---- what is refused ------------------------------------------------------------------------------------------------

/** Throws unless the target is empty: without our tables, or with nothing in them but what the migration makes. */
async function refuseOccupied(target: Queried): Promise<void> {
  const table = await occupiedTable(target);
  if (table !== undefined) throw new Error(`its table ${table} holds rows, and only an empty database is copied to`);
}

/** The first of our tables in the target that holds anything. */
async function occupiedTable(target: Queried): Promise<string | undefined> {
  const there = await target.query<{ name: string }>(
    once(
      `SELECT table_name AS name FROM information_schema.tables
       WHERE table_schema = current_schema() AND table_name = ANY($1::text[])`,
    ),
    [[...copiedTables, ...followingTables, ...postgresOnly]],
  );
  const names = new Set(there.map(({ name }) => name));
  for (const table of copiedTables.filter((each) => names.has(each))) {
    if (!names.has("schema_version")) throw new Error(`it has a table ${table} that is not otpd's`);
    // What migrations made. A tenant that was ever written has a revision.
    const written =
      table === "tenants" ? "WHERE id <> 'default' OR revision > 0" : table === "summing" ? "WHERE end_ms > 0" : "";
    const found = await target.query(once(`SELECT 1 FROM ${table} ${written} LIMIT 1`), []);
    if (found.length > 0) return table;
  }
  return undefined;
}

/**
 * Throws where the file has seen a time that the target's clock has not come to: codes that have expired would live
 * again. Resolves with the target's time.
 */
async function refuseEarlierClock(db: Database, transaction: Transaction): Promise<Instant> {
  const [row] = await transaction.query<{ now_ms: number }>(statements.clock, []);
  const now = row?.now_ms ?? 0;
  const seen = db.prepare<[], number>("SELECT now_ms FROM clock").pluck().get() ?? 0;
  if (seen <= now) return now;
  const [ahead, seconds] = [timeOf(seen), Math.ceil((seen - now) / 1_000)];
  throw new Error(
    `the file has seen ${ahead}, and the target's clock is ${seconds} s behind that: codes that have expired would live again. Set the clocks right, and wait until then`,
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
