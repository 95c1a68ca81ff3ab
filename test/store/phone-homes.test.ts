/**
 * What is kept of a phone on SQLite, in the row of its latest verification: always in one place, and found there.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { phoneStateBytes, toPhoneState } from "../../src/store/rows/phone.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { inDatabase } from "../support/databases/rows.ts";
import { createManualSystem } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { ann, ben, createActs, ringOf, type Acts } from "./acts.ts";

let folder: string;
let path: string;
let store: Store;
let acts: Acts;
let system: ReturnType<typeof createManualSystem>;

beforeEach(async () => {
  folder = temporaryFolder();
  path = join(folder, "otp.db");
  system = createManualSystem();
  store = await openSqlite({ path, system, exclusive: false });
  acts = createActs(store, system);
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true });
});

const count = (sql: string) =>
  inDatabase(path, (db) => db.prepare<[], number>(`SELECT count(*) FROM ${sql}`).pluck().get());
const places = () => [count("verifications WHERE of_phone IS NOT NULL"), count("buckets"), count("phones")];

test("it is in the latest verification's row alone, and in rows of its own once that is deleted", async () => {
  const verifications = [];
  for (let i = 0; i < 3; i++) {
    const { verification } = await acts.send(ann);
    await acts.guess(verification, acts.wrongCode(verification));
    verifications.push(verification);
    expect(places()).toEqual([1, 0, 0]);
  }
  await Promise.all([acts.send(ben), acts.send(ben), acts.send(ann)]);
  expect(places()).toEqual([2, 0, 0]);
  // All that changes a phone beside a send stays with the latest.
  for (const verification of verifications) await acts.guess(verification, acts.rightCode(verification));
  expect(places()).toEqual([2, 0, 0]);
  system.advance(5 * 86_400_000);
  while ((await store.sweep(10, 86_400_000)).more);
  while ((await store.sweep(10, 86_400_000)).more);
  expect(places()).toEqual([0, 0, 0]);
});

test("what an earlier version left in rows of its own is used, written in its place, and gathered by the next send", async () => {
  const { verification } = await acts.send(ann);
  const [index = new Uint8Array()] = acts.refOf(ann).indexes;
  const { kid } = acts.keys.current;
  const at = (place: number) => Buffer.concat([index, Buffer.of(place)]);
  inDatabase(path, (db) => {
    db.exec("UPDATE verifications SET of_phone = NULL");
    const put = db.prepare("INSERT INTO buckets VALUES (?, ?, ?)");
    for (const [place, tatMs] of [
      [0x10, system.now() + 1_000],
      [0x11, system.now() + 70_000],
      [0x20, system.now() + 80_000],
    ] as const) {
      put.run(at(place), tatMs, kid);
    }
    db.prepare("INSERT INTO phones VALUES (?, '[]', ?, ?)").run(index, JSON.stringify([system.now()]), kid);
  });
  const before = { tats: [system.now() + 1_000, system.now() + 70_000], history: { refunds: [system.now()] } };
  expect(await acts.phone(ann)).toMatchObject(before);
  await acts.guess(verification, acts.wrongCode(verification));
  expect(places()).toEqual([0, 3, 1]);
  const next = (await acts.send(ann)).verification;
  expect(places()).toEqual([1, 0, 0]);
  const gathered = {
    tats: [system.now() + 2_000, system.now() + 130_000],
    history: { refunds: [system.now()], wrongCodes: [[expect.any(Number), 1]] },
  };
  expect(await acts.phone(ann)).toMatchObject(gathered);
  expect((await acts.phone(ann, { knownUser: true })).tats).toEqual([system.now() + 80_000, 0]);
  await acts.guess(next, acts.wrongCode(next));
  expect(places()).toEqual([1, 0, 0]);
});

test("it is found where the clock was set back, and only the latest verification has a later time", async () => {
  const first = (await acts.send(ann)).verification;
  await acts.guess(first, acts.wrongCode(first));
  await store.close();
  // As a crash leaves it that is followed by an earlier time.
  inDatabase(path, (db) =>
    db.exec("UPDATE clock SET now_ms = 0; UPDATE verifications SET create_ms = create_ms + 5000"),
  );
  store = await openSqlite({ path, system, exclusive: false });
  acts = createActs(store, system);
  const second = (await acts.send(ann)).verification;
  await acts.guess(second, acts.wrongCode(second));
  await store.close();
  store = await openSqlite({ path, system, exclusive: false });
  acts = createActs(store, system);
  expect((await acts.phone(ann)).history.wrongCodes).toEqual([[expect.any(Number), 2]]);
  expect(places()).toEqual([1, 0, 0]);
});

test("under an older master key nothing of it is left where it has moved to the current one", async () => {
  const { verification } = await acts.send(ann);
  await acts.guess(verification, acts.wrongCode(verification));
  const rotated = createActs(store, system, ringOf(2, 1));
  const next = (await rotated.send(ann)).verification;
  await rotated.guess(next, rotated.wrongCode(next));
  const left = inDatabase(path, (db) =>
    db
      .prepare<[Uint8Array], Buffer>("SELECT of_phone FROM verifications WHERE phone_index = ?")
      .pluck()
      .get(verification.phoneIndex),
  );
  expect(toPhoneState(left ?? new Uint8Array())).toEqual({ tats: new Map(), history: undefined });
});

test("it is read as it was written, and refused from a newer version", () => {
  const states = [
    { tats: new Map(), history: undefined },
    { tats: new Map([[0x10, 1_700_000_000_123]]), history: undefined },
    {
      tats: new Map([
        [0x10, 0],
        [0x23, Number.MAX_SAFE_INTEGER],
      ]),
      history: { wrongCodes: [[20_000, 300] as const], refunds: [1, 1_700_000_000_000] },
    },
    // Numbers on both sides of where one byte, four, five and eight are enough; and more of them than there is room for at first.
    {
      tats: new Map(),
      history: { wrongCodes: [], refunds: [7, 28, 35, 49].flatMap((bits) => [2 ** bits - 1, 2 ** bits]) },
    },
    { tats: new Map(), history: { wrongCodes: [], refunds: Array<number>(200).fill(1_700_000_000_123) } },
  ];
  for (const state of states) expect(toPhoneState(phoneStateBytes(state))).toEqual(state);
  expect(() => toPhoneState(Buffer.of(2))).toThrow("newer version");
  for (const tatMs of [Number.NaN, 0.5, -1]) {
    expect(() => phoneStateBytes({ tats: new Map([[0x10, tatMs]]) })).toThrow("not a whole number");
  }
});
