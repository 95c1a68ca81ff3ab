/**
 * Migrations: the list only ever grows, a failed one leaves the database as it was, and a database of the first schema
 * works under every later version.
 */
import Sqlite, { type Database } from "better-sqlite3";
import { createHash } from "node:crypto";
import { copyFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { idempotencyClaim } from "../../src/otp/verification/idempotency.ts";
import { emptyLog } from "../../src/otp/verification/verification.ts";
import type { State } from "../../src/otp/state.ts";
import { createAuthenticate } from "../../src/service/callers/api-keys.ts";
import { migrate } from "../../src/store/sqlite/migrate.ts";
import { migrations } from "../../src/store/sqlite/migrations.ts";
import { MasterKeyMismatch } from "../../src/store/registry.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { logOf } from "../support/data/examples.ts";
import { createManualSystem, testEpochMs } from "../support/service/system.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { ann, ben, createActs, ringOf, shareOf, testPolicy } from "./acts.ts";
import { fixtureIdempotency, fixtureKeyByte } from "./fixtures/make-schema-0001.ts";

/** Each migration that was released, and the SHA-256 of its SQL: databases out there have run exactly this. */
const released = [["0001-first", "627b51618607845ddfff8838e3789a250fa235ae375e5bf9f77047c9b25019a6"]];

const fixture = join(import.meta.dirname, "fixtures/schema-0001.db");
/** What make-schema-0001.ts told when it made the fixture. */
const fixtureApiKey = "otp_live_a6SNiTWnRd_Oc4UnJtEBO9p7HwI4Q5JOl8H5hI2Gk2V12s2Zf";
const fixtureEndMs = testEpochMs + 600_000;

let folder: string;
let path: string;
beforeEach(() => {
  folder = temporaryFolder();
  path = join(folder, "otp.db");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Tables and indexes, as SQLite describes them. */
function schemaOf(db: Database): unknown[] {
  return db.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").all();
}

const versionOf = (db: Database) => db.pragma("user_version", { simple: true });

test("a released migration is never changed, and the list only grows at its end", () => {
  const digests = migrations.map(({ name, sqlite }) => [name, createHash("sha256").update(sqlite).digest("hex")]);
  expect(digests.slice(0, released.length)).toEqual(released);
});

describe("a migration that fails", () => {
  const broken = { name: "9999-broken", sqlite: "CREATE TABLE half (id); INSERT INTO nowhere VALUES (1);" };

  test("is taken back whole, and the database goes on under the version before", async () => {
    const system = createManualSystem();
    const store = await openSqlite({ path, system, exclusive: true });
    const { verification } = await createActs(store, system).send(ann);
    await store.close();

    const db = new Sqlite(path);
    const before = [schemaOf(db), versionOf(db)];
    expect(() => migrate(db, [...migrations, broken])).toThrow(
      "migration 9999-broken failed and was taken back: no such table: nowhere",
    );
    expect([schemaOf(db), versionOf(db)]).toEqual(before);
    expect(db.inTransaction).toBe(false);
    db.close();

    const again = await openSqlite({ path, system, exclusive: true });
    const acts = createActs(again, system);
    expect(await acts.guess(verification, acts.rightCode(verification))).toBe("verified");
    await again.close();
  });

  test("leaves those before it in force, and can be tried again", () => {
    const db = new Sqlite(path);
    const good = { name: "9998-good", sqlite: "CREATE TABLE good (id)" };
    expect(() => migrate(db, [...migrations, good, broken])).toThrow("9999-broken");
    expect(versionOf(db)).toBe(migrations.length + 1);
    migrate(db, [...migrations, good, { ...broken, sqlite: "CREATE TABLE half (id)" }]);
    expect(versionOf(db)).toBe(migrations.length + 2);
    db.close();
  });
});

describe("wrong codes and limits from before they bore a master key's id", () => {
  /** Migrates the fixture, of which so many master keys are said to have written; tells whose its rows are then. */
  function kidsAfter(known: 1 | 2): unknown[] {
    copyFileSync(fixture, path);
    const db = new Sqlite(path);
    if (known === 2) db.exec("INSERT INTO master_keys VALUES (7, x'00', 0)");
    migrate(db, migrations);
    const kids = ["phones", "buckets"].map((table) => db.prepare(`SELECT DISTINCT kid FROM ${table}`).pluck().all());
    db.close();
    return kids;
  }

  test("are those of the one key that the database knows", () => {
    const [key] = ringOf(fixtureKeyByte).all;
    expect(kidsAfter(1)).toEqual([[key?.kid], [key?.kid]]);
  });

  test("may be any key's where it knows several, and then none of them is dropped", async () => {
    expect(kidsAfter(2)).toEqual([[null], [null]]);
    const db = new Sqlite(path);
    db.exec("DELETE FROM verifications");
    db.close();
    const store = await openSqlite({ path, system: createManualSystem(5, fixtureEndMs + 90_000), exclusive: true });
    await expect(store.registry.admitMasterKeys(ringOf(fixtureKeyByte).all)).rejects.toBeInstanceOf(MasterKeyMismatch);
    await store.close();
  });
});

test("a day's messages of before the counters are counted on", async () => {
  const system = createManualSystem();
  const db = new Sqlite(path);
  migrate(
    db,
    migrations.filter(({ name }) => name < "0012"),
  );
  const day = Math.floor(testEpochMs / 86_400_000);
  db.exec(`INSERT INTO daily_messages (tenant, day, count, warned, warned_cap) VALUES ('default', ${day}, 8, 80, 9)`);
  db.close();
  const store = await openSqlite({ path, system, exclusive: true });
  const acts = createActs(store, system, ringOf(1), { ...testPolicy, dailyMessagesMax: 9 });
  const last = await acts.send(ann);
  expect([shareOf(last), await acts.trySend(ben)]).toEqual([100, "SPEND_LIMIT"]);
  await store.close();
});

test("an up-to-date database is opened without a write, also while another process writes", () => {
  const db = new Sqlite(path, { timeout: 0 });
  migrate(db, migrations);
  const other = new Sqlite(path, { timeout: 0 });
  other.exec("BEGIN IMMEDIATE");
  expect(() => migrate(db, migrations)).not.toThrow();
  other.exec("ROLLBACK");
  other.close();
  db.close();
});

describe("a database of the first schema", () => {
  let store: Store;
  const system = createManualSystem(5, fixtureEndMs + 90_000);
  const keys = ringOf(fixtureKeyByte);
  beforeEach(async () => {
    copyFileSync(fixture, path);
    store = await openSqlite({ path, system, exclusive: true });
    await store.registry.admitMasterKeys(keys.all);
  });
  afterEach(() => store.close());

  /** The one verification that the fixture has in a state, whose number is its place in the first schema. */
  async function find(state: 0 | 1 | 2) {
    const db = new Sqlite(path);
    const ids = db.prepare<[number], { id: Buffer }>("SELECT id FROM verifications WHERE state = ?").all(state);
    db.close();
    const verification = await store.readVerification("default", ids[0]?.id.toString("base64url") ?? "");
    if (verification === undefined) throw new Error("it is not there");
    return verification;
  }

  test("is as the first migration makes it", () => {
    // In a copy: to read it alone would leave files beside it.
    const copy = join(folder, "copy.db");
    copyFileSync(fixture, copy);
    const db = new Sqlite(copy);
    const fresh = new Sqlite(":memory:");
    migrate(fresh, migrations.slice(0, 1));
    expect([versionOf(db), schemaOf(db)]).toEqual([1, schemaOf(fresh)]);
    db.close();
    fresh.close();
  });

  test("has its pending verification verified, with the attempt counted that was spent", async () => {
    const acts = createActs(store, system, keys);
    const pending = await find(0);
    expect(pending).toMatchObject({ state: "PENDING", attempts: 1, purpose: "login", locale: "en", region: "NL" });
    expect(pending.channel).toBe("sms");
    expect(pending).toMatchObject({ webOrigin: "https://shop.example", appHash: undefined });
    expect(await acts.guess(pending, acts.wrongCode(pending))).toBe("CODE_MISMATCH");
    expect(await acts.guess(pending, acts.rightCode(pending))).toBe("verified");
    expect(await acts.read(pending)).toMatchObject({ state: "VERIFIED", attempts: 3, salt: null });
  });

  test("has what happens from now on noted, and nothing of what came before", async () => {
    const acts = createActs(store, system, keys);
    const pending = await find(0);
    expect(pending.log).toEqual(emptyLog);
    const offsetMs = system.now() - pending.createMs;
    expect(await acts.guess(pending, acts.wrongCode(pending))).toBe("CODE_MISMATCH");
    expect((await acts.read(pending)).log).toEqual(logOf([offsetMs, "guess", "wrong"]));
    expect((await find(2)).log).toEqual(emptyLog);
  });

  test("answers for what had ended, as it ended", async () => {
    const acts = createActs(store, system, keys);
    const ended: [1 | 2, State, string][] = [
      [1, "VERIFIED", "OTP_ALREADY_VERIFIED"],
      [2, "EXPIRED", "OTP_EXPIRED"],
    ];
    for (const [number, state, reason] of ended) {
      const verification = await find(number);
      expect(verification).toMatchObject({ state, salt: null });
      expect(await acts.guess(verification, "123456")).toBe(reason);
    }
  });

  test("remembers its phones, its idempotency records, its messages and its API key", async () => {
    const acts = createActs(store, system, keys);
    const claim = idempotencyClaim(keys, fixtureIdempotency, ["+31612345678"]);
    const pending = await find(0);
    expect(await acts.phone(ann)).toEqual({
      tats: [fixtureEndMs + 1_000, fixtureEndMs + 60_000],
      history: { wrongCodes: [[Math.floor(fixtureEndMs / 86_400_000), 1]], refunds: [fixtureEndMs] },
      openAttempts: 4,
    });
    expect((await acts.phone(ben)).openAttempts).toBe(0);
    expect(await acts.trySend(ann, { claim })).toBe("replay");
    const jobs = await acts.claim();
    expect(jobs.map(({ verification }) => verification.id)).toEqual([pending.id]);
    expect(jobs.map(({ message }) => message.channel)).toEqual(["sms"]);
    const { authenticate } = createAuthenticate({
      store,
      failureLimit: { burst: 1, intervalMs: 1_000 },
      isShared: () => false,
      onFault: (error) => expect.unreachable(String(error)),
    });
    expect(await authenticate(`Bearer ${fixtureApiKey}`, () => ({ name: "192.0.2.1", text: undefined }))).toMatchObject(
      {
        ok: true,
        value: { name: "first" },
      },
    );
  });
});
