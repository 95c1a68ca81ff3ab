/**
 * The thread of checkpoints: it copies what the write-ahead log holds, as far as the log goes when it is asked to, while others
 * go on writing. checkpoints.ts asks it, and hears when it is through.
 */
import Sqlite from "better-sqlite3";
import { fstatSync, fsyncSync, statSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { yieldToCalls } from "./yield-to-calls.ts";

export interface CheckpointWorkerData {
  readonly path: string;
  /** The database's file, opened by who began the thread. Whoever closes it lets go of all locks that the process has of it. */
  readonly file: number;
}

export interface CheckpointEnded {
  /** Why pages that were copied may not be on the disk, and never will be. */
  readonly lost: string | undefined;
}

const { path, file } = workerData as CheckpointWorkerData;
yieldToCalls();
if (fstatSync(file).ino !== statSync(path).ino) throw new Error("the database's file was replaced");
// It waits for nobody: whoever checkpoints at the same time does what it would.
const db = new Sqlite(path, { fileMustExist: true, timeout: 0 });
db.pragma("synchronous = FULL");
const copyLog = db.prepare("PRAGMA wal_checkpoint(PASSIVE)");

/** Copies. What fails stays in the log. */
function copy(): void {
  try {
    copyLog.all();
  } catch {
    // As with SQLite's own checkpoints, nobody hears of it: the next one has more to copy.
  }
}

/**
 * SQLite flushes the file once nothing of the log is left, which here the thread of the calls sees to: without this, calls would
 * wait for all that was copied. After a flush that failed the system holds the pages for written, and SQLite for copied.
 */
function flush(): string | undefined {
  try {
    fsyncSync(file);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

parentPort?.on("message", () => {
  copy();
  // oxlint-disable-next-line require-post-message-target-origin -- to a thread, which has no origin
  parentPort?.postMessage({ lost: flush() } satisfies CheckpointEnded);
});
