/**
 * The thread of long reads. It has a connection of its own that cannot write, so that a long read holds up no call.
 * long-reads.ts hands it one at a time.
 *
 * SQLite's driver cannot interrupt a statement. So each table is read here through a view of the same name, whose
 * condition is asked once for each row, and fails once the long read's time is over.
 */
import Sqlite from "better-sqlite3";
import { parentPort, workerData } from "node:worker_threads";
import { yieldToCalls } from "./yield-to-calls.ts";

export interface LongReadWorkerData {
  readonly path: string;
  /** An Int32 that is not 0 once the long read under way is to end. */
  readonly isOver: SharedArrayBuffer;
}

export interface LongReadQuestion {
  readonly id: number;
  /** With a `?` for each value. */
  readonly text: string;
  readonly values: readonly unknown[];
  readonly rowsMax: number;
}

/** Rows, or what SQLite said instead. */
export type LongReadAnswer = { readonly id: number } & (
  | { readonly rows: unknown[] }
  | { readonly message: string; readonly code: string | undefined }
);

const waitMs = 1_000;
const statementsMax = 100;

const { path, isOver } = workerData as LongReadWorkerData;
const flag = new Int32Array(isOver);
yieldToCalls();
const db = open();
const prepared = new Map<string, Sqlite.Statement>();

function open(): Sqlite.Database {
  const opened = new Sqlite(path, { readonly: true, fileMustExist: true, timeout: waitMs });
  opened.pragma("temp_store = MEMORY");
  opened.function("otp_goes_on", { deterministic: false, varargs: true }, () => {
    if (Atomics.load(flag, 0) !== 0) throw new Error("the report's time is over");
    return 1;
  });
  const tables = opened.prepare<[], { name: string; hasNoRowid: number; key: string }>(
    `SELECT t.name, t.wr AS hasNoRowid, c.name AS key FROM pragma_table_list AS t, pragma_table_info(t.name) AS c
      WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite%' AND c.pk = 1`,
  );
  for (const { name, hasNoRowid, key } of tables.all()) {
    // Of a column, or it would be asked in the outermost of several loops alone; of one that every index holds.
    const inEach = hasNoRowid === 1 ? `"${key}"` : "rowid";
    opened.exec(`CREATE TEMP VIEW "${name}" AS SELECT * FROM main."${name}" WHERE otp_goes_on(${inEach})`);
  }
  opened.pragma("query_only = ON");
  return opened;
}

function statementOf(text: string): Sqlite.Statement {
  const known = prepared.get(text);
  if (known !== undefined) return known;
  if (prepared.size >= statementsMax) prepared.clear();
  const made = db.prepare(text);
  prepared.set(text, made);
  return made;
}

function read({ text, values, rowsMax }: LongReadQuestion): unknown[] {
  const rows: unknown[] = [];
  for (const row of statementOf(text).iterate(...values)) {
    if (rows.push(row) > rowsMax) throw new Error(`the report has more than ${rowsMax} rows`);
    if (Atomics.load(flag, 0) !== 0) throw new Error("the report's time is over");
  }
  return rows;
}

parentPort?.on("message", (question: LongReadQuestion) => {
  const { id } = question;
  let answer: LongReadAnswer;
  try {
    answer = { id, rows: read(question) };
  } catch (error) {
    const { message, code } = error as { readonly message: string; readonly code?: string };
    answer = { id, message, code };
  }
  // oxlint-disable-next-line require-post-message-target-origin -- to a thread, which has no origin
  parentPort?.postMessage(answer);
});

// Rows with a number that no question has: the thread is there.
// oxlint-disable-next-line require-post-message-target-origin -- to a thread, which has no origin
parentPort?.postMessage({ id: 0, rows: [] } satisfies LongReadAnswer);
