/**
 * What SQLite's write-ahead log has taken, read beside the server from the log's index in shared memory (`-shm`), whose head
 * SQLite documents: the count of transactions at byte 8, that of frames at byte 16, that of frames which are in the database
 * too at byte 96. A reader of frames that are not keeps the log from beginning anew, so that its frames only grow.
 */
import Sqlite from "better-sqlite3";
import { closeSync, openSync, readFileSync, readSync } from "node:fs";

export interface WalCounts {
  /** Transactions that wrote anything. */
  readonly commits: number;
  /** Pages written, each with its head of 24 bytes. */
  readonly frames: number;
}

export interface WalWatch {
  counts(): WalCounts;
  /** How many of the pages written from one count to another are of each table or index. */
  pagesOf(from: WalCounts, to: WalCounts): Map<string, number>;
  end(): void;
}

const [walHeadBytes, frameHeadBytes] = [32, 24];

/** Numbers of 32 bits as the machine has them. */
const [commitsAt, framesAt, copiedAt] = [8, 16, 96];

/** Watches the log of a database that is served. Undefined where a checkpoint has just copied all of it: after another write. */
export function watchWal(path: string): WalWatch | undefined {
  const reader = new Sqlite(path, { readonly: true });
  // Closed after the reader: a process that closes a file lets go of all its locks on it.
  const index = openSync(`${path}-shm`, "r");
  reader.exec("BEGIN");
  reader.prepare("SELECT count(*) FROM sqlite_schema").get();
  const look = (at: number) => {
    const count = new Uint32Array(1);
    readSync(index, count, 0, count.byteLength, at);
    return count[0] ?? 0;
  };
  const watch = {
    counts: () => ({ commits: look(commitsAt), frames: look(framesAt) }),
    pagesOf: (from: WalCounts, to: WalCounts) => pagesOf(path, from.frames, to.frames),
    end() {
      reader.close();
      closeSync(index);
    },
  };
  if (look(copiedAt) < look(framesAt)) return watch;
  watch.end();
  return undefined;
}

/** Whose pages the log's frames hold, as the database has them at the end: the first four bytes of a frame are a page's number. */
function pagesOf(path: string, from: number, to: number): Map<string, number> {
  const log = readFileSync(`${path}-wal`);
  const pageBytes = log.readUInt32BE(8);
  const db = new Sqlite(path, { readonly: true });
  const owners = db
    .prepare<[], { pageno: number; name: string }>(
      `SELECT pageno, name || CASE pagetype WHEN 'internal' THEN ' (inner)' WHEN 'overflow' THEN ' (overflow)' ELSE '' END AS name
       FROM dbstat`,
    )
    .all();
  db.close();
  const names = new Map(owners.map(({ pageno, name }) => [pageno, name]));
  const pages = new Map<string, number>();
  for (let frame = from; frame < to; frame += 1) {
    const name = names.get(log.readUInt32BE(walHeadBytes + frame * (frameHeadBytes + pageBytes))) ?? "free by now";
    pages.set(name, (pages.get(name) ?? 0) + 1);
  }
  return pages;
}
