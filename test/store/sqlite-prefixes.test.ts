/**
 * What a SQLite store tells of decisions about prefixes: each once, when it is durable, and none that was taken back. And
 * that a row whose number cannot be read stands in nobody's way.
 */
import Database from "better-sqlite3";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { newPrefix, prefixOf, type PrefixDecision } from "../../src/otp/limits/pumping-guard.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { prefixesBytes, toPrefixes } from "../../src/store/rows/prefix.ts";
import type { NamedDecision, PrefixName, Store } from "../../src/store/store.ts";
import { createSystem } from "../../src/system.ts";
import { createManualSystem, testEpochMs } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { ann, ben, createActs, ringOf } from "./acts.ts";

const program = fileURLToPath(new URL("program.ts", import.meta.url));
const name = { tenant: "default", prefix: "+3161234" };
const decision: PrefixDecision = {
  kind: "unblocked",
  atMs: testEpochMs,
  ended: 0,
  verified: 0,
  refused: 2,
  untilMs: null,
  enforced: true,
};

test("a decision is told once, after its commit; one whose act failed is never told", async () => {
  const folder = temporaryFolder();
  const received: NamedDecision[] = [];
  const path = join(folder, "otp.db");
  const system = createManualSystem();
  const store = await openSqlite({
    path,
    system,
    exclusive: false,
    onPrefix: (made) => void received.push(made),
  });
  const change = (...decisions: PrefixDecision[]) => store.changePrefix(name, () => ({ record: newPrefix, decisions }));
  // The second is written after the first, and no database takes a moment that is no number.
  await expect(change(decision, { ...decision, atMs: Number.NaN })).rejects.toThrow("NOT NULL");
  await store.ping();
  expect(received).toEqual([]);
  expect(await store.readPrefix(name)).toBeUndefined();
  await change(decision);
  await store.ping();
  expect(received).toEqual([{ ...name, decision }]);
  await store.close();
  rmSync(folder, { recursive: true });
});

describe("changes that are not in the prefixes' rows yet", () => {
  /** A prefix, by its number. */
  const nameOf = (i: number): PrefixName => ({ tenant: "default", prefix: `+3161${i}` });
  const system = createManualSystem();
  let folder: string;
  let path: string;
  beforeEach(() => {
    folder = temporaryFolder();
    path = join(folder, "otp.db");
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const open = () => openSqlite({ path, system, exclusive: false });
  const count = (store: Store, i: number) =>
    store.changePrefix(nameOf(i), (record) => ({ record: { ...record, sent: record.sent + 1 }, decisions: [] }));
  const sentOf = async (store: Store, i: number) => (await store.readPrefix(nameOf(i)))?.record.sent;
  function stored(): { rows: number; journal: number } {
    const db = new Database(path);
    const rows = db.prepare<[], number>("SELECT coalesce(sum(sent), 0) FROM prefixes").pluck().get() ?? 0;
    const journal = db.prepare<[], number>("SELECT count(*) FROM prefix_journal").pluck().get() ?? 0;
    db.close();
    return { rows, journal };
  }

  test("are in the journal, a row for each batch, and count for every process and after every start", async () => {
    const store = await open();
    await Promise.all([count(store, 1), count(store, 2), count(store, 1)]);
    expect(stored()).toEqual({ rows: 0, journal: 1 });
    const other = await open();
    await count(other, 1);
    await count(store, 2);
    expect([await sentOf(store, 1), await sentOf(other, 2)]).toEqual([3, 2]);
    await other.close();
    await store.close();
    const later = await open();
    await count(later, 1);
    expect([await sentOf(later, 1), await sentOf(later, 2), await sentOf(later, 3)]).toEqual([4, 2, undefined]);
    await later.close();
  });

  test("get there ten seconds later, some with each batch, whatever comes in between", async () => {
    const store = await open();
    const all = Array.from({ length: 300 }, (_, i) => i);
    await Promise.all(all.map((i) => count(store, i)));
    system.advance(10_000);
    await count(store, 0);
    expect(stored()).toMatchObject({ rows: 129 });
    await count(store, 0);
    await count(store, 299);
    // What the round was begun with is in the rows; what has changed since is in the journal too.
    expect(stored()).toEqual({ rows: 301, journal: 2 });
    system.advance(10_000);
    await store.ping();
    expect(stored()).toEqual({ rows: 303, journal: 0 });
    expect(await Promise.all(all.map((i) => sentOf(store, i)))).toEqual(
      all.map((i) => (i === 0 ? 3 : i === 299 ? 2 : 1)),
    );
    await store.close();
  });

  test("get there also where another process writes after each batch", async () => {
    const store = await open();
    await Promise.all(Array.from({ length: 300 }, (_, i) => count(store, i)));
    const other = new Database(path);
    system.advance(10_000);
    for (let i = 0; i < 5; i += 1) {
      other.exec("UPDATE clock SET now_ms = now_ms");
      await count(store, 0);
    }
    other.close();
    const { rows, journal } = stored();
    expect(rows).toBeGreaterThanOrEqual(300);
    expect(journal).toBeLessThan(5);
    await store.close();
  });

  test("are taken back with the act that made them, and with its batch", async () => {
    const store = await open();
    await count(store, 1);
    const failing = store.changePrefix(nameOf(1), (record) => ({
      record: { ...record, sent: 9 },
      decisions: [{ ...decision, atMs: Number.NaN }],
    }));
    await Promise.all([expect(failing).rejects.toThrow("NOT NULL"), count(store, 1), count(store, 2)]);
    expect([await sentOf(store, 1), await sentOf(store, 2)]).toEqual([2, 1]);
    await count(store, 1);
    expect(await sentOf(store, 1)).toBe(3);
    await store.close();
  });

  test.each([
    { where: "with some rows written and not committed", at: "INSERT OR REPLACE INTO prefixes", times: 2, kept: 0 },
    { where: "between two of its batches", at: "COMMIT", times: 1, kept: 1 },
    { where: "in a later batch", at: "INSERT OR REPLACE INTO prefixes", times: 12, kept: 0 },
    {
      where: "with all rows written and the journal cut, not committed",
      at: "DELETE FROM prefix_journal",
      times: 1,
      kept: 0,
    },
    { where: "at its end", at: "COMMIT", times: 3, kept: 1 },
  ])("are counted once where the process is killed in the round: $where", async ({ at, times, kept }) => {
    const child = spawn(process.execPath, [program, "round", path, `${times}`, at], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let said = "";
    child.stdout.on("data", (chunk) => (said += String(chunk)));
    const [, signal] = await once(child, "close");
    expect(signal).toBe("SIGKILL");
    const acknowledged = said.split("ack").length - 1;
    expect(acknowledged).toBeGreaterThanOrEqual(300);
    const store = await open();
    const sum = async () => {
      const sent = await Promise.all(Array.from({ length: 300 }, (_, i) => sentOf(store, i)));
      return sent.reduce<number>((total, each) => total + (each ?? 0), 0);
    };
    // What was committed and not told is there as well.
    expect(await sum()).toBe(acknowledged + kept);
    system.advance(10_000);
    for (let i = 0; i < 5; i += 1) await store.ping();
    system.advance(10_000);
    for (let i = 0; i < 5; i += 1) await store.ping();
    expect(stored()).toEqual({ rows: acknowledged + kept, journal: 0 });
    expect(await sum()).toBe(acknowledged + kept);
    await store.close();
  });

  test("are not lost with the process, wherever it is killed", async () => {
    const child = spawn(process.execPath, [program, "sequential", path, "1000000"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let acknowledged = 0;
    for await (const chunk of child.stdout) {
      acknowledged += String(chunk).split("ack").length - 1;
      if (acknowledged >= 100) break;
    }
    child.kill("SIGKILL");
    await once(child, "exit");
    const real = await openSqlite({ path, system: createSystem(), exclusive: true });
    const db = new Database(path);
    const sent = db.prepare<[], number>("SELECT count(*) FROM verifications WHERE tally > 0").pluck().get() ?? 0;
    db.close();
    const record = (await real.readPrefix({ tenant: "default", prefix: prefixOf(ann) }))?.record ?? newPrefix;
    expect(record.sent + record.beyondSent).toBe(sent);
    expect(sent).toBeGreaterThan(0);
    await real.close();
  });
});

test("several prefixes in a row of the journal come back as they were", () => {
  const records = [
    newPrefix,
    { ...newPrefix, phase: "tripped", sent: 1_000, trips: 127, untilMs: testEpochMs, proven: true },
    { ...newPrefix, refused: 2 ** 40, tatMs: testEpochMs + 1, sinceMs: 500, lastMs: 999 },
  ] as const;
  const prefixes = records.map((record, i) => ({ name: { tenant: `tenant-ä-${i}`, prefix: "+3161234" }, record }));
  expect(toPrefixes(prefixesBytes(prefixes))).toEqual(prefixes);
  expect(prefixesBytes(prefixes.slice(0, 1)).length).toBe(36);
});

test.each([[[1]], [[2, 1]]])(
  "a damaged number holds up no sweep and no outbox, under master keys %j",
  async (bytes) => {
    const folder = temporaryFolder();
    const path = join(folder, "otp.db");
    const system = createManualSystem();
    const store = await openSqlite({ path, system, exclusive: false });
    const acts = createActs(store, system, ringOf(...bytes));
    const damaged = await acts.send(ann);
    const whole = await acts.send(ben);
    const db = new Database(path);
    db.prepare("UPDATE verifications SET phone_box = zeroblob(28) WHERE id = ?").run(
      Buffer.from(damaged.verification.id, "base64url"),
    );
    db.close();
    system.advance(600_000);
    // Both are too late to be sent, which ends what they are of.
    expect(await acts.claim()).toEqual([]);
    expect(await store.nextDue()).toBeUndefined();
    expect(await store.sweep(10, 3_600_000, acts.phoneOf)).toMatchObject({ expired: 2 });
    for (const { verification } of [damaged, whole]) {
      expect(await acts.read(verification)).toMatchObject({ state: "EXPIRED", salt: null });
    }
    await store.close();
    rmSync(folder, { recursive: true });
  },
);
