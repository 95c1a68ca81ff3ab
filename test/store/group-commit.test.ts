/**
 * Group commit: what shares a transaction, what fails alone and what fails together, and what becomes of acts while
 * another process has the database.
 */
import Sqlite, { type Database } from "better-sqlite3";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { GroupCommit, type Transaction } from "../../src/store/sqlite/group-commit.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { StoreUnavailable } from "../../src/store/store.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { ann, createActs } from "./acts.ts";

const program = fileURLToPath(new URL("program.ts", import.meta.url));

let folder: string;
let path: string;
let db: Database;
let commits: GroupCommit<Transaction>;
/** What keeps nothing in memory. */
const unit: Transaction = { begin() {}, end() {}, forget() {}, committed() {} };
/** Every statement that SQLite was given. */
let ran: string[];
/** What the meter was told: when each batch began, how many acts it had, and whether it was durable. */
let batches: [began: number, acts: number, isDurable: boolean][];

beforeEach(() => {
  folder = temporaryFolder();
  path = join(folder, "test.db");
  ran = [];
  db = new Sqlite(path, { timeout: 0, verbose: (sql) => void ran.push(String(sql)) });
  db.pragma("journal_mode = WAL");
  db.exec("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)");
  batches = [];
  commits = new GroupCommit(db, unit, {
    begin: () => 7,
    end: ({ began, acts, isDurable }) => void batches.push([began, acts, isDurable]),
  });
});
afterEach(() => {
  vi.useRealTimers();
  db.close();
  rmSync(folder, { recursive: true, force: true });
});

const put = (id: number, text = "note") => run(() => db.prepare("INSERT INTO notes VALUES (?, ?)").run(id, text));
const run = <T>(act: () => T) => commits.perform({ run: act });
const count = (sql: string) => ran.filter((statement) => statement === sql).length;

/** The ids that another connection finds. */
function stored(): number[] {
  const other = new Sqlite(path, { readonly: true });
  const ids = other.prepare<[], { id: number }>("SELECT id FROM notes ORDER BY id").all();
  other.close();
  return ids.map(({ id }) => id);
}

/** Has another process hold the write lock; resolves with what makes it let go. */
async function holdFromOutside(): Promise<() => Promise<void>> {
  const child = spawn(process.execPath, [program, "hold", path], { stdio: ["pipe", "pipe", "inherit"] });
  await once(child.stdout, "data");
  return async () => {
    child.stdin.end();
    await once(child, "exit");
  };
}

describe("after a transaction", () => {
  test("of several acts the next waits some turns for as many", async () => {
    await Promise.all([put(1), put(2)]);
    const first = put(3);
    await nextTurn();
    await Promise.all([first, put(4)]);
    await Promise.all([put(5), put(6), put(7)]);
    await put(8);
    expect(batches.map(([, acts]) => acts)).toEqual([2, 2, 3, 1]);
  });

  test("of one act the next waits for nobody", async () => {
    await put(1);
    const second = put(2);
    await nextTurn();
    await Promise.all([second, put(3)]);
    expect(batches.map(([, acts]) => acts)).toEqual([1, 1, 1]);
  });
});

describe("acts that come together", () => {
  test("share one transaction, up to 256 of them", async () => {
    await Promise.all(Array.from({ length: 256 }, (_, i) => put(i)));
    expect([count("BEGIN IMMEDIATE"), count("COMMIT")]).toEqual([1, 1]);
    await Promise.all(Array.from({ length: 600 }, (_, i) => put(1_000 + i)));
    expect([count("BEGIN IMMEDIATE"), count("COMMIT")]).toEqual([4, 4]);
    expect(batches).toEqual([256, 256, 256, 88].map((acts) => [7, acts, true]));
    expect(stored()).toHaveLength(856);
  });

  test("run in the order they came", async () => {
    const order: number[] = [];
    await Promise.all(Array.from({ length: 300 }, (_, i) => run(() => void order.push(i))));
    expect(order).toEqual(Array.from({ length: 300 }, (_, i) => i));
  });

  test("fail alone: one that throws takes back what it wrote and nothing else", async () => {
    const outcomes = await Promise.allSettled([
      put(1),
      run(() => {
        db.prepare("INSERT INTO notes VALUES (2, 'half')").run();
        throw new RangeError("a bug");
      }),
      put(3),
      put(1),
      put(4),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual([
      "fulfilled",
      "rejected",
      "fulfilled",
      "rejected",
      "fulfilled",
    ]);
    expect(outcomes[1]).toMatchObject({ reason: new RangeError("a bug") });
    expect(outcomes[3]).toMatchObject({ reason: { code: "SQLITE_CONSTRAINT_PRIMARYKEY" } });
    expect(stored()).toEqual([1, 3, 4]);
  });

  test("beyond 4096 are refused at once, and the rest are done", async () => {
    const outcomes = await Promise.allSettled(Array.from({ length: 4_100 }, (_, i) => put(i)));
    const refused = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason as unknown] : []));
    expect(refused).toHaveLength(4);
    expect(refused.every((reason) => reason instanceof StoreUnavailable)).toBe(true);
    expect(stored()).toHaveLength(4_096);
  });
});

describe("an error that ends the transaction behind SQLite's back", () => {
  const big = "x".repeat(100_000);

  test("a full disk fails every act of the batch, runs none of the rest, writes none, and is over with the shortage", async () => {
    await put(1);
    const pages = db.pragma("page_count", { simple: true }) as number;
    db.pragma(`max_page_count = ${pages + 2}`);
    let standing: boolean | undefined;
    let wentOn = false;
    const outcomes = await Promise.allSettled([
      put(2),
      run(() => {
        try {
          db.prepare("INSERT INTO notes VALUES (3, ?)").run(big);
        } finally {
          standing = db.inTransaction;
        }
      }),
      run(() => {
        wentOn = true;
        db.prepare("INSERT INTO notes VALUES (4, 'outside any transaction')").run();
      }),
    ]);
    // Or this test would show nothing.
    expect(standing).toBe(false);
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ status: "rejected", reason: { name: "StoreUnavailable" } });
    }
    expect(wentOn).toBe(false);
    expect(stored()).toEqual([1]);

    expect(await Promise.allSettled([put(5, big)])).toMatchObject([{ status: "rejected" }]);
    db.pragma("max_page_count = 1000000");
    await Promise.all([put(6, big), put(7)]);
    expect(batches.map(([, acts, isDurable]) => [acts, isDurable])).toEqual([
      [1, true],
      [3, false],
      [1, false],
      [2, true],
    ]);
    expect(stored()).toEqual([1, 6, 7]);
  });

  test("a commit that fails answers none of its acts, and the next batch goes on", async () => {
    db.exec(
      "CREATE TABLE replies (id INTEGER PRIMARY KEY, note INTEGER REFERENCES notes DEFERRABLE INITIALLY DEFERRED)",
    );
    const outcomes = await Promise.allSettled([
      put(1),
      run(() => db.prepare("INSERT INTO replies VALUES (1, 99)").run()),
      put(2),
    ]);
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ status: "rejected", reason: { name: "StoreUnavailable" } });
    }
    expect([stored(), db.inTransaction]).toEqual([[], false]);
    expect(batches).toEqual([[7, 3, false]]);
    await put(3);
    expect(stored()).toEqual([3]);
  });
});

describe("while another process holds the write lock", () => {
  test("acts wait, reads and everything else go on, and the acts are done once it lets go", async () => {
    const system = createManualSystem();
    const store = await openSqlite({ path, system, exclusive: false });
    const acts = createActs(store, system);
    const { verification } = await acts.send(ann);
    const letGo = await holdFromOutside();
    const answers: string[] = [];
    const guesses = Promise.all(
      [acts.wrongCode(verification), acts.rightCode(verification)].map((code) =>
        acts.guess(verification, code).then((answer) => answers.push(answer)),
      ),
    );
    // The lock is let go of from here, after all this: a store that blocked the event loop until then would block for ever.
    for (let i = 0; i < 20; i++) {
      expect((await acts.read(verification)).state).toBe("PENDING");
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    expect(answers).toEqual([]);
    await letGo();
    await guesses;
    expect(answers).toEqual(["CODE_MISMATCH", "verified"]);
    await store.close();
  });

  test("all that waited too long are refused together, however many batches they are, and later ones are done", async () => {
    const letGo = await holdFromOutside();
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const outcomes = Promise.allSettled(Array.from({ length: 600 }, (_, i) => put(i)));
    while (vi.getTimerCount() === 0) await new Promise(setImmediate);
    expect(vi.getTimerCount()).toBe(1);
    // Some six seconds with the real waits in between.
    for (let tries = 0; tries < 400; tries++) await vi.advanceTimersByTimeAsync(10);
    const refused = (await outcomes).filter(
      (outcome) => outcome.status === "rejected" && outcome.reason instanceof StoreUnavailable,
    );
    expect(refused).toHaveLength(600);
    expect(batches).toEqual([[7, 600, false]]);
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
    await letGo();
    await put(1);
    expect(stored()).toEqual([1]);
  });
});

test("a closed one takes no more, and closes once what it has is done", async () => {
  const acts = Array.from({ length: 300 }, (_, i) => put(i));
  await commits.close();
  expect(stored()).toHaveLength(300);
  await Promise.all(acts);
  await expect(put(999)).rejects.toBeInstanceOf(StoreUnavailable);
});
