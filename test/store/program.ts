/**
 * A process of its own for tests of the database's files: `node program.ts <mode> <path> [count]`.
 *
 *   sequential   sends `count` codes one after the other, and says "ack" as each is acknowledged
 *   together     sends `count` codes at once, and says "ack" as each is acknowledged
 *   hold         takes the write lock, says "held", and lets go when standard input ends
 *   open         for every path on standard input opens that database, writes, closes it, and says how it went
 */
import Sqlite from "better-sqlite3";
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { createSystem } from "../../src/system.ts";
import { ann, createActs } from "./acts.ts";

const [mode = "", path = "", count = "0"] = process.argv.slice(2);

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
  hold,
  open,
};
await modes[mode]?.();
