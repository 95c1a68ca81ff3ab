/**
 * What SQLite's store remembers of its latest rows: never more than is stored. Whatever another connection wrote, and
 * whatever was taken back, counts from the next act on.
 */
import Database from "better-sqlite3";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { newPrefix, prefixOf, type PrefixRecord } from "../../src/otp/limits/pumping-guard.ts";
import type { E164 } from "../../src/otp/phone-number.ts";
import { Recent } from "../../src/store/sqlite/recent.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Job, Store } from "../../src/store/store.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { ann, createActs, ringOf, testPolicy, type Acts } from "./acts.ts";

const policy = { ...testPolicy, dailyMessagesMax: 1_000 };
const prefix = { tenant: "default", prefix: prefixOf(ann) };

let folder: string;
let path: string;
let store: Store;
let acts: Acts;
const system = createManualSystem();
beforeEach(async () => {
  folder = temporaryFolder();
  path = join(folder, "otp.db");
  store = await openSqlite({ path, system, exclusive: false });
  acts = createActs(store, system, ringOf(1), policy);
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true });
});

const capsOf = () => [{ kind: "messages", max: 1_000 }] as const;

/** What acts find: each part as the next decision sees it. */
async function seen({ message, verification }: Job) {
  const scope = { tenant: "default", id: verification.id, slot: undefined, phoneOf: acts.phoneOf };
  const update = await store.updateVerification({ ...scope, withPrefix: true, capsOf }, (view) => ({
    writes: {},
    result: { attempts: view.verification?.attempts, sent: view.prefix?.sent, day: view.days?.get("messages")?.count },
  }));
  const calls = await store.settleMessage(message, acts.phoneOf, (view) => ({
    writes: {},
    result: view.message.calls,
  }));
  return { ...update, calls };
}

test("another connection's writes count in the next act", async () => {
  const job = await acts.send(ann);
  expect(await seen(job)).toEqual({ attempts: 0, sent: 1, day: 1, calls: 1 });
  const other = new Database(path);
  other.exec(`UPDATE verifications SET attempts = 4; UPDATE messages SET calls = 3;
    UPDATE counters SET count = 30`);
  other.close();
  const beside = await openSqlite({ path, system, exclusive: false });
  await beside.changePrefix(prefix, (record) => ({ record: { ...record, sent: 20 }, decisions: [] }));
  await beside.close();
  expect(await seen(job)).toEqual({ attempts: 4, sent: 20, day: 30, calls: 3 });
  // And what is decided about it is written over what it was.
  await acts.guess(job.verification, acts.wrongCode(job.verification));
  expect(await acts.read(job.verification)).toMatchObject({ attempts: 5, state: "LOCKED" });
});

test("lists and guesses count in the next act, whoever wrote them", async () => {
  const sent = () =>
    store.openVerification(
      { tenant: "default", slot: undefined, phone: acts.refOf(ann), number: ann },
      ({ verdict, guesses }) => ({ writes: {}, result: [verdict, guesses?.wrong] }),
    );
  expect(await sent()).toEqual([undefined, 0]);
  const entry = { tenant: "default", prefix: "+31", verdict: "block", note: "", createMs: 1 } as const;
  const { verification } = await acts.send(ann);
  await store.registry.putDestination(entry);
  await acts.guess(verification, acts.wrongCode(verification));
  expect(await sent()).toEqual(["block", 1]);
  const other = new Database(path);
  other.exec(`UPDATE destinations SET verdict = 'allow'; UPDATE guesses SET wrong_codes = 9`);
  expect(await sent()).toEqual(["allow", 9]);
  await store.registry.removeDestination("default", "+31");
  expect(await sent()).toEqual([undefined, 9]);
  other.exec(`INSERT INTO destinations VALUES ('default', '+316', 'block', '', 1)`);
  other.close();
  expect(await sent()).toEqual(["block", 9]);
});

test("a tenant that is forgotten within the batch that counted for it keeps its cap", async () => {
  const capped = createActs(store, system, ringOf(1), { ...testPolicy, dailyMessagesMax: 2 });
  const send = (i: number) => capped.trySend(ann, { tenant: `tenant-${i}` });
  for (let i = 0; i < 256; i++) await send(i);
  // The next tenant takes the place of the first.
  expect(await Promise.all([send(0), send(256), send(0)])).toEqual(["opened", "opened", "SPEND_LIMIT"]);
});

test("a phone counts in the next act as others have left it, and in its own batch as that has", async () => {
  const bucketsOf = async () => {
    const scope = { tenant: "default", slot: undefined, phone: acts.refOf(ann) };
    return store.openVerification(scope, ({ phone, now }) => ({ writes: {}, result: phone?.tats.map((t) => t > now) }));
  };
  const { verification } = await acts.send(ann);
  const [wrong, read] = await Promise.all([acts.guess(verification, acts.wrongCode(verification)), bucketsOf()]);
  expect([wrong, read]).toEqual(["CODE_MISMATCH", [true, true]]);
  const other = await openSqlite({ path, system, exclusive: false });
  await other.resetPhone(acts.refOf(ann));
  await other.close();
  expect(await bucketsOf()).toEqual([false, false]);
  // A reset between two sends of one batch is written as it came.
  await Promise.all([
    acts.send(ann),
    store.resetPhone(acts.refOf(ann)),
    acts.send(ann),
    store.resetPhone(acts.refOf(ann)),
  ]);
  expect(await bucketsOf()).toEqual([false, false]);
  expect(await acts.phone(ann)).toMatchObject({ tats: [0, 0], history: { wrongCodes: [], refunds: [] } });
  await Promise.all([store.resetPhone(acts.refOf(ann)), acts.send(ann)]);
  expect(await acts.phone(ann)).toMatchObject({ tats: [system.now() + 1_000, system.now() + 60_000] });
});

test("what a batch has written counts for the sweep in it, which leaves nothing behind", async () => {
  const job = await acts.send(ann);
  expect(await acts.cancel(job.verification)).toBe("canceled");
  system.advance(3_600_000);
  const late = store.settleMessage(job.message, acts.phoneOf, (view) => ({
    writes: { message: { ...view.message, delivery: "DELIVERED" } },
    result: true,
  }));
  const ended = { now: system.now(), max: 10 };
  await Promise.all([late, store.ping(), store.sweep(ended.max, 1, acts.phoneOf)]);
  for (let more = true; more;) ({ more } = await store.sweep(ended.max, 1, acts.phoneOf));
  const db = new Database(path);
  const left = db
    .prepare("SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM verifications)")
    .pluck()
    .get();
  db.close();
  expect(left).toBe(0);
});

test("of more phones than are remembered each keeps its limits, in one batch and after it", async () => {
  const tight = createActs(store, system, ringOf(1), {
    ...testPolicy,
    phoneLimits: [{ burst: 1, intervalMs: 60_000 }],
  });
  const phoneOf = (i: number) => `+316${20_000_000 + i}` as E164;
  for (let i = 0; i < 2_048; i += 256)
    await Promise.all(Array.from({ length: 256 }, (_, k) => tight.send(phoneOf(i + k))));
  // The next phone takes the place of the first, which is denied all the same.
  system.advance(60_000);
  expect(await Promise.all([0, 2_048, 0, 2_048].map((i) => tight.trySend(phoneOf(i))))).toEqual([
    "opened",
    "opened",
    "PHONE_RATE_LIMITED",
    "PHONE_RATE_LIMITED",
  ]);
});

test.each([
  ["alone", 0],
  ["with neighbours", 3],
])("what an act took back counts for no act after it, %s in its batch", async (_, neighbours) => {
  const job = await acts.send(ann);
  const before = await seen(job);
  const scope = { tenant: "default", id: job.verification.id, slot: undefined, phoneOf: acts.phoneOf };
  const failing = store.updateVerification({ ...scope, withPrefix: true, capsOf }, ({ verification, days }) => {
    const daily = days?.get("messages");
    if (verification === undefined || daily === undefined) throw new Error("there is one");
    const message = { ...job.message, calls: 2 };
    return {
      writes: {
        verification: { ...verification, attempts: 4 },
        message,
        prefix: { record: { ...newPrefix, sent: 20 }, decisions: [] },
        // No database takes a count that is no number, and it is written last.
        days: new Map([["messages", { ...daily, count: Number.NaN }]]),
      },
      result: undefined,
    };
  });
  const pings = Array.from({ length: neighbours }, () => seen(job));
  await expect(failing).rejects.toThrow("NOT NULL");
  for (const found of await Promise.all(pings)) expect(found).toEqual(before);
  expect(await seen(job)).toEqual(before);
});

test("what a sweep has ended has ended for the next act, and lets go of its salt", async () => {
  const { verification } = await acts.send(ann);
  system.advance(600_000);
  expect(await store.sweep(10, 3_600_000, acts.phoneOf)).toMatchObject({ expired: 1 });
  const scope = { tenant: "default", id: verification.id, slot: undefined, phoneOf: acts.phoneOf };
  const found = await store.updateVerification(scope, (view) => ({ writes: {}, result: view.verification }));
  expect(found).toMatchObject({ state: "EXPIRED", salt: null });
});

test("a prefix that was swept is as new", async () => {
  await acts.send(ann);
  expect(await store.readPrefix(prefix)).toMatchObject({ record: { sent: 1 } });
  system.advance(40 * 24 * 3_600_000);
  // Two rounds: what ended in the first one is counted at its prefix.
  for (let more = true; more;) ({ more } = await store.sweep(100, 3_600_000, acts.phoneOf));
  system.advance(40 * 24 * 3_600_000);
  for (let more = true; more;) ({ more } = await store.sweep(100, 3_600_000, acts.phoneOf));
  expect(await store.readPrefix(prefix)).toBeUndefined();
  const found: PrefixRecord[] = [];
  await store.changePrefix(prefix, (record) => void found.push(record));
  expect(found).toEqual([newPrefix]);
});

test("no more is kept than was asked for", () => {
  const recent = new Recent<number>(2);
  for (const n of [1, 2, 3]) recent.set(`${n}`, n);
  recent.set("3", 4);
  expect(["1", "2", "3"].map((key) => recent.get(key))).toEqual([undefined, 2, 4]);
  recent.delete("2");
  expect(recent.get("2")).toBeUndefined();
  recent.clear();
  expect(recent.get("3")).toBeUndefined();
});
