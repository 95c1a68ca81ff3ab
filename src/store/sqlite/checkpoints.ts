/**
 * Checkpoints on SQLite, which copy what the write-ahead log holds to its place in the database's file. SQLite makes them within a
 * commit, and that commit and all calls behind it wait for thousands of pages and two fsyncs. Here a thread of its own
 * (checkpoint-worker.ts) copies them beside the commits. What was written meanwhile, a few pages, is copied in between two
 * calls. Then nothing of the log is wanted any more, and the next commit begins it anew.
 */
import type { Database, Statement } from "better-sqlite3";
import { closeSync, openSync, writeSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { ownProgram } from "../../own-files.ts";
import type { CheckpointEnded, CheckpointWorkerData } from "./checkpoint-worker.ts";

export interface CheckpointsOptions {
  readonly path: string;
  /** A checkpoint is made whenever the log has grown by so many pages. */
  readonly pages?: number;
  /** The thread ends when it had nothing to do for so long. */
  readonly idleMs?: number;
}

/** What SQLite tells of the log, in pages; -1 for both where there is none. */
interface Log {
  readonly log: number;
  readonly checkpointed: number;
}

/**
 * Twice as many bytes as SQLite gathers by default: a page that changed often is copied once. With pages of 2 KB this is 8 MB.
 */
export const checkpointPages = 4_000;
/** What is left for the thread of the calls, as a part of that: a millisecond, beside the fsyncs. */
const restPart = 1 / 16;
/** How often the thread goes on with what was written meanwhile. A reader may keep the log from being copied whole. */
const passesMax = 3;
/** The log is copied again once it has grown by this part, where a reader has kept it from being begun anew. */
const againPart = 1 / 4;
/** Once the log is so many times as long, calls wait for all of it. */
const logMax = 4;
/** The log is looked at after every so many commits, which takes 4 µs. */
const commitsPerLook = 8;

const resourceLimits = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 1 };

const program = ownProgram("src/store/sqlite/checkpoint-worker");

export class Checkpoints {
  readonly #options: Required<CheckpointsOptions>;
  #file: number | undefined;
  readonly #tell: Statement<[], Log>;
  readonly #copy: Statement<[], Log>;
  #commits = 0;
  /** The next one begins when the log is longer by `pages`. */
  #fromPages = 0;
  #isUnderWay = false;
  #passes = 0;
  #worker: Worker | undefined;
  /** The end of the last one. */
  #ended: Promise<unknown> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(db: Database, { path, pages = checkpointPages, idleMs = 60_000 }: CheckpointsOptions) {
    this.#options = { path, pages, idleMs };
    this.#file = openSync(path, "r+");
    db.pragma("wal_autocheckpoint = 0");
    this.#tell = db.prepare("PRAGMA wal_checkpoint(NOOP)");
    this.#copy = db.prepare("PRAGMA wal_checkpoint(PASSIVE)");
  }

  /** Whether there is a thread just now. */
  get isAwake(): boolean {
    return this.#worker !== undefined;
  }

  /** Begins one, if the log has grown by enough. */
  committed(): void {
    this.#commits += 1;
    if (this.#commits % commitsPerLook !== 0 || this.#isClosed) return;
    const { pages } = this.#options;
    const { log } = this.#look();
    if (log < this.#fromPages) this.#fromPages = 0;
    const grownPages = log - this.#fromPages;
    if (this.#isUnderWay) {
      // A thread that is given no time.
      if (grownPages >= pages * logMax) this.#copyRest();
    } else if (grownPages >= pages) {
      this.#isUnderWay = true;
      this.#passes = 0;
      this.#pass();
    }
  }

  /** Begins no more, and resolves once the thread is gone. */
  async end(): Promise<void> {
    this.#isClosed = true;
    this.#endThread();
    await this.#ended;
  }

  /** To be run once the database is closed: it lets go of the locks that SQLite has of the file. Safe to repeat. */
  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  #look(): Log {
    return attempt(this.#tell) ?? { log: -1, checkpointed: -1 };
  }

  #pass(): void {
    clearTimeout(this.#timer);
    this.#passes += 1;
    try {
      this.#worker ??= this.#start(this.#file as number);
      this.#worker.ref();
      // oxlint-disable-next-line require-post-message-target-origin -- to a thread, which has no origin
      this.#worker.postMessage(undefined);
    } catch {
      this.#finish();
    }
  }

  #start(file: number): Worker {
    const workerData: CheckpointWorkerData = { path: this.#options.path, file };
    // What the process was started with is not for its threads.
    const worker = new Worker(program, { workerData, execArgv: [], env: {}, resourceLimits });
    worker.on("message", ({ lost }: CheckpointEnded) => {
      if (lost !== undefined) killOwn(lost);
      else if (this.#worker === worker) this.#passed();
    });
    // Without a thread it is made here, as SQLite would.
    worker.on("error", () => {
      if (this.#worker !== worker) return;
      this.#endThread();
      if (this.#isUnderWay) this.#finish();
    });
    return worker;
  }

  #passed(): void {
    const { log, checkpointed } = this.#look();
    const { pages } = this.#options;
    if (log - checkpointed <= pages * restPart || log >= pages * logMax) this.#finish();
    else if (this.#passes < passesMax) this.#pass();
    else this.#rest();
  }

  #finish(): void {
    this.#copyRest();
    this.#rest();
  }

  /** Copies what is left. */
  #copyRest(): void {
    attempt(this.#copy);
    this.#fromPages = this.#look().log - this.#options.pages * (1 - againPart);
  }

  #rest(): void {
    this.#isUnderWay = false;
    this.#worker?.unref();
    this.#timer = setTimeout(() => this.#endThread(), this.#options.idleMs).unref();
  }

  #endThread(): void {
    clearTimeout(this.#timer);
    if (this.#worker !== undefined) this.#ended = this.#worker.terminate();
    this.#worker = undefined;
  }
}

/** Nobody hears of a failure, as with SQLite's own checkpoints: the log grows, and the next one has more to copy. */
function attempt(statement: Statement<[], Log>): Log | undefined {
  try {
    return statement.get();
  } catch {
    return undefined;
  }
}

/**
 * Ends the process in this moment. The next one finds the log whole and copies all of it; whoever closed the database would delete
 * the log instead.
 */
function killOwn(why: string): void {
  writeSync(
    process.stderr.fd,
    `the database's file could not be flushed, and otpd ends so that nothing is lost: ${why}\n`,
  );
  process.kill(process.pid, "SIGKILL");
}
