/**
 * Checkpoints on SQLite: the write-ahead log is copied by a thread of its own, beside the commits, and begun anew.
 */
import Sqlite, { type Database } from "better-sqlite3";
import { existsSync, readdirSync, readFileSync, readlinkSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { createStore } from "../../src/store/acts.ts";
import { Checkpoints, type CheckpointsOptions } from "../../src/store/sqlite/checkpoints.ts";
import { SqliteEngine } from "../../src/store/sqlite/engine.ts";
import { LongReads } from "../../src/store/sqlite/long-reads.ts";
import { openFile } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { converse } from "../support/processes/conversation.ts";
import { createManualSystem, seededRandom } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";

const program = fileURLToPath(new URL("program.ts", import.meta.url));

/** A checkpoint for every so many; each write is one or two. */
const pages = 40;

let path: string;
beforeEach(() => {
  path = join(temporaryFolder(), "otp.db");
});

interface Opened {
  readonly db: Database;
  readonly checkpoints: Checkpoints;
  readonly store: Store;
  /** Writes a page or two. */
  write(): Promise<void>;
}

async function open(options: Partial<CheckpointsOptions> = {}): Promise<Opened> {
  const db = await openFile(path, () => {});
  const checkpoints = new Checkpoints(db, { path, pages, ...options });
  const longReads = new LongReads({ path });
  const system = createManualSystem();
  const store = createStore(new SqliteEngine({ db, system, lock: undefined, longReads, checkpoints }));
  onTestFinished(() => store.close());
  return {
    db,
    checkpoints,
    store,
    write() {
      system.advance(1);
      return store.ping();
    },
  };
}

interface Log {
  readonly log: number;
  readonly checkpointed: number;
}

/** What the log holds, and how much of that is in the database's file; in pages. */
const logOf = (db: Database) => (db.pragma("wal_checkpoint(NOOP)") as [Log])[0];

/** Writes until the log holds so many pages. */
async function fill({ db, write }: Opened, atLeast: number): Promise<void> {
  while (logOf(db).log < atLeast) await write();
}

/** Writes until the log is begun anew. */
async function untilAnew({ db, write }: Opened): Promise<void> {
  for (let last = 0; logOf(db).log >= last;) {
    last = logOf(db).log;
    await write();
    // A turn in which the thread's word is heard.
    await sleep(1);
  }
}

test("the log is begun anew, again and again, once a thread has copied it", async () => {
  const opened = await open();
  for (let time = 0; time < 3; time += 1) {
    await untilAnew(opened);
    expect(opened.checkpoints.isAwake).toBe(true);
  }
});

test("the thread copies while the thread of the calls does nothing, and no commit copies anything", async () => {
  const opened = await open();
  // The thread is there.
  await untilAnew(opened);
  const { db, checkpoints } = opened;
  for (let i = 0; i < 2 * pages; i += 1) db.exec("UPDATE clock SET now_ms = now_ms + 1");
  expect(logOf(db)).toMatchObject({ checkpointed: 0 });
  for (let i = 0; i < 8; i += 1) checkpoints.committed();
  const idle = new Int32Array(new SharedArrayBuffer(4));
  // No turn of the event loop goes by.
  for (let i = 0; i < 20_000 && logOf(db).checkpointed === 0; i += 1) Atomics.wait(idle, 0, 0, 1);
  expect(logOf(db).checkpointed).toBeGreaterThanOrEqual(2 * pages);
});

test("the thread ends when there is nothing to do, and the next checkpoint has another", async () => {
  const opened = await open({ idleMs: 0 });
  for (let time = 0; time < 2; time += 1) {
    await untilAnew(opened);
    await expect.poll(() => opened.checkpoints.isAwake).toBe(false);
  }
});

test("what the thread does leaves the process its locks: who else opens and closes the database does not end its log", async () => {
  const opened = await open({ idleMs: 0 });
  await untilAnew(opened);
  await expect.poll(() => opened.checkpoints.isAwake).toBe(false);
  const other = converse(process.execPath, [program, "open"], temporaryFolder(), {});
  expect(await other.say(path)).toBe("opened");
  await other.end();
  expect(existsSync(`${path}-wal`)).toBe(true);
});

test("a reader keeps the log, which is begun anew once it is gone", async () => {
  const opened = await open();
  const reader = new Sqlite(path, { readonly: true });
  onTestFinished(() => void reader.close());
  reader.exec("BEGIN");
  const before = reader.prepare("SELECT * FROM clock").all();
  const { log } = logOf(opened.db);
  await fill(opened, log + 6 * pages);
  expect(reader.prepare("SELECT * FROM clock").all()).toEqual(before);
  reader.exec("COMMIT");
  await untilAnew(opened);
});

test("without a thread the log is copied all the same", async () => {
  const odd = join(temporaryFolder(), "odd.db");
  writeFileSync(odd, "no database ".repeat(1_000));
  const opened = await open({ path: odd });
  await untilAnew(opened);
  await expect.poll(() => opened.checkpoints.isAwake).toBe(false);
});

test("a file that was put in the place of the database's is left alone", async () => {
  const opened = await open();
  renameSync(path, `${path}.moved`);
  writeFileSync(path, "another file");
  await untilAnew(opened);
  await expect.poll(() => opened.checkpoints.isAwake).toBe(false);
  expect(readFileSync(path, "utf8")).toBe("another file");
});

test("a store that is closed in the middle of a checkpoint leaves one file, whole, and nothing open", async () => {
  const opened = await open();
  await fill(opened, pages + 16);
  await opened.store.close();
  const files = existsSync("/proc/self/fd") ? readdirSync("/proc/self/fd") : [];
  const stillOpen = files.map((file) => {
    try {
      return readlinkSync(join("/proc/self/fd", file));
    } catch {
      return "";
    }
  });
  expect(stillOpen.filter((file) => file.startsWith(path))).toEqual([]);
  expect(existsSync(`${path}-wal`)).toBe(false);
  const db = new Sqlite(path);
  expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
  db.close();
});

/** Holds what a process acknowledged before it was killed against what is there. */
function expectWhole(acknowledged: readonly string[]): void {
  const db = new Sqlite(path);
  expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
  const rows = db.prepare<[], Buffer>("SELECT id FROM verifications").pluck().all();
  db.close();
  const held = new Set(rows.map((id) => id.toString("base64url")));
  expect(acknowledged.filter((id) => !held.has(id))).toEqual([]);
}

test("a process whose system fails to flush the database's file ends at once, and nothing is lost", async () => {
  const child = converse(process.execPath, [program, "unflushed", path], temporaryFolder(), {});
  const acknowledged: string[] = [];
  const all = async () => {
    for (;;) acknowledged.push(await child.heard());
  };
  await expect(all()).rejects.toThrow("could not be flushed");
  // Killed: closed in good order it would have deleted the log.
  expect(await child.ended).toBeNull();
  expect(acknowledged.length).toBeGreaterThan(0);
  expectWhole(acknowledged);
});

test("a process that is killed in the middle of checkpoints loses nothing that it acknowledged", async () => {
  const random = seededRandom(20_261_124);
  const acknowledged: string[] = [];
  for (let round = 0; round < 8; round += 1) {
    const child = converse(process.execPath, [program, "endless", path], temporaryFolder(), {});
    const count = 20 + Math.floor(random() * 40);
    for (let i = 0; i < count; i += 1) acknowledged.push(await child.heard());
    await child.end("SIGKILL");
    expectWhole(acknowledged);
  }
});
