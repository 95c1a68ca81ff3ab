/**
 * What SQLite's write-ahead log has taken, read beside the server from the log's index in shared memory (`-shm`), whose head
 * SQLite documents: the count of transactions at byte 8, that of frames at byte 16, that of frames which are in the database
 * too at byte 96. A reader of frames that are not keeps the log from beginning anew, so that its frames only grow.
 */
import Sqlite from "better-sqlite3";
import { closeSync, openSync, readSync } from "node:fs";

export interface WalCounts {
  /** Transactions that wrote anything. */
  readonly commits: number;
  /** Pages written, each with its head of 24 bytes. */
  readonly frames: number;
}

export interface WalWatch {
  counts(): WalCounts;
  end(): void;
}

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
    end() {
      reader.close();
      closeSync(index);
    },
  };
  if (look(copiedAt) < look(framesAt)) return watch;
  watch.end();
  return undefined;
}
