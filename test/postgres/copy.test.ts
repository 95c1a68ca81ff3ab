/**
 * The copy to PostgreSQL where it must not be made, and where it breaks off: then the target is empty, the file is as it
 * was, and the copy can be made again. And that the copy knows both schemas whole.
 */
import Sqlite from "better-sqlite3";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import {
  copiedTables,
  followingTables,
  postgresOnly,
  sqliteOnly,
  sqliteOnlyColumns,
} from "../../src/store/move/copy.ts";
import { migrate } from "../../src/store/sqlite/migrate.ts";
import { migrations } from "../../src/store/sqlite/migrations.ts";
import type { Database } from "../../src/store/open.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { MasterKeyMismatch } from "../../src/store/registry.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { createSystem } from "../../src/system.ts";
import { fillUp, mountTmpfs, unmount } from "../disk/failing-disk.ts";
import { lacks } from "../support/machine.ts";
import { addEnded } from "../support/databases/backlog.ts";
import { waitFactor } from "../support/databases/opening.ts";
import { runHere } from "../support/service/command-line.ts";
import { countRows, inDatabase, select } from "../support/databases/rows.ts";
import { newDatabase } from "../support/databases/project-database.ts";
import { cleanEnv, launcher } from "../support/processes/process.ts";
import { startTcpProxy, through, type TcpProxy } from "../support/network/tcp-proxy.ts";
import { temporaryFolder } from "../support/service/world.ts";
import { createActs, ringOf, type Acts } from "../store/acts.ts";
import type { E164 } from "../../src/otp/phone-number.ts";

/** Verifications in the file, and as many messages. */
const count = 700;
const keys = ringOf(2, 1);

let template: string;
let folder: string;
let path: string;
let url: string;
let target: Database;
beforeAll(async () => {
  template = temporaryFolder();
  await addEnded(join(template, "otp.db"), count, 1);
  const store = await openSqlite({ path: join(template, "otp.db"), system: createSystem(), exclusive: false });
  await store.registry.admitMasterKeys(keys.all.slice(1));
  await store.registry.admitMasterKeys(keys.all);
  await store.close();
});
afterAll(() => rmSync(template, { recursive: true }));
beforeEach(async () => {
  folder = temporaryFolder();
  path = join(folder, "otp.db");
  copyFileSync(join(template, "otp.db"), path);
  url = (await newDatabase()) ?? "";
  target = { kind: "postgres", url };
  vi.stubEnv("OTP_DATABASE_URL", `file:${path}`);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

const copy = (to = url) => runHere(["copy", "--to", to]);
const inTarget = (sql: string) => select(target, sql);

/** Makes the tables in the target, as a server that never got further. */
async function migrateTarget(): Promise<void> {
  await (await openPostgres({ url, system: createSystem(), waitFactor })).close();
}

async function expectRefusal(says: string | RegExp): Promise<void> {
  const { code, output, errors } = await copy();
  expect({ code, output }).toEqual({ code: 1, output: "" });
  expect(errors).toMatch(says);
}

/** The file is as it was, and the copy is made once nothing is in its way. */
async function expectCopyNow(): Promise<void> {
  await (await openSqlite({ path, system: createSystem(), exclusive: true })).close();
  expect(await copy()).toMatchObject({ code: 0 });
  expect(await countRows(target, "messages")).toBe(count);
}

describe("the copy knows", () => {
  const kinds: Record<string, string> = { bigint: "INTEGER", smallint: "INTEGER", text: "TEXT", bytea: "BLOB" };

  test("every table and every column of both schemas, and what each takes", async () => {
    const db = new Sqlite(":memory:");
    migrate(db, migrations);
    const here = db
      .prepare<[], Record<string, unknown>>(
        `SELECT t.name || '.' || c.name AS name, c.type AS type, c."notnull" = 1 OR c.pk > 0 AS required
         FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'`,
      )
      .all();
    db.close();
    await migrateTarget();
    const there = await inTarget(
      `SELECT table_name || '.' || column_name AS name, data_type AS type, (is_nullable = 'NO')::int AS required
       FROM information_schema.columns WHERE table_schema = current_schema()`,
    );
    const of = (rows: typeof here, but: readonly string[]) =>
      rows
        .filter(({ name }) => ![String(name), String(name).split(".")[0] ?? ""].some((each) => but.includes(each)))
        .map(({ name, type, required }) => `${String(name)} ${kinds[String(type)] ?? String(type)} ${String(required)}`)
        .toSorted();
    expect(of(there, postgresOnly)).toEqual(of(here, [...sqliteOnly, ...sqliteOnlyColumns]));
    const tables = new Set(here.map(({ name }) => String(name).split(".")[0] ?? ""));
    expect(tables).toEqual(
      new Set([...copiedTables, ...followingTables, ...sqliteOnly.filter((table) => table !== "moved")]),
    );
  });

  test.each([
    { where: "SQLite", sql: "CREATE TABLE vouchers (id INTEGER)", says: "the copy does not know the table vouchers." },
    { where: "SQLite", sql: "ALTER TABLE phones ADD COLUMN seen_ms INTEGER", says: "has phones.seen_ms." },
    { where: "PostgreSQL", sql: "ALTER TABLE phones ADD COLUMN seen_ms bigint", says: "has phones.seen_ms." },
  ])("when $where has more than that, and refuses: $says", async ({ where, sql, says }) => {
    await migrateTarget();
    if (where === "SQLite") inDatabase(path, (db) => db.exec(sql));
    else await inTarget(sql);
    await expectRefusal(says);
    expect(await countRows(target, "verifications")).toBe(0);
  });
});

test("what is kept of phones is the same there, more of them than are moved at once, and once when copied again", async () => {
  const phoneAt = (i: number) => `+316${10_000_000 + i}` as E164;
  const some = [0, 300, 599];
  const system = createSystem();
  const file = await openSqlite({ path, system, exclusive: true });
  const acts = createActs(file, system, keys);
  const sent = await Promise.all(Array.from({ length: 600 }, (_, i) => acts.send(phoneAt(i))));
  const verified = sent.slice(300).map(({ verification }) => verification);
  for (const v of verified) await acts.guess(v, acts.wrongCode(v));
  await Promise.all(verified.slice(-1).map((v) => acts.guess(v, acts.rightCode(v))));
  const kept = (from: Acts) => Promise.all(some.map(async (i) => ({ ...(await from.phone(phoneAt(i))) })));
  const before = await kept(acts);
  expect(before[1]?.history.wrongCodes).toHaveLength(1);
  expect(before[2]?.history.refunds).toHaveLength(1);
  await file.close();
  expect(await copy()).toMatchObject({ code: 0 });
  const other = await newDatabase();
  expect(await copy(other)).toMatchObject({ code: 0 });
  for (const to of [url, other ?? ""]) {
    const store = await openPostgres({ url: to, system, waitFactor });
    expect(await kept(createActs(store, system, keys))).toEqual(before);
    await store.close();
  }
});

describe("nothing is copied", () => {
  test.each([
    {
      holds: "an API key",
      sql: "INSERT INTO api_keys VALUES ('k', 'live', 'default', '', '', '', 0, '', 1)",
      table: "api_keys",
    },
    { holds: "a server's master key", sql: "INSERT INTO master_keys VALUES (1, '', 1)", table: "master_keys" },
    {
      holds: "a tenant's settings",
      sql: 'UPDATE tenants SET settings = \'{"brand":"A"}\', revision = 1',
      table: "tenants",
    },
  ])("to a target that holds $holds", async ({ sql, table }) => {
    await migrateTarget();
    await inTarget(sql);
    const before = await inTarget(`SELECT * FROM ${table}`);
    await expectRefusal(`its table ${table} holds rows, and only an empty database is copied to`);
    expect(await inTarget(`SELECT * FROM ${table}`)).toEqual(before);
    expect(await countRows(target, "verifications")).toBe(0);
  });

  test("to a database of something else, in which nothing is made then", async () => {
    await inTarget("CREATE TABLE messages (body text)");
    await expectRefusal("the target cannot be used: it has a table messages that is not otpd's");
    expect(await inTarget("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")).toEqual([
      { tablename: "messages" },
    ]);
  });

  test("to a database of a newer version, nor to one that would lose commits", async () => {
    await migrateTarget();
    await inTarget("UPDATE schema_version SET least = 999");
    await expectRefusal("the database was written by a newer version of otpd");
    const unsafe = `${url}%20-c%20synchronous_commit%3Doff`;
    expect((await copy(unsafe)).errors).toContain("synchronous_commit is off");
  });

  test("when codes that have expired would live again", async () => {
    inDatabase(path, (db) => db.prepare("UPDATE clock SET now_ms = ?").run(Date.now() + 3_600_000));
    await expectRefusal(
      /the target's clock is (3600|3599|35\d\d) s behind that: codes that have expired would live again/,
    );
    expect(await countRows(target, "verifications")).toBe(0);
  });

  test("from a file that is not there, which is not made then, nor from PostgreSQL", async () => {
    vi.stubEnv("OTP_DATABASE_URL", `file:${folder}/other.db`);
    await expectRefusal(`Nothing was copied: there is no database ${folder}/other.db.`);
    expect(existsSync(join(folder, "other.db"))).toBe(false);
    vi.stubEnv("OTP_DATABASE_URL", url);
    await expectRefusal("OTP_DATABASE_URL names a PostgreSQL database, and copy takes from a SQLite file.");
  });

  test("by a link to a file that a server has, whose lock lies beside the file itself", async () => {
    const store = await openSqlite({ path, system: createSystem(), exclusive: true });
    const link = join(folder, "link.db");
    symlinkSync(path, link);
    vi.stubEnv("OTP_DATABASE_URL", `file:${link}`);
    await expectRefusal(`Nothing was copied: a server runs on ${link}: stop it first`);
    await store.close();
    await expectCopyNow();
  });

  test("when not every row arrives", async () => {
    await migrateTarget();
    await inTarget("CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'");
    await inTarget("CREATE TRIGGER skip BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION skip()");
    await expectRefusal(`Nothing was copied: of ${count} rows of messages only 0 have arrived.`);
    expect(await countRows(target, "verifications")).toBe(0);
    await inTarget("DROP TRIGGER skip ON messages");
    await expectCopyNow();
  });

  test.each([
    { args: ["--to", "mysql://otp:c4n4ry@127.0.0.1/otp"], code: 2, says: "--to must be postgres://" },
    { args: ["--to", "file:c4n4ry"], code: 2, says: "--to must be postgres://" },
    { args: ["postgres://otp:c4n4ry@127.0.0.1:1/otp"], code: 2, says: "Give the target with --to or --to-file." },
    { args: ["--too=postgres://otp:c4n4ry@127.0.0.1:1/otp"], code: 2, says: "Unknown option '--too'" },
    {
      args: ["--to", "postgres://otp:c4n4ry@127.0.0.1:1/otp", "--to-file", "x"],
      code: 2,
      says: "Give one of --to and",
    },
    { args: [], code: 2, says: "Give one of --to and --to-file." },
    { args: ["--to-file", "/c4n4ry"], code: 1, says: "--to-file names a file that is not there." },
    { args: ["--to", "postgres://otp:c4n4ry@127.0.0.1:1/otp"], code: 1, says: "cannot be used: connect ECONNREFUSED" },
  ])("by otpd copy $args, and no password is shown", async ({ args, code, says }) => {
    const result = await runHere(["copy", ...args]);
    expect(result).toMatchObject({ code, output: "" });
    expect(result.errors).toContain(says);
    expect(result.errors).not.toContain("c4n4ry");
  });

  test("with a wrong password, which is not shown either", async () => {
    const { code, errors } = await copy(url.replace(":test@", ":c4n4ry@"));
    expect({ code, errors }).toMatchObject({
      code: 1,
      errors: expect.stringContaining("password authentication failed") as string,
    });
    expect(errors).not.toContain("c4n4ry");
  });
});

describe("a copy that breaks off", () => {
  let proxy: TcpProxy;
  beforeEach(async () => {
    // The only commit to come is then the copy's.
    await migrateTarget();
    proxy = await startTcpProxy(Number(new URL(url).port));
  });
  afterEach(() => proxy.stop());

  const copyOver = () => copy(through(proxy, url));
  /** Resolves once the copy is in the middle of its rows, from where on nothing gets through. */
  const silenceInTheMiddle = async () => {
    await proxy.replace("there", "INSERT INTO messages", "INSERT INTO messages");
    proxy.swallow();
  };

  test.each(["INSERT INTO messages", "COMMIT"])(
    "by a connection that is lost before %s arrives leaves the target empty, and can be made again",
    async (statement) => {
      const cut = proxy.cutAt("there", statement);
      const { code, errors } = await copyOver();
      await cut;
      expect(code).toBe(1);
      expect(errors).toMatch(/Nothing was copied: .*ECONNRESET\.\n$/);
      expect(await countRows(target, "verifications")).toBe(0);
      await expectCopyNow();
    },
  );

  test("by kill -9 in the middle does so too", async () => {
    const silenced = silenceInTheMiddle();
    const env = cleanEnv({ OTP_DATABASE_URL: `file:${path}` });
    const child = spawn(process.execPath, [launcher, "copy", "--to", through(proxy, url)], { env });
    await silenced;
    child.kill("SIGKILL");
    expect(await once(child, "close")).toEqual([null, "SIGKILL"]);
    proxy.cut();
    expect(await countRows(target, "verifications")).toBe(0);
    await expectCopyNow();
  });

  test("after its commit was made was made all the same", async () => {
    const cut = proxy.cutAt("back", "COMMIT");
    const { code, output } = await copyOver();
    await cut;
    expect({ code, output }).toMatchObject({ code: 0, output: expect.stringContaining("Moved ") as string });
    await expectRefusal("holds rows");
    await expect(openSqlite({ path, system: createSystem(), exclusive: true })).rejects.toThrow("was moved to");
  });

  test.each([
    { lost: "commit", direction: "there", rerun: { code: 0 } },
    { lost: "answer", direction: "back", rerun: { code: 1, errors: expect.stringContaining("holds rows") as string } },
  ] as const)(
    "and whose $lost is lost for good leaves a marked file, to be copied again",
    async ({ direction, rerun }) => {
      const gone = proxy.cutAt(direction, "COMMIT").then(() => proxy.stop());
      const { code, errors } = await copyOver();
      await gone;
      expect(code).toBe(1);
      expect(errors).toContain("Whether everything was copied is not known: the target was lost at the commit");
      await expect(openSqlite({ path, system: createSystem(), exclusive: true })).rejects.toThrow("was moved to");
      expect(await copy()).toMatchObject(rerun);
      expect(await countRows(target, "messages")).toBe(count);
      // There is one to stop again.
      proxy = await startTcpProxy(1);
    },
  );

  const lacksTmpfs = lacks("a mark that the disk has no room for", "a tmpfs that may be mounted");

  test.skipIf(lacksTmpfs)("for want of room for the mark says so", async () => {
    const small = join(folder, "small");
    mkdirSync(small);
    mountTmpfs(small, 2_048);
    try {
      copyFileSync(path, join(small, "otp.db"));
      vi.stubEnv("OTP_DATABASE_URL", `file:${small}/otp.db`);
      const full = proxy.replace("there", "COMMIT", "COMMIT").then(() => fillUp(small));
      const { code, errors } = await copyOver();
      await full;
      expect(code).toBe(1);
      expect(errors).toContain(
        `Everything was copied, but ${small}/otp.db could not be marked as moved: database or disk is full.`,
      );
    } finally {
      unmount(small);
    }
  });

  test("lets nobody else write to either side before", async () => {
    const silenced = silenceInTheMiddle();
    const copying = copyOver();
    await silenced;
    const write = "INSERT INTO tenants (id, create_ms) VALUES ('late', 1)";
    await expect(inTarget(`SET lock_timeout = 50; ${write}`)).rejects.toThrow("lock timeout");
    expect(() => inDatabase(path, (db) => db.pragma("busy_timeout = 0") && db.exec(write))).toThrow("is locked");
    proxy.cut();
    expect(await copying).toMatchObject({ code: 1, output: "" });
  });
});

test("a command that had opened the file before cannot write to it after the copy", async () => {
  const store = await openSqlite({ path, system: createSystem(), exclusive: false });
  expect(await copy()).toMatchObject({ code: 0 });
  await expect(store.ping()).rejects.toThrow("this database was moved to PostgreSQL");
  const put = { tenant: "default", prefix: "+1", verdict: "block", note: "", createMs: 1 } as const;
  await expect(store.registry.putDestination(put)).rejects.toThrow("this database was moved to PostgreSQL");
  await store.close();
});

test("rows of which nobody knows the master key keep every key needed, as on SQLite", async () => {
  inDatabase(path, (db) => {
    db.exec("DELETE FROM verifications; DELETE FROM messages");
    db.exec("INSERT INTO phones VALUES (x'01', '[]', '[]', NULL)");
  });
  expect(await copy()).toMatchObject({ code: 0 });
  const store = await openPostgres({ url, system: createSystem(), waitFactor });
  await expect(store.registry.admitMasterKeys(keys.all.slice(0, 1))).rejects.toBeInstanceOf(MasterKeyMismatch);
  await store.registry.admitMasterKeys(keys.all);
  await store.close();
});
