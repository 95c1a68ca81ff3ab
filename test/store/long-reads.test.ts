/**
 * Long reads on SQLite: reads over many rows in a thread of their own.
 */
import Sqlite from "better-sqlite3";
import { readdirSync, readFileSync } from "node:fs";
import { getPriority } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createStore } from "../../src/store/acts.ts";
import type { Engine } from "../../src/store/engine.ts";
import { Checkpoints } from "../../src/store/sqlite/checkpoints.ts";
import { SqliteEngine } from "../../src/store/sqlite/engine.ts";
import { openFile } from "../../src/store/sqlite/open.ts";
import { LongReads } from "../../src/store/sqlite/long-reads.ts";
import { LongReadEnded, StoreUnavailable, type Store } from "../../src/store/store.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { ann, createActs } from "./acts.ts";

const count = { name: "count", text: "SELECT count(*) AS count, $1 AS asked FROM verifications" };
/** 40 rows, eight times with one another: it would take years. */
const endless = {
  name: "endless",
  text: `SELECT count(*) AS count FROM verifications AS a, verifications AS b, verifications AS c, verifications AS d,
    verifications AS e, verifications AS f, verifications AS g, verifications AS h
    WHERE a.attempts + b.attempts + c.attempts + d.attempts + e.attempts + f.attempts + g.attempts + h.attempts = $1`,
};

let path: string;
let engine: Engine;
let store: Store;
let longReads: LongReads;
beforeEach(async () => {
  path = join(temporaryFolder(), "otp.db");
  longReads = new LongReads({ path, timeoutMs: 5_000, idleMs: 0 });
  const db = await openFile(path, () => {});
  engine = new SqliteEngine({
    db,
    system: createManualSystem(),
    lock: undefined,
    longReads,
    checkpoints: new Checkpoints(db, { path }),
  });
  store = createStore(engine);
});
afterEach(() => store.close());

test("a long read sees what is committed, and its thread ends when none is asked for", async () => {
  const acts = createActs(store, createManualSystem());
  await acts.send(ann);
  await expect(engine.longRead(count, [7])).resolves.toEqual([{ count: 1, asked: 7 }]);
  await acts.send(ann);
  await expect(engine.longRead(count, [8])).resolves.toEqual([{ count: 2, asked: 8 }]);
  await expect.poll(() => longReads.isAwake).toBe(false);
  await expect(engine.longRead(count, [9])).resolves.toEqual([{ count: 2, asked: 9 }]);
});

test("the thread of long reads leaves a busy core to the calls", async () => {
  await engine.longRead(count, [7]);
  const tasks = process.platform === "linux" ? readdirSync("/proc/self/task") : [];
  const niceOf = (task: string) => readFileSync(`/proc/self/task/${task}/stat`, "utf8").split(") ")[1]?.split(" ")[16];
  const yielding = tasks.filter((task) => Number(niceOf(task)) === Math.min(getPriority() + 10, 19));
  // At 19 all leave it, and none can leave more.
  expect(yielding).toHaveLength(getPriority() === 19 ? tasks.length : Math.min(tasks.length, 1));
});

test("a long read that runs long holds no send up, is ended, and the next one works", async () => {
  const acts = createActs(store, createManualSystem());
  for (let i = 0; i < 40; i++) await acts.send(ann);
  let isOver = false;
  const long = engine.longRead(endless, [-1]).catch((error: unknown) => {
    isOver = true;
    return error;
  });
  let sent = 0;
  // Were sends to wait for it, there would be none before its end.
  for (; sent < 20; sent++) await acts.send(ann);
  expect({ sent, isOver }).toEqual({ sent: 20, isOver: false });
  expect(await long).toEqual(new LongReadEnded("the report took longer than 5 s and was ended"));
  // Its thread has to start anew, and on a busy machine that alone may take its time.
  await expect.poll(() => engine.longRead(count, [1]).catch(() => undefined)).toEqual([{ count: 60, asked: 1 }]);
});

test("a long read writes nothing, and what is no statement fails for itself alone", async () => {
  const acts = createActs(store, createManualSystem());
  await acts.send(ann);
  const remove = { name: "remove", text: "DELETE FROM main.verifications RETURNING id" };
  await expect(engine.longRead(remove, [])).rejects.toThrow(StoreUnavailable);
  await expect(engine.longRead({ name: "nothing", text: "SELECT * FROM nowhere" }, [])).rejects.toThrow("nowhere");
  await expect(engine.longRead(count, [1])).resolves.toEqual([{ count: 1, asked: 1 }]);
});

test("long reads that wait are bounded, and end with the store", async () => {
  const acts = createActs(store, createManualSystem());
  for (let i = 0; i < 40; i++) await acts.send(ann);
  const all = Array.from({ length: 70 }, () => engine.longRead(endless, [-1]).catch((error: Error) => error.message));
  await store.close();
  const [first] = await Promise.all(all);
  expect(first).toBe("the store is closed");
  const refused = (await Promise.all(all)).filter((message) => message === "too many reports wait");
  expect(refused).toHaveLength(5);
  expect(longReads.isAwake).toBe(false);
  // The thread is gone: nobody holds the file.
  const db = new Sqlite(path);
  expect(db.pragma("wal_checkpoint(TRUNCATE)", { simple: true })).toBe(0);
  db.close();
});
