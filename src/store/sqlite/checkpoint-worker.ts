/**
 * The thread of checkpoints: it copies what the write-ahead log holds, as far as the log goes when it is asked to, while others
 * go on writing. checkpoints.ts asks it, and hears when it is through.
 */
import Sqlite from "better-sqlite3";
import { fsyncSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { yieldToCalls } from "./yield-to-calls.ts";

export interface CheckpointWorkerData {
  readonly path: string;
  /** The database's file, opened by who began the thread. Whoever closes it lets go of all locks that the process has of it. */
  readonly file: number;
}

/** What SQLite said instead, if it did. */
export interface CheckpointEnded {
  readonly fault: string | undefined;
}

const { path, file } = workerData as CheckpointWorkerData;
yieldToCalls();
// It waits for nobody: whoever checkpoints at the same time does what it would.
const db = new Sqlite(path, { fileMustExist: true, timeout: 0 });
db.pragma("synchronous = FULL");
const copyLog = db.prepare("PRAGMA wal_checkpoint(PASSIVE)");

parentPort?.on("message", () => {
  let fault: string | undefined;
  try {
    copyLog.all();
    // SQLite does so once nothing of the log is left, which here the thread of the calls has to see to.
    fsyncSync(file);
  } catch (error) {
    fault = (error as Error).message;
  }
  // oxlint-disable-next-line require-post-message-target-origin -- to a thread, which has no origin
  parentPort?.postMessage({ fault } satisfies CheckpointEnded);
});
