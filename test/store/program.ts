/**
 * A process of its own for tests of the database's files: `node program.ts <mode> <path> [count] [statement]`.
 *
 *   sequential   sends `count` codes one after the other, and says "ack" as each is acknowledged
 *   together     sends `count` codes at once, and says "ack" as each is acknowledged
 *   round        counts at 300 prefixes, says "ack" for each, then once more at some while their rows are brought up to date;
 *                kills itself as it has run the statement that begins with the last argument, for the `count`-th time
 *   sums         half a day later sweeps four rows at a time; kills itself as it has run the statement that begins with the
 *                last argument, for the `count`-th time
 *   endless      sends codes to one phone after another with a checkpoint for every 40 pages, and says the id of each as it is
 *                acknowledged, until it is killed
 *   unflushed    the same, where the system cannot flush the database's file
 *   hold         takes the write lock, says "held", and lets go when standard input ends
 *   open         for every path on standard input opens that database, writes, closes it, and says how it went
 */
import Sqlite from "better-sqlite3";
import fs, { writeSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { createInterface } from "node:readline";
import type { E164 } from "../../src/otp/phone-number.ts";
import { createStore } from "../../src/store/acts.ts";
import { Checkpoints } from "../../src/store/sqlite/checkpoints.ts";
import { SqliteEngine } from "../../src/store/sqlite/engine.ts";
import { LongReads } from "../../src/store/sqlite/long-reads.ts";
import { openFile, openSqlite } from "../../src/store/sqlite/open.ts";
import { createSystem } from "../../src/system.ts";
import { createManualSystem } from "../support/service/system.ts";
import { ann, createActs, testCharge } from "./acts.ts";

const [mode = "", path = "", count = "0", statement = ""] = process.argv.slice(2);

// At once and not by a buffer: where "ack" stands in a trace of system calls matters.
const say = (text: string) => void writeSync(1, `${text}\n`);

async function send(all: boolean): Promise<void> {
  const system = createSystem();
  const store = await openSqlite({ path, system, exclusive: true });
  const acts = createActs(store, system);
  const one = () => acts.send(ann).then(() => say("ack"));
  if (all) await Promise.all(Array.from({ length: Number(count) }, one));
  else for (let i = 0; i < Number(count); i++) await one();
  await store.close();
}

async function endless(): Promise<void> {
  const system = createSystem();
  const db = await openFile(path, () => {});
  const checkpoints = new Checkpoints(db, { path, pages: 40 });
  const longReads = new LongReads({ path });
  const store = createStore(new SqliteEngine({ db, system, lock: undefined, longReads, checkpoints }));
  const acts = createActs(store, system);
  for (let i = 10_000_000; ; i += 1) say((await acts.send(`+316${i}` as E164)).verification.id);
}

/** Has a file that is opened to be written be one that cannot be flushed, as of a disk that fails. Linux alone has such. */
function unflushed(): Promise<void> {
  const { openSync } = fs;
  fs.openSync = (file, flags, ...rest) => openSync(file, flags === "r+" ? 0o10000000 : flags, ...rest);
  syncBuiltinESMExports();
  return endless();
}

async function round(): Promise<void> {
  const system = createManualSystem();
  const store = await openSqlite({ path, system, exclusive: true });
  const add = (i: number) =>
    store
      .changePrefix({ tenant: "default", prefix: `+3161${i}` }, (record) => ({
        record: { ...record, sent: record.sent + 1 },
        decisions: [],
      }))
      .then(() => say("ack"));
  await Promise.all(Array.from({ length: 300 }, (_, i) => add(i)));
  system.advance(10_000);
  killAfter(statement, Number(count));
  for (let i = 0; i < 4; i++) await add(i);
}

async function sums(): Promise<void> {
  const system = createManualSystem();
  const store = await openSqlite({ path, system, exclusive: true, chargeOf: testCharge });
  system.advance(43_200_000);
  killAfter(statement, Number(count));
  while ((await store.sweep(4, 86_400_000)).more);
}

/** Has the process killed as it has run a statement so often. */
function killAfter(beginning: string, times: number): void {
  const db = new Sqlite(":memory:");
  const prepared = Object.getPrototypeOf(db.prepare("SELECT 1")) as { run: (...args: unknown[]) => unknown };
  const { run } = prepared;
  let left = times;
  prepared.run = function killing(this: { readonly source: string }, ...args) {
    const done = run.apply(this, args);
    if (this.source.startsWith(beginning)) left -= 1;
    if (left === 0) process.kill(process.pid, "SIGKILL");
    return done;
  };
}

async function hold(): Promise<void> {
  const db = new Sqlite(path);
  db.exec("BEGIN IMMEDIATE");
  say("held");
  for await (const _ of process.stdin);
  db.exec("COMMIT");
  db.close();
}

async function open(): Promise<void> {
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      const store = await openSqlite({ path: line, system: createSystem(), exclusive: false });
      await store.ping();
      await store.close();
      say("opened");
    } catch (error) {
      say(`failed: ${String(error)}`);
    }
  }
}

const modes: Record<string, () => Promise<void>> = {
  sequential: () => send(false),
  together: () => send(true),
  endless,
  unflushed,
  round,
  sums,
  hold,
  open,
};
await modes[mode]?.();
